"""PyTorch itself, or the error that says how to install it."""

from __future__ import annotations

from scopes.foreign.adapter import check_version, import_library

torch = import_library("torch", "PyTorch", "torch")
VERSION = torch.__version__
check_version("torch", VERSION, (2, 6))
