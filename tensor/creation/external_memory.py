"""Tensors over memory of others, without a copy: buffers and bare addresses."""

from __future__ import annotations

import atexit
import sys
from math import prod
from operator import index
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array, Dtype, DtypeLike, as_dtype, uint8
from tensor._errors import shown
from tensor.core.dims import Sizes
from tensor.core.storage import members_of
from tensor.core.tensor import wrap_borrowed
from tensor.creation.from_data import shape_of
from tensor.memory.buffer import listed_buffers, owner_of
from tensor.memory.external import Exported, External, call_off

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
        refers to the tensor itself would keep it alive to the end of the program. There tensors that are left
        are disposed before modules are taken apart, so that it is called; not so where an exported array
        (``x.numpy()``) is left.

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
    source = held = external = None
    try:
        source = _exported(buffer)
        if isinstance(buffer, np.ndarray):
            held = _mapping_of(buffer)
        end = start + nbytes
        if end > source.nbytes:
            raise ValueError(
                f"from_blob(): {_described(sizes, kind, steps)} asks for {nbytes} bytes from offset {start}, "
                f"to byte {end}; the buffer has {source.nbytes}. Ask for less; strides count elements, offset "
                "counts bytes"
            )
        external = External(source, nbytes, owner=held, on_release=on_release)
        if steps is None:
            return wrap_borrowed(external.over_exported(start, sizes, kind))
        # All bytes are the root: a write that must copy finds each view's elements in it by their offset.
        return _strided(external.over_exported(start, (nbytes,), uint8), sizes, kind, steps)
    except BaseException as error:
        # The frames in the traceback would keep the buffer as long as somebody keeps the error.
        source = held = external = None
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
    external = External(None, nbytes, owner=owner, on_release=on_release)
    try:
        return _strided(external.at(place), sizes, kind, steps)
    except BaseException as error:
        del external
        clear_frames(error.__traceback__)
        raise


def _exported(buffer: object) -> Exported:
    try:
        found = Exported(buffer)
    except TypeError:
        raise TypeError(
            "from_blob() takes a buffer (bytes, bytearray, array.array, memoryview, mmap, the buf of a "
            f"SharedMemory), not {type(buffer).__name__}: write tensor.tensor(data) for lists and numbers"
        ) from None
    if found.has_references:
        raise TypeError("from_blob() can't lie over references to Python objects: copy their values")
    if found.has_gaps:
        raise ValueError(
            "from_blob() takes a buffer without gaps: pass the whole buffer with offset and strides, or "
            "write tensor.from_numpy(numpy.asarray(buffer))"
        )
    return found


def _mapping_of(array: np.ndarray[Any, Any]) -> Exported | None:
    # A memmap refers to its mmap but doesn't keep it from being closed.
    root = owner_of(array).base
    try:
        return None if root is None else Exported(root)
    except TypeError:
        return None  # no exporter: the reference that the array holds must do


def _strided(block: Array, shape: tuple[int, ...], dtype: Dtype, strides: tuple[int, ...]) -> Tensor:
    return wrap_borrowed(np.ndarray(shape, dtype, block, 0, tuple([s * dtype.itemsize for s in strides])))


@atexit.register
def _end_what_is_borrowed() -> None:
    """Dispose tensors over memory whose end somebody wants to hear of, while all that they may call is there.

    An array refers to its memory unseen by the collector. So a callback that refers to the module whose
    tensor it is for would keep that module, and its open files, from being finalized.
    """
    _dispose_what_is_cared_for()
    # Memory at which exported arrays look is the operating system's to take back.
    call_off()


def _dispose_what_is_cared_for() -> None:
    for buffer in listed_buffers():
        base = buffer.root.base
        if isinstance(base, External) and base.is_cared_for:
            for x in members_of(buffer):
                x.dispose()


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
