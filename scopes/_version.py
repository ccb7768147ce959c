"""The version of all packages, which the build reads from this file."""

__version__ = "0.2.0"
