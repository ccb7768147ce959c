"""PyTorch's tensors in scopes: disposal, ownership, keepers, memory."""
