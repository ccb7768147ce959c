"""The version, of all packages: the build reads it here."""

__version__ = "0.1.0"
