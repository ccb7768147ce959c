"""Methods of PyTorch that programs rarely use."""
