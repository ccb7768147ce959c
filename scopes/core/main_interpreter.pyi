"""Refuses to be imported in a subinterpreter; has no names."""
