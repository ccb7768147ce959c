"""Scopes for each step of a framework that trains PyTorch's models. Each module imports one framework."""
