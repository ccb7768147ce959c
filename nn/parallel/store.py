"""Tensors that share memory with Ray's object store, and where in the code they were requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from nn.parallel.errors import require
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.tracking.records import call_site
from tensor import from_numpy
from tensor._dtypes import Array
from tensor.autograd.nesting import map_nested
from tensor.core.tensor import TensorCore, snapshot
from tensor.memory.buffer import owner_of

if TYPE_CHECKING:
    from scopes import Site


@set_module("nn.parallel")
class StorePin(NamedTuple):
    """An array in the object store. Ray keeps the object until the array is deleted."""

    nbytes: int
    #: The place in the code that requested it.
    site: Site

    def __str__(self) -> str:
        return f"{format_bytes(self.nbytes)} in the store, requested by {self.site}: {self.site.text}"


# The arrays in the store, by id. An entry is removed when its array is deleted.
_pins: dict[int, tuple[ref[Array], StorePin]] = {}


def put(obj: Any) -> Any:
    """Put tensors in any containers into Ray's object store, and return the reference for `get`.

    Values are copied once, into the store. ``ray.get`` on the reference returns NumPy arrays in the same
    containers.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    TensorDisposedError
        If one of the tensors is disposed.
    """
    return require("ray").put(map_nested(obj, _as_array, "what is put into the store"))


def get(reference: Any, timeout: float | None = None) -> Any:
    """Return an object of the store, with its arrays as tensors that share the store's memory.

    The tensors belong to the current scope. When it ends, it releases the store's memory, even if something
    still refers to a tensor or a view of it. To keep values, copy them with ``tensor.tensor(x.numpy())``. The
    first write to a tensor also copies it. `store_pins` lists the objects that this process holds.

    Parameters
    ----------
    reference
        A ``ray.ObjectRef``, or a list of them.
    timeout
        The seconds to wait for the object; None waits without a limit.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    """
    found = require("ray").get(reference, timeout=timeout)
    site = call_site()
    return map_nested(
        found, lambda x: over_store(x, site) if isinstance(x, np.ndarray) else x, "what is in the store"
    )


def over_store(array: Array, site: Site) -> Any:
    """Return a tensor that shares memory with an array from Ray, or a copy if that is impossible."""
    block = owner_of(array)
    note(block, site)
    return from_numpy(array)


def note(block: Array, site: Site) -> None:
    """Add `block`, an array in the store, to `store_pins` until it is deleted. `site` requested it."""
    # Arrays in the store are read-only. A writable array is in this process's own memory.
    if block.flags.writeable or id(block) in _pins:
        return
    key = id(block)

    def forget(_: ref[Array]) -> None:
        _pins.pop(key, None)

    _pins[key] = ref(block, forget), StorePin(block.nbytes, site)


def store_pins() -> list[StorePin]:
    """Return the objects of the store that this process holds, and the requesting lines, largest first.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.parallel.store_pins()
    []
    """
    return sorted([pin for _, pin in list(_pins.values())], key=lambda pin: -pin.nbytes)


def figures() -> tuple[int, int]:
    """Return the number of arrays in the store that this process holds, and their bytes."""
    pins = list(_pins.values())
    return len(pins), sum([pin.nbytes for _, pin in pins])


def _as_array(x: Any) -> Any:
    return snapshot(x) if isinstance(x, TensorCore) else x
