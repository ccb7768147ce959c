"""Rarely used layers of PyTorch."""
