"""PyTorch's tensors in scopes: how they end, how they are noticed, what belongs to others, their memory."""
