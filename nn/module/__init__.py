"""Modules: registration, parameters, state dicts, hooks, traversal and copies for inference."""
