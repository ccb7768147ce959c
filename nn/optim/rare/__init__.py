"""Rarely used optimizers of PyTorch."""
