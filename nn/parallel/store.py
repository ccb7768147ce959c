"""Tensors that share memory with Ray's object store, and the lines that requested them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from nn.module.docstrings import example
from nn.parallel.errors import require
from scopes.lowlevel import call_site, format_bytes
from tensor import from_numpy
from tensor.lowlevel import TensorCore, map_nested, owner_of, snapshot

if TYPE_CHECKING:
    from scopes import Site
    from tensor.lowlevel import Array


class StorePin(NamedTuple):
    """Array that pins an object of the store."""

    nbytes: int
    #: The lines that requested it.
    site: Site

    def __str__(self) -> str:
        return f"{format_bytes(self.nbytes)} in the store, requested by {self.site}: {self.site.text}"


# The blocks in the store by the id of their array. An entry is removed with its array.
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
    still refers to a tensor or a view of it. To keep values, copy them with ``tensor.tensor(x.numpy())``; a
    write copies a tensor too. `store_pins` names the lines that hold objects.

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
    """Count `block`, memory of the store, as held by `site` while the array is alive."""
    if (
        block.flags.writeable or id(block) in _pins
    ):  # arrays of the store are read-only; others belong to the process
        return
    key = id(block)

    def forget(_: ref[Array]) -> None:
        _pins.pop(key, None)

    _pins[key] = ref(block, forget), StorePin(block.nbytes, site)


@example("nn.parallel.store_pins()", [])
def store_pins() -> list[StorePin]:
    """Return the objects of the store that this process holds, with the lines that requested them."""
    return sorted([pin for _, pin in list(_pins.values())], key=lambda pin: -pin.nbytes)


def figures() -> tuple[int, int]:
    """Return the number of arrays in the store that are held, and their bytes."""
    pins = list(_pins.values())
    return len(pins), sum([pin.nbytes for _, pin in pins])


def _as_array(x: Any) -> Any:
    return snapshot(x) if isinstance(x, TensorCore) else x
