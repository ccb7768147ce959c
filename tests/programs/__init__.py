"""PyTorch's official examples and minGPT, with imports alone changed, beside PyTorch: ``make programs``."""
