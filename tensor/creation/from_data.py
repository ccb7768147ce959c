"""New tensors from data and from shapes."""

from __future__ import annotations

import re
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._devices import require_cpu
from tensor._dtypes import Array, Dtype, DtypeLike, as_dtype, float32, is_inexact, require_supported, uint8
from tensor._errors import shown
from tensor.core.dims import Sizes
from tensor.core.tensor import TensorCore, wrap, wrap_borrowed
from tensor.memory.buffer import copy as copied
from tensor.memory.buffer import empty as empty_array
from tensor.memory.buffer import zeros as zero_array
from tensor.memory.external import External
from tensor.ops.data import as_data, as_tensor, dtype_for_number, new_array
from tensor.tape.nodes import become_leaf

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def tensor(data: object, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor with a copy of `data`.

    Parameters
    ----------
    data
        A number, nested lists of numbers, an array, or a tensor. Python floats give float32, integers
        int64; arrays keep their dtype.
    dtype
        The dtype of the result, instead of the one found.
    requires_grad
        Whether operations on the result are recorded for ``backward``.

    Raises
    ------
    ValueError
        If nested lists are ragged, or a number does not fit `dtype`.
    TypeError
        If `data` holds what no tensor can hold, or a dtype that carries no gradients shall require them.

    Examples
    --------
    >>> import tensor
    >>> tensor.tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> tensor.tensor([1.0, 2.0]).dtype
    dtype('float32')
    """
    return finish(new_array(data, dtype), requires_grad)


def finish(array: Array, requires_grad: bool) -> Tensor:
    """Return the tensor over a new `array`, a leaf where gradients are wanted."""
    if requires_grad and not is_inexact(array.dtype):
        raise TypeError(
            f"a tensor of {array.dtype} can't require gradients: only floating and complex ones can. Pass "
            "dtype=tensor.float32, or leave requires_grad out"
        )
    x = wrap(array)
    if requires_grad:
        become_leaf(x)
    return x


def asarray(
    obj: object,
    /,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `obj` as a tensor: itself when it is one, over an array's own memory, else with a copy.

    Parameters
    ----------
    copy
        None: only where it must. True: always (of a tensor, a `clone`). False: an error where it must.
    device
        None or ``"cpu"``.

    Examples
    --------
    >>> import numpy, tensor
    >>> array = numpy.zeros(2)
    >>> x = tensor.asarray(array)
    >>> x[0] = 1
    >>> array.tolist()
    [1.0, 0.0]
    """
    if device is not None:
        require_cpu(device)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, TensorCore):
        x = as_tensor(obj)
        # Not by `in`: NumPy's double equals None.
        held = x.dtype  # an error of a disposed tensor, whatever is asked for
        if wanted is None or wanted == held:
            x = x.clone() if copy else x
            return x.requires_grad_() if requires_grad and not x.requires_grad else x
    elif (
        copy is not True
        and isinstance(obj, np.ndarray)
        and (wanted is None or wanted == obj.dtype)
        and obj.dtype.isnative
    ):
        shared = from_numpy(obj)
        return shared.requires_grad_() if requires_grad else shared
    if copy is False:
        raise ValueError(
            f"asarray: {type(obj).__name__} can't become a tensor{'' if wanted is None else f' of {wanted}'} "
            "without a copy: leave copy=False out"
        )
    if isinstance(obj, TensorCore):
        # Another dtype: recorded, as x.to(dtype) is.
        return as_tensor(obj).to(x.dtype if wanted is None else wanted)
    return tensor(obj, dtype=wanted, requires_grad=requires_grad)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor over the memory of `array`, without a copy: both see each other's writes.

    The tensor holds `array`. Over a read-only array the first write makes a private copy.

    Examples
    --------
    >>> import numpy, tensor
    >>> array = numpy.zeros(2)
    >>> x = tensor.from_numpy(array)
    >>> array[0] = 5
    >>> x.tolist()
    [5.0, 0.0]
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"from_numpy() takes a numpy.ndarray, not {type(array).__name__}: write tensor.tensor(data) to "
            "copy data"
        )
    if array.dtype != require_supported(array.dtype):
        raise ValueError(
            f"from_numpy() can't share memory of byte order {array.dtype.str!r}: write tensor.tensor(array) "
            "to copy it"
        )
    return over_memory_of(array)


def over_memory_of(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor over the memory of somebody else's `array`."""
    borrowed = External(array, array.nbytes).over(array)
    return wrap_borrowed(borrowed)


def from_slice(buffer: object, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    r"""Return a new tensor with a copy of the numbers in `buffer`: bytes, an ``array.array``, a memoryview.

    Parameters
    ----------
    buffer
        Anything with the buffer protocol.
    dtype
        What its bytes are read as, in one dimension. None: the buffer's own format and shape (bytes are
        uint8).

    Raises
    ------
    ValueError
        If the bytes are no whole number of elements.

    Examples
    --------
    >>> import array, tensor
    >>> tensor.from_slice(array.array("f", [1.0, 2.0])).tolist()
    [1.0, 2.0]
    >>> tensor.from_slice(b"\x01\x00\x02\x00", dtype="int16").tolist()
    [1, 2]
    """
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]  # what has no buffer raises
    except TypeError:
        raise TypeError(
            f"from_slice() takes a buffer (bytes, array.array, memoryview), not {type(buffer).__name__}: "
            "write tensor.tensor(data) for lists and numbers"
        ) from None
    with view:
        # Between colons are names of fields.
        if "O" in re.sub(":[^:]*:", "", view.format):
            raise TypeError(
                "from_slice() reads numbers, and this buffer holds references to Python objects: write "
                "tensor.tensor(list(buffer)) if they are numbers"
            )
        if dtype is None:
            return finish(copied(as_data(np.asarray(view), None)), requires_grad)
        wanted = as_dtype(dtype)
        if np.asarray(view).dtype.hasobject:
            raise TypeError(
                "from_slice() reads numbers, and this buffer holds references to Python objects: convert it "
                f"first, for example with numpy.asarray(buffer, dtype={wanted.name!r})"
            )
        if view.nbytes % wanted.itemsize:
            raise ValueError(
                f"from_slice(): {view.nbytes} bytes are no whole number of {wanted} elements of "
                f"{wanted.itemsize} bytes"
            )
        array = empty_array((view.nbytes // wanted.itemsize,), wanted)
        array.view(uint8)[...] = np.frombuffer(view.cast("B") if view.c_contiguous else view.tobytes(), uint8)
        return finish(array, requires_grad)


def shape_of(shape: Sizes) -> tuple[int, ...]:
    """Return a shape given as one size, or as a tuple or list of sizes."""
    if type(shape) is tuple:
        for n in shape:
            if type(n) is not int or n < 0:
                break
        else:
            return shape
    if type(shape) is int and shape >= 0:
        return (shape,)
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = [index(n) if hasattr(n, "__index__") and not isinstance(n, bool) else -1 for n in given]
    if any(n < 0 for n in sizes):
        raise ValueError(
            f"{shown(shape)} is no shape: sizes are integers of at least 0. Write zeros((2, 3)) or zeros(2)"
        )
    return tuple(sizes)


def _filled(shape: tuple[int, ...], dtype: Dtype, value: Any) -> Array:
    array = empty_array(shape, dtype)
    array.fill(value)
    return array


def _filled_with(shape: tuple[int, ...], dtype: Dtype | None, value: object) -> Array:
    found = dtype_for_number(value, dtype)
    if found is None:
        value = as_data(value, dtype)
        found = value.dtype
    return _filled(shape, found, value)


def _or_default(dtype: DtypeLike | None) -> Dtype:
    return float32 if dtype is None else as_dtype(dtype)


def _dtype_like(x: object, dtype: DtypeLike | None) -> tuple[tuple[int, ...], Dtype]:
    like = as_tensor(x)
    array = like._array
    if array is None:
        like._raise_disposed()
    return array.shape, array.dtype if dtype is None else as_dtype(dtype)


def empty(
    shape: Sizes, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor of `shape`, whatever values the memory held; float32 unless `dtype` says otherwise.

    Examples
    --------
    >>> import tensor
    >>> tensor.empty((2, 3)).shape
    (2, 3)
    """
    if device is not None:
        require_cpu(device)
    return finish(empty_array(shape_of(shape), _or_default(dtype)), requires_grad)


def zeros(
    shape: Sizes, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor of `shape`, each element 0; float32 unless `dtype` says otherwise.

    Examples
    --------
    >>> import tensor
    >>> tensor.zeros((2,)).tolist()
    [0.0, 0.0]
    """
    if device is not None:
        require_cpu(device)
    return finish(zero_array(shape_of(shape), _or_default(dtype)), requires_grad)


def ones(
    shape: Sizes, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor of `shape`, each element 1; float32 unless `dtype` says otherwise.

    Examples
    --------
    >>> import tensor
    >>> tensor.ones((2,)).tolist()
    [1.0, 1.0]
    """
    if device is not None:
        require_cpu(device)
    return finish(_filled(shape_of(shape), _or_default(dtype), 1), requires_grad)


def full(
    shape: Sizes,
    fill_value: complex,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a new tensor of `shape`, each element `fill_value`, whose kind decides the dtype.

    Examples
    --------
    >>> import tensor
    >>> tensor.full((2,), 7).tolist()
    [7, 7]
    """
    if device is not None:
        require_cpu(device)
    return finish(
        _filled_with(shape_of(shape), None if dtype is None else as_dtype(dtype), fill_value), requires_grad
    )


def empty_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor in the shape and dtype of `x`, with whatever values the memory held.

    Examples
    --------
    >>> import tensor
    >>> tensor.empty_like(tensor.zeros((2, 3))).shape
    (2, 3)
    """
    if device is not None:
        require_cpu(device)
    return finish(empty_array(*_dtype_like(x, dtype)), requires_grad)


def zeros_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor in the shape and dtype of `x`, each element 0.

    Examples
    --------
    >>> import tensor
    >>> tensor.zeros_like(tensor.tensor([1, 2])).tolist()
    [0, 0]
    """
    if device is not None:
        require_cpu(device)
    return finish(zero_array(*_dtype_like(x, dtype)), requires_grad)


def ones_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor in the shape and dtype of `x`, each element 1.

    Examples
    --------
    >>> import tensor
    >>> tensor.ones_like(tensor.tensor([3, 4])).tolist()
    [1, 1]
    """
    if device is not None:
        require_cpu(device)
    return finish(_filled(*_dtype_like(x, dtype), 1), requires_grad)


def full_like(
    x: Tensor,
    /,
    fill_value: complex,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a new tensor in the shape and dtype of `x`, each element `fill_value`.

    Examples
    --------
    >>> import tensor
    >>> tensor.full_like(tensor.zeros((2,)), 7).tolist()
    [7.0, 7.0]
    """
    if device is not None:
        require_cpu(device)
    return finish(_filled_with(*_dtype_like(x, dtype), fill_value), requires_grad)
