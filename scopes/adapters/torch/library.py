"""Import PyTorch, or raise an error with the command that installs it, and try how this version behaves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scopes.adapters.adapter import check_version, import_library

R = TypeVar("R")

torch = import_library("torch", "PyTorch", "torch")
VERSION = torch.__version__
check_version("torch", VERSION, (2, 6))


def tried(function: Callable[[], R]) -> R:
    """Return the result of `function`, which tries PyTorch's behavior with its defaults.

    The function runs on a new thread. Modes, a default device and hooks of saved tensors are per thread, so
    those that are active around the import of an adapter do not change the result.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(function).result()
