"""Private helpers of all rooms: they know neither scopes nor tensors."""
