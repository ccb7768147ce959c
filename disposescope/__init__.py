"""Entry points of the distribution: notebook extension, command and pytest plugin.

The library is in ``scopes``, ``tensor`` and ``nn``. Each is loaded at its first use: pytest and the command
must also start in a project that has modules with these names.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__: str

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%scope`` and ``%%leaks`` in `shell`. ``%load_ext disposescope`` calls this."""
    import_module("scopes.notebook").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove ``%%scope`` and ``%%leaks``. ``%unload_ext disposescope`` calls this."""
    import_module("scopes.notebook").unload_ipython_extension(shell)


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'disposescope' has no attribute {name!r}")
    found: str = import_module("importlib.metadata").version("disposescope")
    return found
