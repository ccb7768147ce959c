"""Layers that no known program uses: they complete PyTorch's names."""
