"""Layers: modules that compute, one family a file, and modules that hold others."""
