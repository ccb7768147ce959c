"""Call the adapter of a library, such as `scopes.torch`, by the library's name."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from scopes.adapters.torch.report import HeldReport

_LIBRARIES = ("torch", "jax", "cupy")
# The libraries of classes, by the package and the name of the class.
_CLASSES = {
    ("torch", "Tensor"): "torch",
    ("jax", "ArrayImpl"): "jax",
    ("jaxlib", "ArrayImpl"): "jax",
    ("cupy", "ndarray"): "cupy",
}


def import_adapter_of(x: object) -> bool:
    """Import the adapter for `x`, such as ``scopes.torch``. Return False if there is none for `x`."""
    for kind in type(x).__mro__:
        library = _CLASSES.get((str(kind.__module__).partition(".")[0], kind.__name__))
        if library is not None:
            import_module(f"scopes.{library}")
            return True
    return False


def loaded() -> list[str]:
    """Return the names of the libraries that the program has imported."""
    return [name for name in _LIBRARIES if name in sys.modules]


def still_held() -> HeldReport | None:
    """Return the report of ``scopes.torch.still_held``, or None if it has no rows."""
    adapter = sys.modules.get("scopes.torch")
    report: HeldReport | None = None if adapter is None else adapter.still_held()
    return report if report is not None and report.rows else None


def owning(library: str, **options: Any) -> AbstractContextManager[Any]:
    """Return a context manager: scopes own new tensors of `library` inside its block.

    Import the adapter, ``scopes.<library>``. `options` are the arguments of its ``owning()``.

    Raises
    ------
    ImportError
        If the library is not installed, or its version is not supported.
    """
    return import_module(f"scopes.{library}").owning(**options)  # type: ignore[no-any-return]


def enable(library: str) -> None:
    """Import the adapter for `library`, and make scopes own each new tensor of this thread.

    Raises
    ------
    ImportError
        If the library is not installed, or its version is not supported.
    """
    import_module(f"scopes.{library}").enable()


def disable(library: str) -> None:
    """Undo ``enable(library)``."""
    import_module(f"scopes.{library}").disable()
