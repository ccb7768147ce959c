"""Tensors over memory of others, without a copy: buffers and bare addresses."""

from __future__ import annotations

import sys
from math import prod
from operator import index
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensor._core import wrap_with
from tensor._creation import shape_of
from tensor._dims import Sizes
from tensor._dtypes import Dtype, DtypeLike, as_dtype
from tensor._loans import Loan, take
from tensor._storage import borrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from tensor._tensor import Tensor

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
    layout = _layout("from_blob", shape, dtype, strides)
    start = _offset(offset)
    _require_callable("from_blob", on_release)
    loan = take(buffer)
    try:
        available, end = loan.nbytes, start + layout.nbytes
        if end > available:
            raise ValueError(
                f"from_blob(): {layout} asks for {layout.nbytes} bytes from offset {start}, to byte {end}; "
                f"the buffer has {available}. Ask for less; strides count elements, offset counts bytes"
            )
        loan.narrow(start, layout.nbytes)
        return _over(loan, layout, on_release)
    except BaseException as error:
        # The frames in the traceback would keep the buffer as long as somebody keeps the error.
        del loan
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
    layout = _layout("from_address", shape, dtype, strides)
    _require_callable("from_address", on_release)
    place = index(address)
    if place <= 0:
        raise ValueError(
            f"from_address(): {'null' if place == 0 else place} is no address: pass that of the first "
            "element, such as ctypes.addressof(x)"
        )
    if layout.nbytes > sys.maxsize or place + layout.nbytes > 2 * sys.maxsize + 2:
        raise ValueError(f"from_address(): {layout} at {place:#x} ends beyond what is addressable")
    loan = Loan(place, layout.nbytes, owner=owner)
    try:
        return _over(loan, layout, on_release)
    except BaseException as error:
        del loan
        clear_frames(error.__traceback__)
        raise


def _over(loan: Loan, layout: _Layout, on_release: OnRelease) -> Tensor:
    loan.on_release = on_release
    array = loan.array(layout.shape, layout.dtype, layout.byte_strides)
    x = wrap_with(array, None, None)
    borrow(x)
    return x


class _Layout(NamedTuple):
    """Where elements are, relative to the first; strides in elements."""

    shape: tuple[int, ...]
    dtype: Dtype
    strides: tuple[int, ...]
    # From the first byte to the last.
    nbytes: int

    @property
    def byte_strides(self) -> tuple[int, ...]:
        return tuple([s * self.dtype.itemsize for s in self.strides])

    def __str__(self) -> str:
        strided = "" if self.strides == _packed(self.shape) else f" with strides {self.strides}"
        return f"shape {self.shape} of {self.dtype}{strided}"


def _layout(op: str, shape: Sizes, dtype: DtypeLike, strides: Sequence[int] | None) -> _Layout:
    sizes = shape_of(shape)
    found = as_dtype(dtype)
    if not np.dtype(dtype).isnative:
        raise ValueError(
            f"{op}() can't share memory of byte order {np.dtype(dtype).str!r}: write "
            "tensor.tensor(numpy.frombuffer(buffer, dtype)) to copy it"
        )
    steps = _packed(sizes) if strides is None else _strides(op, sizes, strides)
    last = sum([(n - 1) * s for n, s in zip(sizes, steps, strict=True)])
    layout = _Layout(sizes, found, steps, 0 if 0 in sizes else (last + 1) * found.itemsize)
    # Also where there is no element: NumPy counts in machine words all the same.
    if max((prod([n for n in sizes if n]), *steps)) * found.itemsize > sys.maxsize:
        raise ValueError(f"{op}(): {layout} asks for more bytes than any memory has")
    return layout


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
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


def _offset(offset: int) -> int:
    start = index(offset)
    if start < 0:
        raise ValueError(f"from_blob(): offset is a number of bytes of at least 0, not {start}")
    return start


def _require_callable(op: str, on_release: object) -> None:
    if on_release is not None and not callable(on_release):
        raise TypeError(f"{op}(): on_release is called without arguments; {on_release!r} can't be called")
