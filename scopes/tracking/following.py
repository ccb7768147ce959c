"""Track the tensors of PyTorch, JAX and CuPy as soon as the program has imported the library.

While tracking is on, a finder in ``sys.meta_path`` notices the import of a library. Tracking gives the new
tensors no owner: scopes own them only inside ``owning()``.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # `importlib.abc` loads 20 modules, such as `tempfile`. Python needs only the methods.
    MetaPathFinder = Loader = object

# The module with the adapter of each library, whose `watching()` tracks new tensors.
_ADAPTERS = {
    "torch": "scopes.adapters.torch.owning",
    "jax": "scopes.adapters.jax",
    "cupy": "scopes.adapters.cupy",
}
# The module of each adapter that imports the library. It is not in ``sys.modules`` if that failed.
_IMPORTERS = _ADAPTERS | {"torch": "scopes.adapters.torch.library"}
# The environment variable that turns this off for PyTorch, also in child processes.
NO_TORCH = "DISPOSESCOPE_NO_TORCH"


class _Loader(Loader):
    """Loads a library with its own loader, and then follows it."""

    def __init__(self, library: str, loader: Loader) -> None:
        self._library = library
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        # If the adapter itself imports the library, it calls `follow` at the end of its own import.
        if _IMPORTERS[self._library] not in sys.modules:
            follow(self._library)


class _Finder(MetaPathFinder):
    """Finds the libraries as the other finders do."""

    def __init__(self) -> None:
        self._searched: set[str] = set()

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name not in _ADAPTERS or name in self._searched:
            return None
        from importlib.util import find_spec  # here, since it takes time to load

        self._searched.add(name)  # `find_spec` asks this finder again
        try:
            spec = find_spec(name)
        finally:
            self._searched.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(name, spec.loader)
        return spec


_finder = _Finder()
_open: dict[str, AbstractContextManager[object]] = {}
_block_count = 0


def begin() -> None:
    """Follow the libraries that are imported, now or later. Calls nest."""
    global _block_count
    _block_count += 1
    if _block_count == 1:
        sys.meta_path.insert(0, _finder)
        for library in _ADAPTERS:
            spec = getattr(sys.modules.get(library), "__spec__", None)
            # Another thread may be importing it. Then the program has no tensors of it yet.
            if spec is not None and not getattr(spec, "_initializing", False):
                follow(library)


def end() -> None:
    """Undo one ``begin()``."""
    global _block_count
    _block_count -= 1
    if _block_count == 0:
        sys.meta_path.remove(_finder)
        while _open:
            _open.popitem()[1].__exit__(None, None, None)


def follow(library: str) -> None:
    """Track new tensors of an imported library, if tracking is on."""
    is_off = library == "torch" and os.environ.get(NO_TORCH, "") not in ("", "0")
    if not _block_count or library in _open or is_off:
        return
    try:
        block: AbstractContextManager[object] = import_module(_ADAPTERS[library]).watching()
        block.__enter__()
    except Exception as error:  # noqa: BLE001  # a module that only has the library's name must load
        warnings.warn(f"tensors of {library} are not tracked: {error}", stacklevel=2)
        return
    _open[library] = block
