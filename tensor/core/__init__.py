"""Tensors: storage and copy-on-write, the tensor itself, views, the handle."""
