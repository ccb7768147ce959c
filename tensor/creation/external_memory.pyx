"""Tensors over external memory, without a copy: buffers and addresses."""

cimport numpy as cnp

from tensor.memory.buffer cimport Exported, External

import atexit
import sys
from math import prod
from operator import index

import numpy as np

from tensor._devices import require_cpu
from tensor._dtypes import KNOWN, as_dtype, uint8
from tensor._errors import shown
from tensor.core.tensor import members_of, wrap_borrowed
from tensor.creation.from_data import shape_of
from tensor.memory.buffer import cancel_callbacks, listed_buffers, owner_of

cnp.import_array()

cdef dict _KNOWN = KNOWN


def from_blob(buffer, shape, dtype, *, strides=None, offset=0, on_release=None, device=None):
    r"""Return a tensor over the memory of `buffer`, without a copy. A write to one changes both.

    The tensor holds the buffer's export. The buffer can't be resized or closed (``BufferError``) until the
    last tensor, view, alias and exported array over it is freed. If the memory is read-only, the first write
    makes a private copy. A write through the buffer never changes a clone.

    Parameters
    ----------
    buffer
        An object with the buffer protocol and contiguous memory: bytes, bytearray, ``array.array``,
        memoryview, ``mmap``, the ``buf`` of a ``SharedMemory``, a NumPy array or memmap. Its own format is
        ignored.
    shape
        The shape of the result.
    dtype
        The dtype of the elements, in native byte order. The data need not be aligned; aligned data is faster.
    strides
        The strides in elements, as in ``x.stride()`` and PyTorch (NumPy counts bytes). None or ``()``: C
        order.
    offset
        The offset of the first element in bytes, as in ``numpy.frombuffer``.
    on_release
        Called once, without arguments, when the last holder releases the buffer. It runs on the thread that
        releases it. Its exceptions go to ``sys.unraisablehook``. A callback that refers to the tensor keeps
        it alive until the end of the program. At exit, remaining tensors are disposed before modules are torn
        down, so that the callback runs. It does not run for memory that an exported array (``x.numpy()``)
        still uses.
    device
        ``"cpu"``, or None.

    Raises
    ------
    ValueError
        If shape, strides and offset exceed the buffer, are negative, or let two elements overlap; or if
        `dtype` does not have native byte order. Then the buffer is not held, and `on_release` is not called.
        If creation fails later, because memory is short, `on_release` is called.
    TypeError
        If `buffer` does not support the buffer protocol, or tensors do not support `dtype`.

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
    cdef Exported source = None
    cdef External external = None
    cdef tuple sizes = _sizes(shape)
    cdef cnp.dtype kind = _native("from_blob", dtype)
    # Empty strides mean C order, as in tch-rs.
    cdef object steps = None if strides is None or not len(strides) else _strides("from_blob", sizes, strides)
    cdef object nbytes = _span("from_blob", sizes, kind, steps)
    require_cpu(device)
    start = index(offset)
    if start < 0:
        raise ValueError(f"from_blob(): offset must be at least 0 bytes, not {start}")
    _require_callable("from_blob", on_release)
    try:
        source = _exported(buffer)
        if start + nbytes > source.view.len:
            raise ValueError(
                f"from_blob(): {_described(sizes, kind, steps)} needs {nbytes} bytes from offset {start}, "
                f"to byte {start + nbytes}; the buffer has {source.view.len}. Use a smaller shape; strides "
                "count elements, offset counts bytes"
            )
        held = _mapping_of(buffer) if isinstance(buffer, cnp.ndarray) else None
        external = External.__new__(External, source, nbytes)
        external.owner = held
        external.on_release = on_release
        if steps is None:
            return wrap_borrowed(external.over_exported(start, sizes, kind))
        # The root array covers all bytes. The first write to read-only memory copies the root, and moves each
        # view to the same offset in the copy.
        return _strided(external.over_exported(start, (nbytes,), uint8), sizes, kind, steps)
    except BaseException as error:
        # The traceback's frames would keep the buffer as long as the error is stored.
        source = held = external = None
        _clear_frames(error)
        raise


def from_address(address, shape, dtype, *, strides=None, owner=None, on_release=None):
    """Return a tensor over the memory at `address`, without a copy. Unsafe: the address is not checked.

    The caller guarantees that the memory exists, is writable, and stays valid until the last tensor, view,
    alias and exported array over it is freed. A wrong address, shape or stride, or memory freed too early,
    reads garbage, overwrites other data, or crashes the process. If there is a buffer, use `from_blob`, which
    checks.

    Parameters
    ----------
    address
        The address of the first element, as an integer (``ctypes.addressof(x)``).
    strides
        The strides in elements, as in `from_blob`.
    owner
        An object to keep alive with the memory. It is released before `on_release` is called.
    on_release
        As in `from_blob`.

    Raises
    ------
    ValueError
        If `address` is null, negative or too large, or if shape or strides are invalid. Then `owner` is not
        held, and `on_release` is not called.

    Examples
    --------
    >>> import ctypes, tensor
    >>> numbers = (ctypes.c_float * 3)(1, 2, 3)
    >>> x = tensor.from_address(ctypes.addressof(numbers), (3,), "float32", owner=numbers)
    >>> x[0] = 5
    >>> list(numbers)
    [5.0, 2.0, 3.0]
    """
    sizes = _sizes(shape)
    kind = _native("from_address", dtype)
    steps = _steps(sizes) if strides is None else _strides("from_address", sizes, strides)
    nbytes = _span("from_address", sizes, kind, steps)
    _require_callable("from_address", on_release)
    place = index(address)
    if place <= 0:
        raise ValueError(
            f"from_address(): address must be above 0, not {place}: pass the address of the "
            "first element, such as ctypes.addressof(x)"
        )
    if nbytes > sys.maxsize or place + nbytes > 2 * sys.maxsize + 2:
        raise ValueError(
            f"from_address(): {_described(sizes, kind, steps)} at {place:#x} exceeds the address space"
        )
    external = External(None, nbytes, owner=owner, on_release=on_release)
    try:
        return _strided(external.at(place), sizes, kind, steps)
    except BaseException as error:
        external = None
        _clear_frames(error)
        raise


cdef int _clear_frames(object error) except -1:
    from traceback import clear_frames  # imported here, because it makes `import tensor` 1% slower

    clear_frames(error.__traceback__)
    return 0


cdef tuple _sizes(object shape):
    # Check the common case inline: a call would take a sixth of the time of `from_blob`.
    if type(shape) is not tuple:
        return shape_of(shape)
    for n in <tuple>shape:
        if type(n) is not int or n < 0:
            return shape_of(shape)
    return shape


cdef Exported _exported(object buffer):
    cdef Exported found
    try:
        found = Exported.__new__(Exported, buffer)
    except TypeError:
        raise TypeError(
            "from_blob() takes a buffer (bytes, bytearray, array.array, memoryview, mmap, the buf of a "
            f"SharedMemory), not {type(buffer).__name__}: write tensor.tensor(data) for lists and numbers"
        ) from None
    if found.has_references():
        raise TypeError("from_blob() can't use references to Python objects as elements: copy their values")
    if found.has_gaps():
        raise ValueError(
            "from_blob() takes a buffer without gaps: pass the whole buffer with offset and strides, or "
            "write tensor.from_numpy(numpy.asarray(buffer))"
        )
    return found


cdef Exported _mapping_of(cnp.ndarray array):
    # A memmap refers to its mmap, but does not prevent closing it.
    root = owner_of(array).base
    try:
        return None if root is None else Exported(root)
    except TypeError:
        return None  # not an exporter: rely on the reference that the array holds


cdef object _strided(cnp.ndarray block, tuple shape, object dtype, tuple strides):
    cdef list steps = []
    for n in strides:
        steps.append(n * dtype.itemsize)
    return wrap_borrowed(np.ndarray(shape, dtype, block, 0, tuple(steps)))


@atexit.register
def _release_external_memory():
    """Dispose tensors whose external memory has a callback or an owner, before modules are torn down.

    The garbage collector does not traverse arrays. So if a callback refers to the module of the tensor, that
    module and its open files would never be finalized.
    """
    _dispose_tensors_with_release_actions()
    # Exported arrays may still use memory. The operating system frees that memory.
    cancel_callbacks()


cdef int _dispose_tensors_with_release_actions() except -1:
    for buffer in listed_buffers():
        base = buffer.root.base
        if isinstance(base, External) and base.has_release_action:
            for x in members_of(buffer):
                x.dispose()


cdef object _native(str op, object dtype):
    found = _KNOWN.get(dtype)
    if found is not None:
        return found
    found = as_dtype(dtype)
    if not np.dtype(dtype).isnative:
        raise ValueError(
            f"{op}() can't share memory of byte order {np.dtype(dtype).str!r}: write "
            "tensor.tensor(numpy.frombuffer(buffer, dtype)) to copy it"
        )
    return found


cdef object _span(str op, tuple shape, cnp.dtype dtype, tuple strides):
    """Return the bytes from the first to the last element. Strides count elements; None means C order."""
    size = shape[0] if len(shape) == 1 else prod(shape)
    nbytes = size * dtype.itemsize
    if strides is None and 0 < nbytes <= sys.maxsize:
        return nbytes
    last = size - 1
    if strides is not None:
        last = 0
        for n, step in zip(shape, strides):
            last += (n - 1) * step
    # Check the sizes of an empty shape too, because NumPy multiplies them in a machine word.
    most = size or prod(filter(None, shape))
    if strides:
        most = max(most, *strides)
    if most * dtype.itemsize > sys.maxsize:
        layout = _described(shape, dtype, strides)
        raise ValueError(f"{op}(): {layout} needs more bytes than any memory has")
    return (last + 1) * dtype.itemsize if size else 0


cdef str _described(tuple shape, object dtype, tuple strides):
    strided = "" if strides in (None, _steps(shape)) else f" with strides {strides}"
    return f"shape {shape} of {dtype}{strided}"


cdef tuple _steps(tuple shape):
    cdef Py_ssize_t i
    cdef list found = []
    for i in range(len(shape)):
        found.append(prod(shape[i + 1 :]))
    return tuple(found)


cdef tuple _strides(str op, tuple shape, object strides):
    cdef tuple steps = tuple(map(index, strides))
    if len(steps) != len(shape):
        raise ValueError(
            f"{op}(): shape {shape} has {len(shape)} dimensions, but strides has {len(steps)} values: give "
            "one stride for each dimension"
        )
    if min(steps, default=0) < 0:
        raise ValueError(f"{op}(): strides must be at least 0, not {steps}: flip the tensor: tensor.flip(x)")
    span = 0
    for step, n in sorted(zip(steps, shape)):
        if n > 1:
            if step <= span and 0 not in shape:
                raise ValueError(
                    f"{op}(): strides {steps} let elements of shape {shape} overlap, so that a write to one "
                    "would change others. Take views instead: x.expand(...), x[:, 1:]"
                )
            span += (n - 1) * step
    return steps


cdef int _require_callable(str op, object on_release) except -1:
    if on_release is not None and not callable(on_release):
        raise TypeError(
            f"{op}(): on_release must be callable without arguments, not {shown(on_release)}"
        )
