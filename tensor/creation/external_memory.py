"""Tensors over memory of others, without a copy: buffers and bare addresses."""

from __future__ import annotations

import sys
from math import prod
from operator import index
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Dtype, DtypeLike, as_dtype, uint8
from tensor._errors import shown
from tensor.core.dims import Sizes
from tensor.core.loans import array_in, open_loan, take, wrap_borrowed
from tensor.creation.from_data import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from tensor.core.storage import Array
    from tensor.core.tensor import Tensor

    OnRelease = Callable[[], object] | None


def from_blob(
    buffer: Buffer | np.ndarray[Any, Any],
    shape: Sizes,
    dtype: DtypeLike,
    *,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    on_release: OnRelease = None,
) -> Tensor:
    r"""Return a tensor over the memory of `buffer`, without a copy: both see each other's writes.

    The tensor holds the buffer's export: until the last tensor, view, alias and exported array over it is
    gone, the buffer can't be resized or closed (``BufferError``); after that, at once, it can. Over read-only
    memory the first write makes a private copy. A clone never sees a write through the buffer.

    Parameters
    ----------
    buffer
        bytes, bytearray, ``array.array``, memoryview, ``mmap``, the ``buf`` of a ``SharedMemory``, a NumPy
        array or memmap: anything with the buffer protocol and no gaps. Its own format does not matter.
    shape
        The sizes of the result.
    dtype
        What the bytes are read as, in the machine's byte order. Any address will do; an aligned one is
        quicker.
    strides
        How far apart neighbours are in each dimension, in elements, as in ``x.stride()`` and PyTorch (NumPy
        counts bytes). None: one after the other, the last dimension fastest.
    offset
        Where the first element is, in bytes, as file formats and ``numpy.frombuffer`` count.
    on_release
        Called without arguments, once, as soon as the last holder has let go and the buffer may be closed.
        On any thread: whichever let go. What it raises goes to ``sys.unraisablehook``. A callback that
        refers to the tensor itself would keep it alive for good.

    Raises
    ------
    ValueError
        If shape, strides and offset do not lie within the buffer, are negative, or put two elements into one
        place; if `dtype` is not in the machine's byte order. Nothing is held then, and `on_release` is not
        called. When creation fails later, for want of memory, it is.
    TypeError
        If `buffer` is no buffer, or `dtype` none that tensors hold.

    Examples
    --------
    >>> import tensor
    >>> data = bytearray(b"\x01\x00\x02\x00")
    >>> x = tensor.from_blob(data, (2,), "int16", on_release=lambda: print("given back"))
    >>> x[0] = 3
    >>> data.hex()
    '03000200'
    >>> data.clear()
    Traceback (most recent call last):
        ...
    BufferError: Existing exports of data: object cannot be re-sized
    >>> x.dispose()
    given back
    >>> data.clear()
    """
    sizes = shape_of(shape)
    kind = _native("from_blob", dtype)
    steps = None if strides is None else _strides("from_blob", sizes, strides)
    nbytes = _span("from_blob", sizes, kind, steps)
    start = index(offset)
    if start < 0:
        raise ValueError(f"from_blob(): offset is a number of bytes of at least 0, not {start}")
    _require_callable("from_blob", on_release)
    raw = held = None
    try:
        raw, held = take(buffer)
        end = start + nbytes
        if end > raw.nbytes:
            raise ValueError(
                f"from_blob(): {_described(sizes, kind, steps)} asks for {nbytes} bytes from offset {start}, "
                f"to byte {end}; the buffer has {raw.nbytes}. Ask for less; strides count elements, offset "
                "counts bytes"
            )
        open_loan(raw, nbytes, on_release, held)
        if steps is None:
            return _packed(array_in(raw, kind, nbytes // kind.itemsize, start), sizes)
        return _strided(array_in(raw, uint8, nbytes, start), sizes, kind, steps)
    except BaseException as error:
        # The frames in the traceback would keep the buffer as long as somebody keeps the error.
        raw = held = None
        clear_frames(error.__traceback__)
        raise


def from_address(
    address: int,
    shape: Sizes,
    dtype: DtypeLike,
    *,
    strides: Sequence[int] | None = None,
    owner: object = None,
    on_release: OnRelease = None,
) -> Tensor:
    """Return a tensor over memory at `address`, without a copy. Unsafe: nothing checks what is there.

    The caller's word is all there is: that the memory is there, can be written, and stays until the last
    tensor, view, alias and exported array over it is gone. A wrong address, shape or stride, or memory freed
    too early, reads garbage, overwrites what belongs to others, or ends the process. Where there is a
    buffer, `from_blob` does the same and checks.

    Parameters
    ----------
    address
        Of the first element, as an integer (``ctypes.addressof(x)``).
    strides
        In elements, as in `from_blob`.
    owner
        An object to hold meanwhile, so that the memory stays. Let go before `on_release` is called.
    on_release
        As in `from_blob`.

    Raises
    ------
    ValueError
        If `address` is null, negative or beyond what is addressable, or shape or strides are none. Nothing
        is held then, and `on_release` is not called.

    Examples
    --------
    >>> import ctypes, tensor
    >>> numbers = (ctypes.c_float * 3)(1, 2, 3)
    >>> x = tensor.from_address(ctypes.addressof(numbers), (3,), "float32", owner=numbers)
    >>> x[0] = 5
    >>> list(numbers)
    [5.0, 2.0, 3.0]
    """
    sizes = shape_of(shape)
    kind = _native("from_address", dtype)
    steps = _steps(sizes) if strides is None else _strides("from_address", sizes, strides)
    nbytes = _span("from_address", sizes, kind, steps)
    _require_callable("from_address", on_release)
    place = index(address)
    if place <= 0:
        raise ValueError(
            f"from_address(): {'null' if place == 0 else place} is no address: pass that of the first "
            "element, such as ctypes.addressof(x)"
        )
    if nbytes > sys.maxsize or place + nbytes > 2 * sys.maxsize + 2:
        raise ValueError(
            f"from_address(): {_described(sizes, kind, steps)} at {place:#x} ends beyond what is addressable"
        )
    memory: _Memory | None = _Memory(place, nbytes)
    try:
        open_loan(memory, nbytes, on_release, owner)
        # All bytes are the base: a write that must copy finds each view's elements in it by their offset.
        return _strided(np.asarray(memory), sizes, kind, steps)
    except BaseException as error:
        memory = None
        clear_frames(error.__traceback__)
        raise


class _Memory:
    """Bytes at an address."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
        }


def _packed(block: Array, shape: tuple[int, ...]) -> Tensor:
    return wrap_borrowed(block.reshape(shape), block)


def _strided(block: Array, shape: tuple[int, ...], dtype: Dtype, strides: tuple[int, ...]) -> Tensor:
    array = np.ndarray(shape, dtype, block, 0, tuple([s * dtype.itemsize for s in strides]))
    return wrap_borrowed(array, block)


def _native(op: str, dtype: DtypeLike) -> Dtype:
    found = as_dtype(dtype)
    if found is not dtype and not np.dtype(dtype).isnative:
        raise ValueError(
            f"{op}() can't share memory of byte order {np.dtype(dtype).str!r}: write "
            "tensor.tensor(numpy.frombuffer(buffer, dtype)) to copy it"
        )
    return found


def _span(op: str, shape: tuple[int, ...], dtype: Dtype, strides: tuple[int, ...] | None) -> int:
    """Return how many bytes there are from the first to the last; strides in elements, None for packed."""
    size = prod(shape)
    nbytes = size * dtype.itemsize
    if strides is None and 0 < nbytes <= sys.maxsize:
        return nbytes
    last = size - 1 if strides is None else sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
    # Also where there is no element: NumPy counts in machine words all the same.
    most = max(size or prod([n for n in shape if n]), *(strides or (0,)))
    if most * dtype.itemsize > sys.maxsize:
        layout = _described(shape, dtype, strides)
        raise ValueError(f"{op}(): {layout} asks for more bytes than any memory has")
    return (last + 1) * dtype.itemsize if size else 0


def _described(shape: tuple[int, ...], dtype: Dtype, strides: tuple[int, ...] | None) -> str:
    strided = "" if strides in (None, _steps(shape)) else f" with strides {strides}"
    return f"shape {shape} of {dtype}{strided}"


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([prod(shape[i + 1 :]) for i in range(len(shape))])


def _strides(op: str, shape: tuple[int, ...], strides: Sequence[int]) -> tuple[int, ...]:
    steps = tuple(index(s) for s in strides)
    if len(steps) != len(shape):
        raise ValueError(
            f"{op}(): shape {shape} has {len(shape)} dimensions, and there are {len(steps)} strides: give "
            "one for each"
        )
    if any(s < 0 for s in steps):
        raise ValueError(f"{op}(): strides are at least 0, not {steps}: flip the tensor, with tensor.flip(x)")
    span = 0
    for step, n in sorted(zip(steps, shape, strict=True)):
        if n > 1:
            if step <= span and 0 not in shape:
                raise ValueError(
                    f"{op}(): strides {steps} put elements of shape {shape} into one place, or into each "
                    "other's rows, where a write is several. Take views instead: x.expand(...), x[:, 1:]"
                )
            span += (n - 1) * step
    return steps


def _require_callable(op: str, on_release: object) -> None:
    if on_release is not None and not callable(on_release):
        raise TypeError(
            f"{op}(): on_release is called without arguments; {shown(on_release)} can't be called"
        )
