"""Rarely used functions of PyTorch."""
