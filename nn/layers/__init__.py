"""Layers and containers of modules, with one family in each file."""
