"""Libraries whose tensors scopes can own, by name: for who learns only while running which one it is."""

from __future__ import annotations

from importlib import import_module


def enable(library: str) -> None:
    """Import the adapter for `library`, and let scopes own each new tensor of this thread from now on.

    Raises
    ------
    ImportError
        If the library is not installed, or its version is not supported.
    """
    import_module(f"scopes.{library}").enable()


def disable(library: str) -> None:
    """End what ``enable(library)`` began."""
    import_module(f"scopes.{library}").disable()
