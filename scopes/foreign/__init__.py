"""Tensors of other libraries in scopes: what an adapter is, and one for each library that has one."""
