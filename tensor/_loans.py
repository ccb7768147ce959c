"""Somebody else's memory, held for as long as any array lies over it, and given back at once after that."""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensor._storage import owner_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


class Loan:
    """The base of the arrays over borrowed bytes: it goes with the last of them, and with it what it holds.

    A finalizer on an array would run before the array lets go of its base, too early for an ``on_release``
    that closes the source. A loan lets go of the source first and tells afterwards.
    """

    __slots__ = ("address", "exporters", "is_readonly", "nbytes", "on_release", "owner")

    def __init__(self, address: int, nbytes: int, is_readonly: bool = False, owner: object = None) -> None:
        self.address = address
        self.nbytes = nbytes
        self.is_readonly = is_readonly
        self.owner = owner
        self.exporters: list[PickleBuffer] = []
        self.on_release: Callable[[], object] | None = None

    def __del__(self) -> None:
        for exporter in self.exporters:
            exporter.release()
        self.owner = None
        if self.on_release is not None:
            # What it raises goes to sys.unraisablehook, as from any finalizer.
            self.on_release()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, self.is_readonly),
        }


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
            address, is_readonly = np.frombuffer(raw, np.uint8).__array_interface__["data"]
            loan = Loan(address, raw.nbytes, is_readonly)
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
