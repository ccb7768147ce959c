"""Import PyTorch, or raise an error with the command that installs it."""

from __future__ import annotations

from scopes.foreign.adapter import check_version, import_library

torch = import_library("torch", "PyTorch", "torch")
VERSION = torch.__version__
check_version("torch", VERSION, (2, 6))
