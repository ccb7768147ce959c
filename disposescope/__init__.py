"""The name that was installed: ``%load_ext disposescope``, the command ``disposescope``, the pytest plugin.

The library is in ``scopes``, ``tensor`` and ``nn``. They are loaded at their first use: a project may
have modules of these names, and pytest and the command must still start there.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__: str

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Let cells of the IPython `shell` begin with ``%%scope``: what ``%load_ext disposescope`` calls."""
    import_module("scopes.notebook").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take ``%%scope`` away again: what ``%unload_ext disposescope`` calls."""
    import_module("scopes.notebook").unload_ipython_extension(shell)


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'disposescope' has no attribute {name!r}")
    found: str = import_module("importlib.metadata").version("disposescope")
    return found
