"""Tensors of other libraries in scopes: the base class of adapters, and an adapter for each library."""
