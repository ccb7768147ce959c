"""Modules: what they hold, parameters, state dicts, hooks, walks and copies for inference."""
