"""The object store as memory of others: tensors over objects, and the lines that hold some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from nn.parallel.errors import require
from scopes.lowlevel import call_site, format_bytes
from tensor import from_numpy
from tensor.lowlevel import TensorCore, map_nested, owner_of, snapshot

if TYPE_CHECKING:
    from scopes import Site
    from tensor.lowlevel import Array


class StorePin(NamedTuple):
    """One array over an object of the store, which stays there as long as it is looked at."""

    nbytes: int
    #: The lines that asked for it.
    site: Site

    def __str__(self) -> str:
        return f"{format_bytes(self.nbytes)} in the store, asked for by {self.site}: {self.site.text}"


# The blocks that lie in the store, by the id of their array; an entry goes with its array.
_pins: dict[int, tuple[ref[Array], StorePin]] = {}


def put(obj: Any) -> Any:
    """Put `obj` into Ray's object store: tensors in any containers. Return the reference, for `get`.

    Values are copied once, into the store; ``ray.get`` on the reference gives NumPy arrays in the same
    containers.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    TensorDisposedError
        If one of the tensors is empty.
    """
    return require("ray").put(map_nested(obj, _as_array, "what is put into the store"))


def get(reference: Any, timeout: float | None = None) -> Any:
    """Return what is in the object store, its arrays as tensors that lie over the store and copy nothing.

    They belong to the current scope, which releases the store's memory when it ends, even if something
    still refers to them: a view of ten elements pins its object no longer than that. What is to stay is
    cloned by its first write, or by ``tensor.tensor(x.numpy())``. `store_pins` names the lines that hold
    something.

    Parameters
    ----------
    reference
        A ``ray.ObjectRef``, or a list of them.
    timeout
        How long to wait for it to be there, in seconds; None waits for ever.

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
    """Return a tensor over an array that Ray has given; copied if no tensor can lie there."""
    block = owner_of(array)
    note(block, site)
    return from_numpy(array)


def note(block: Array, site: Site) -> None:
    """Count `block`, memory of the store, as held by `site` as long as the array is there."""
    if (
        block.flags.writeable or id(block) in _pins
    ):  # the store's arrays are read-only: others are the process's own
        return
    key = id(block)

    def forget(_: ref[Array]) -> None:
        _pins.pop(key, None)

    _pins[key] = ref(block, forget), StorePin(block.nbytes, site)


def store_pins() -> list[StorePin]:
    """Return what this process holds of the object store, with the lines that asked for it.

    Examples
    --------
    >>> from nn import parallel
    >>> parallel.store_pins()
    []
    """
    return sorted([pin for _, pin in list(_pins.values())], key=lambda pin: -pin.nbytes)


def figures() -> tuple[int, int]:
    """Return how many arrays over the store there are, and their bytes."""
    pins = list(_pins.values())
    return len(pins), sum([pin.nbytes for _, pin in pins])


def _as_array(x: Any) -> Any:
    return snapshot(x) if isinstance(x, TensorCore) else x
