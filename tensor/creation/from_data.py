"""Creation of tensors from data and shapes."""

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
from tensor.memory.buffer import External
from tensor.memory.buffer import copy as copied
from tensor.memory.buffer import empty as empty_array
from tensor.memory.buffer import zeros as zero_array
from tensor.ops.data import as_data, as_tensor, dtype_for_number, new_array
from tensor.tape.recording import become_leaf

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def tensor(data: object, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor with a copy of `data`.

    Parameters
    ----------
    data
        A number, nested lists of numbers, an array, or a tensor. Python floats become float32, integers
        int64. Arrays keep their dtype.
    dtype
        The dtype of the result. None: the dtype of `data`.
    requires_grad
        Whether to record ops on the result for ``backward``.

    Raises
    ------
    ValueError
        If nested lists are ragged, or a number does not fit into `dtype`.
    TypeError
        If tensors do not support the elements of `data`, or with `requires_grad`, if its dtype can't require
        gradients.

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
    """Return a tensor over the new `array`, a leaf if `requires_grad`."""
    if requires_grad and not is_inexact(array.dtype):
        raise TypeError(
            f"a tensor of {array.dtype} can't require gradients: only floating and complex ones can. Pass "
            "dtype=tensor.float32, or omit requires_grad"
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
    """Return `obj` as a tensor: a tensor itself, an array without a copy, other objects with a copy.

    Parameters
    ----------
    copy
        None: copy only if necessary. True: always copy (a tensor is cloned). False: raise an error if a copy
        is necessary.
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
        # Compare with None explicitly: `np.dtype("float64") == None` is True.
        held = x.dtype  # raises an error for a disposed tensor, even if dtype is None
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
            "without a copy: omit copy=False"
        )
    if isinstance(obj, TensorCore):
        # A different dtype: record the cast, as x.to(dtype) does.
        return as_tensor(obj).to(x.dtype if wanted is None else wanted)
    return tensor(obj, dtype=wanted, requires_grad=requires_grad)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor over the memory of `array`, without a copy. A write to one changes both.

    The tensor keeps `array` alive. If the array is read-only, the first write makes a private copy.

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
    """Return a tensor over the memory of an `array` that other code owns."""
    borrowed = External(array, array.nbytes).over(array)
    return wrap_borrowed(borrowed)


def from_slice(buffer: object, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    r"""Return a new tensor with a copy of the numbers in `buffer`: bytes, an ``array.array``, a memoryview.

    Parameters
    ----------
    buffer
        An object with the buffer protocol.
    dtype
        The dtype to read the bytes as, in one dimension. None: the buffer's own format and shape (uint8 for
        bytes).

    Raises
    ------
    ValueError
        If the number of bytes is not a multiple of the element size.

    Examples
    --------
    >>> import array, tensor
    >>> tensor.from_slice(array.array("f", [1.0, 2.0])).tolist()
    [1.0, 2.0]
    >>> tensor.from_slice(b"\x01\x00\x02\x00", dtype="int16").tolist()
    [1, 2]
    """
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]  # raises TypeError for other objects
    except TypeError:
        raise TypeError(
            f"from_slice() takes a buffer (bytes, array.array, memoryview), not {type(buffer).__name__}: "
            "write tensor.tensor(data) for lists and numbers"
        ) from None
    with view:
        # In a buffer's format, the names of fields are between colons. Ignore them.
        if "O" in re.sub(":[^:]*:", "", view.format):
            raise TypeError(
                "from_slice() reads numbers, but this buffer holds references to Python objects: write "
                "tensor.tensor(list(buffer)) if they are numbers"
            )
        if dtype is None:
            return finish(copied(as_data(np.asarray(view), None)), requires_grad)
        wanted = as_dtype(dtype)
        if np.asarray(view).dtype.hasobject:
            raise TypeError(
                "from_slice() reads numbers, but this buffer holds references to Python objects: convert it "
                f"first, for example with numpy.asarray(buffer, dtype={wanted.name!r})"
            )
        if view.nbytes % wanted.itemsize:
            raise ValueError(
                f"from_slice(): the buffer's {view.nbytes} bytes are not a multiple of the element size of "
                f"{wanted}, {wanted.itemsize} bytes"
            )
        array = empty_array((view.nbytes // wanted.itemsize,), wanted)
        array.view(uint8)[...] = np.frombuffer(view.cast("B") if view.c_contiguous else view.tobytes(), uint8)
        return finish(array, requires_grad)


def shape_of(shape: Sizes) -> tuple[int, ...]:
    """Return the shape for one size, or for a tuple or list of sizes."""
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
            f"{shown(shape)} is not a shape: sizes must be integers of at least 0. Write zeros((2, 3)) or "
            "zeros(2)"
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
        if value.size != 1:
            raise ValueError(
                f"fill_value must be one number, not values of shape {value.shape}: write "
                "tensor.broadcast_to(values, shape).clone()"
            )
        found = value.dtype
    return _filled(shape, found, value)


def _or_default(dtype: DtypeLike | None) -> Dtype:
    return float32 if dtype is None else as_dtype(dtype)


def _shape_and_dtype_like(x: object, dtype: DtypeLike | None) -> tuple[tuple[int, ...], Dtype]:
    like = as_tensor(x)
    array = like._array
    if array is None:
        like._raise_disposed()
    return array.shape, array.dtype if dtype is None else as_dtype(dtype)


def empty(
    shape: Sizes, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return an uninitialized tensor of `shape`. The default dtype is float32.

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
    """Return a tensor of zeros with `shape`. The default dtype is float32.

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
    """Return a tensor of ones with `shape`. The default dtype is float32.

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
    """Return a tensor of `shape` filled with `fill_value`, which determines the default dtype.

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
    """Return an uninitialized tensor with the shape and dtype of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.empty_like(tensor.zeros((2, 3))).shape
    (2, 3)
    """
    if device is not None:
        require_cpu(device)
    return finish(empty_array(*_shape_and_dtype_like(x, dtype)), requires_grad)


def zeros_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of zeros with the shape and dtype of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.zeros_like(tensor.tensor([1, 2])).tolist()
    [0, 0]
    """
    if device is not None:
        require_cpu(device)
    return finish(zero_array(*_shape_and_dtype_like(x, dtype)), requires_grad)


def ones_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of ones with the shape and dtype of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.ones_like(tensor.tensor([3, 4])).tolist()
    [1, 1]
    """
    if device is not None:
        require_cpu(device)
    return finish(_filled(*_shape_and_dtype_like(x, dtype), 1), requires_grad)


def full_like(
    x: Tensor,
    /,
    fill_value: complex,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with the shape and dtype of `x`, filled with `fill_value`.

    Examples
    --------
    >>> import tensor
    >>> tensor.full_like(tensor.zeros((2,)), 7).tolist()
    [7.0, 7.0]
    """
    if device is not None:
        require_cpu(device)
    return finish(_filled_with(*_shape_and_dtype_like(x, dtype), fill_value), requires_grad)
