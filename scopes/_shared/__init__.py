"""Private helpers of `scopes`, `tensor` and `nn`. They know neither scopes nor tensors."""
