"""PyTorch's own test files, run on `tensor.torch`."""
