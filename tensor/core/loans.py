"""Somebody else's memory, held for as long as any array lies over it, and given back at once after that."""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import numpy as np

from tensor.core.storage import Borrowed, Storage, join
from tensor.core.tensor_core import wrap_with
from tensor.memory.books import owner_of
from tensor.memory.leases import books

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from tensor.core.storage import Array
    from tensor.core.tensor import Tensor
    from tensor.memory.books import Books

    OnRelease = Callable[[], object] | None


class Loan(ref[Any]):
    """Borrowed bytes, in ``bytes_external`` for as long as any array lies over them.

    It refers to what all of these arrays hold last: a memoryview of the source, or an address. That lets go
    of the source first and tells afterwards, when an `on_release` may close it. (A finalizer of an array
    would run before the array lets go.)
    """

    __slots__ = ("held", "nbytes", "on_release")

    # What must stay besides.
    held: object
    nbytes: int
    on_release: OnRelease

    # Those of `ref` ask the referent.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


_loans: set[Loan] = set()
# An array that refers to itself, which the garbage collector doesn't see, stays for good, and what else it
# refers to: when the interpreter ends, loans outlive the modules whose tensors they are under.
_forever = np.empty(2, object)
_forever[0], _forever[1] = _loans, _forever


# Names are bound here: when the interpreter ends, those of modules may be gone.
def _end(loan: Loan, books: Books = books, forget: Callable[[Loan], None] = _loans.discard) -> None:
    forget(loan)
    books.external -= loan.nbytes
    loan.held = None
    if loan.on_release is not None:
        # What it raises goes to sys.unraisablehook, as from any finalizer.
        loan.on_release()


def open_loan(source: object, nbytes: int, on_release: OnRelease, held: object = None) -> None:
    """Count `nbytes` bytes of `source` as borrowed until it goes; then let go of `held`, and tell."""
    loan = Loan(source, _end)
    loan.held = held
    loan.nbytes = nbytes
    loan.on_release = on_release
    books.external += nbytes
    _loans.add(loan)


def take(buffer: Buffer | np.ndarray[Any, Any]) -> tuple[memoryview, object]:
    """Return all bytes of `buffer`, which can't be resized or closed until they go; and what else to hold."""
    try:
        # Unlike a memoryview, it also holds a memoryview that it is made of: shared_memory's `close` then
        # fails before it has released anything.
        exporter = PickleBuffer(cast("Buffer", buffer))
    except TypeError:
        raise TypeError(
            "from_blob() takes a buffer (bytes, bytearray, array.array, memoryview, mmap, the buf of a "
            f"SharedMemory), not {type(buffer).__name__}: write tensor.tensor(data) for lists and numbers"
        ) from None
    try:
        view = memoryview(exporter)
    except TypeError:
        # What a class written in Python exports (`__buffer__`, from 3.12 on) only a memoryview passes on.
        exporter.release()
        exporter = PickleBuffer(memoryview(cast("Buffer", buffer)))
        view = memoryview(exporter)
    if "O" in view.format:
        raise TypeError("from_blob() can't lie over references to Python objects: copy their values")
    try:
        raw = exporter.raw()
    except BufferError:
        raise ValueError(
            "from_blob() takes a buffer without gaps: pass the whole buffer with offset and strides, or "
            "write tensor.from_numpy(numpy.asarray(buffer))"
        ) from None
    return raw, _root_of(buffer) if isinstance(buffer, np.ndarray) else None


def _root_of(array: np.ndarray[Any, Any]) -> PickleBuffer | None:
    # A memmap refers to its mmap but doesn't keep it from being closed.
    root = owner_of(array).base
    try:
        return None if root is None else PickleBuffer(cast("Buffer", root))
    except TypeError:
        return None  # no exporter: the reference that the array holds must do


def array_in(source: memoryview, dtype: np.dtype[Any], count: int, start: int) -> Array:
    """Return `count` elements from byte `start` of `source` on, as an array that holds `source`."""
    # Over `source` itself NumPy would hold what is under it, and not the view.
    held: Any = PickleBuffer(source)
    return np.frombuffer(held, dtype, count, start)


# For those whose bytes a loan counts.
_LENT = Borrowed(0)


def wrap_borrowed(array: Array, block: Array, borrowed: Borrowed = _LENT) -> Tensor:
    """Return a tensor over `array`, a view of the `block` that lies over somebody else's memory.

    Writes go through, and values are never shared lazily.
    """
    storage = Storage(block)
    storage.lent = True
    storage.borrowed = borrowed
    x = wrap_with(array, None, None)
    join(storage, x)
    return x
