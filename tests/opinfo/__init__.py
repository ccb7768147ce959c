"""PyTorch's own test data held against `tensor.torch`: ``make opinfo``, or ``python -m tests.opinfo``."""
