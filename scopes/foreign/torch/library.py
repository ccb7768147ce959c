"""PyTorch itself, or the error that says how to install it."""

from __future__ import annotations

from scopes.foreign.adapter import import_library, raise_unsupported

torch = import_library("torch", "PyTorch", "torch")
VERSION = torch.__version__
OLDEST = (2, 6)


def _check() -> None:
    told = tuple(int(part) for part in VERSION.split("+")[0].split(".")[:2] if part.isdigit())
    if told < OLDEST:
        raise_unsupported("torch", VERSION, f"it needs {OLDEST[0]}.{OLDEST[1]} or newer")


_check()
