"""Somebody else's memory, held for as long as any array lies over it, and given back at once after that."""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensor._leases import books
from tensor._storage import owner_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from tensor._books import Books
    from tensor._storage import Array


class Loan:
    """The base of the arrays over borrowed bytes: it goes with the last of them, and with it what it holds.

    A finalizer on an array would run before the array lets go of its base, too early for an ``on_release``
    that closes the source. A loan lets go of the source first and tells afterwards. All that time its bytes
    are in ``bytes_external``.
    """

    __slots__ = ("address", "exporters", "is_readonly", "nbytes", "on_release", "owner")

    def __init__(self, address: int, nbytes: int, is_readonly: bool = False, owner: object = None) -> None:
        self.address = address
        self.is_readonly = is_readonly
        self.owner = owner
        self.exporters: list[PickleBuffer] = []
        self.on_release: Callable[[], object] | None = None
        self.nbytes = nbytes
        books.external += nbytes

    # `books` is bound here: when the interpreter ends, the names of modules may be gone.
    def __del__(self, books: Books = books) -> None:
        books.external -= self.nbytes
        for exporter in self.exporters:
            exporter.release()
        self.owner = None
        if self.on_release is not None:
            # What it raises goes to sys.unraisablehook, as from any finalizer.
            self.on_release()

    def narrow(self, offset: int, nbytes: int) -> None:
        """Borrow no more than `nbytes` bytes from `offset` on."""
        books.external -= self.nbytes - nbytes
        self.address += offset
        self.nbytes = nbytes

    def array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
    ) -> Array:
        """Return an array over the bytes from the first on; `strides` in bytes."""
        # All bytes are its base: a write that must copy finds each view's elements in it by their offset.
        return np.ndarray(shape, dtype, np.asarray(self), 0, strides)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, self.is_readonly),
        }


def address_of(view: memoryview) -> int:
    """Return where the first byte of `view` is."""
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def take(buffer: Buffer | np.ndarray[Any, Any]) -> Loan:
    """Return the loan of all bytes of `buffer`, which can't be resized or closed until the loan goes."""
    exporter = _export_of(buffer)
    try:
        with memoryview(exporter) as view:
            if "O" in view.format:
                raise TypeError("from_blob() can't lie over references to Python objects: copy their values")
            if not view.contiguous:
                raise ValueError(
                    "from_blob() takes a buffer without gaps: pass the whole buffer with offset and strides, "
                    "or write tensor.from_numpy(numpy.asarray(buffer))"
                )
        with exporter.raw() as raw:
            loan = Loan(address_of(raw), raw.nbytes, raw.readonly)
    except (TypeError, ValueError):
        exporter.release()
        raise
    loan.exporters.append(exporter)
    if isinstance(buffer, np.ndarray):
        _hold_what_is_under(buffer, loan)
    return loan


def _export_of(buffer: Buffer | np.ndarray[Any, Any]) -> PickleBuffer:
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
        memoryview(exporter).release()
    except TypeError:
        # What a class written in Python exports (`__buffer__`, from 3.12 on) only a memoryview passes on.
        exporter.release()
        return PickleBuffer(memoryview(cast("Buffer", buffer)))
    return exporter


def _hold_what_is_under(array: np.ndarray[Any, Any], loan: Loan) -> None:
    # A memmap refers to its mmap but doesn't keep it from being closed.
    root = owner_of(array).base
    if root is not None:
        try:
            loan.exporters.append(PickleBuffer(cast("Buffer", root)))
        except TypeError:
            return  # no exporter: the reference that the array holds must do
