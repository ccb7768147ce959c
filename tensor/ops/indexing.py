"""Read and write by index: NumPy's basic and advanced indexing, combined as in PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from operator import index
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.storage import share_of, snapshot
from tensor.core.tensor import TensorCore
from tensor.memory.buffer import Share, owner_of
from tensor.ops.data import as_data
from tensor.ops.dispatch import apply, operand, over, overwrite
from tensor.ops.operators import Operators
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_GETITEM = RULES["getitem"]
_SETITEM = RULES["setitem"]
# The types of index parts, and of slice bounds, that NumPy gets unchanged.
_PLAIN = frozenset({int, EllipsisType, type(None)})
_BOUNDS = frozenset({int, type(None)})


class Key(tuple[Any, ...]):
    """An index that several nodes of the graph use. `holds` protects its arrays from writes."""

    holds: tuple[Share, ...]

    @classmethod
    def of(cls, parts: Iterable[Any]) -> Key:
        """Return the key of `parts`. No other code may use their arrays."""
        key = cls(parts)
        key.holds = tuple([_share_under(part) for part in key if isinstance(part, np.ndarray)])
        return key


def _write(where: Any, given: Any, array: Array) -> None:
    # Read the array now: the write first copies shared memory, which may replace the array of `given`.
    source: Any = given._array if isinstance(given, TensorCore) else given
    try:
        array[where] = source
    except IndexError as error:
        raise _with_advice(error, array.shape) from None
    except ValueError:
        raise InvalidArgumentError(
            f"a value of shape {np.shape(source)} does not broadcast to the shape "
            f"{np.shape(array[where])} of the selection in a tensor of shape {array.shape}: reshape "
            "the value, or select as many elements as it has. Nothing was written"
        ) from None


def _share_under(array: Array) -> Share:
    """Return a share that protects `array` from writes. An array from ``snapshot`` has one."""
    base: object = owner_of(array).base
    return base if isinstance(base, Share) else share_of(array)


class Indexing(Operators):
    """``x[...]`` and ``x[...] = value``."""

    __slots__ = ()

    def _index(self, key: object) -> Tensor:
        """Return ``x[key]`` for the keys that `Operators.__getitem__` does not handle."""
        where, selects = numpy_key(key, self, copying=self._node is not None)
        if selects:
            steps = _in_two_steps(where)
            if steps is not None:
                basic, advanced = steps
                return self[basic][advanced]
            return apply(_GETITEM, lambda array: _selected(array, where), (self,), key=where)
        array = self._array
        if array is None:
            self._raise_disposed()
        try:
            out = array[where]
        except IndexError as error:
            raise _with_advice(error, array.shape) from None
        return over(self, array, out, _GETITEM, (where,))

    def __setitem__(self, key: object, value: object) -> None:
        """Write `value`, broadcast, to the elements at `key`. `value` gets a gradient.

        Raises
        ------
        IndexError
            If an index is out of range, there are too many indices, or a mask does not fit.
        ValueError
            If `value` does not broadcast to the shape of the selection, or an integer tensor can't represent
            it. In this case nothing is written.
        TypeError
            If `value` is complex and the tensor is real, or `value` is not a number, array or tensor.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2, 2))
        >>> x[0] = tensor.tensor([1.0, 2.0])
        >>> x[:, 1] = 7
        >>> x.tolist()
        [[1.0, 7.0], [0.0, 7.0]]
        """
        self._raise_if_disposed()
        is_recorded = self._node is not None or getattr(value, "_node", None) is not None
        where, selects = numpy_key(key, self, copying=is_recorded)
        steps = _in_two_steps(where) if selects else None
        if steps is not None:
            basic, advanced = steps
            self[basic][advanced] = value
            return
        given = _checked_value(self, value)

        # A closure would keep `given` alive in the traceback of an error.
        write = partial(_write, where, given)
        shape = given._array.shape if isinstance(given, TensorCore) else given.shape  # type: ignore[union-attr]  # not disposed, see above
        overwrite(_SETITEM, self, write, (self, given), key=where, value_shape=shape)

    def __len__(self) -> int:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.ndim == 0:
            raise TypeError("a tensor without dimensions has no len(): write x.item() for its element")
        return int(array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.ndim == 0:
            raise TypeError(
                "a tensor without dimensions can't be iterated over: write x.item() for its element"
            )
        del array
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        """Return whether any element is equal to `value`."""
        self._raise_if_disposed()
        other: Any = operand(value)
        return other is not NotImplemented and bool(np.any(np.equal(operand(self), other)))

    def select(self, dim: int, index: int) -> Tensor:
        """Return a view of the slice at `index` along `dim`, without that dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).select(1, 0).tolist()
        [1, 3]
        """
        return self[(*[slice(None)] * dim_of("select", dim, self._dimensions()), index)]

    def narrow(self, dim: int, start: int | Tensor, length: int) -> Tensor:
        """Return a view of `length` slices along `dim`, from `start`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2, 3, 4]).narrow(0, 1, 2).tolist()
        [2, 3]
        """
        is_integer = hasattr(start, "__index__")
        if isinstance(start, TensorCore):
            array = start._live_array()
            is_integer = array.dtype.kind in "iu" and array.ndim == 0
        if not is_integer:
            raise TypeError("narrow: start must be an integer, or an integer tensor without dimensions")
        axis = dim_of("narrow", dim, self._dimensions())
        size = self._array.shape[axis]  # type: ignore[union-attr]  # _dimensions() has checked it
        begin = int(start)
        first = begin + size if begin < 0 else begin
        if length < 0 or not 0 <= first <= size - length:
            raise IndexError(f"narrow: {length} slices from {start} exceed dimension {dim} of size {size}")
        return self[(*[slice(None)] * axis, slice(first, first + length))]

    def _dimensions(self) -> int:
        array = self._array
        if array is None:
            self._raise_disposed()
        return array.ndim


def numpy_key(key: object, x: TensorCore, *, copying: bool = False) -> tuple[tuple[Any, ...], bool]:
    """Return the `key` of `x` for NumPy, and whether it selects elements (a copy) instead of a view.

    With `copying`, for a graph, copy the user's arrays. The key is then a `Key` if it has arrays.
    """
    if type(key) is Key:
        return key, True
    given = key if isinstance(key, tuple) else (key,)
    for part in given:
        kind = type(part)
        if kind is slice:
            kind = type(part.start)
            if kind not in _BOUNDS or type(part.stop) not in _BOUNDS or type(part.step) not in _BOUNDS:
                break
        elif kind not in _PLAIN:
            break
    else:
        # With an ellipsis, NumPy returns a 0-d array instead of a scalar.
        ellipses = given.count(...)
        if ellipses == 1:
            return given, False
        return (_with_one_ellipsis(given) if ellipses else (*given, ...)), False
    parts: list[Any] = []
    holds: list[Share] = []
    selects = has_ellipsis = False
    for part in given:
        kind = type(part)
        if kind is int or part is None:
            parts.append(part)
        elif kind is slice:
            parts.append(_plain_slice(part))
        elif part is Ellipsis:
            has_ellipsis = True
            parts.append(part)
        else:
            found = _plain_index(part, copying)
            if not isinstance(found, int):
                selects = True
                if copying:
                    holds.append(_share_under(found))
            parts.append(found)
    if not has_ellipsis:
        if not selects:
            parts.append(Ellipsis)
    else:
        parts = list(_with_one_ellipsis(tuple(parts)))
        if selects and _dims_read_by(parts) == x._live_array().ndim:
            # For NumPy an ellipsis that stands for no dimension separates arrays, for PyTorch it does not.
            parts = [part for part in parts if part is not Ellipsis]
    if not holds:
        return tuple(parts), selects
    shared_key = Key(parts)
    shared_key.holds = tuple(holds)
    return shared_key, selects


def _with_one_ellipsis(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `parts` without the ellipses at their end that follow another one, as PyTorch reads them."""
    places = [place for place, part in enumerate(parts) if part is Ellipsis]
    end = len(parts)
    while len(places) > 1 and places[-1] == end - 1:
        end = places.pop()
    return parts[:end]


def _dims_read_by(parts: list[Any]) -> int:
    """Return how many dimensions of a tensor `parts` stand for, without the ellipsis."""
    count = 0
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind == "b":
            count += part.ndim
        elif part is not None and part is not Ellipsis:
            count += 1
    return count


def _in_two_steps(where: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Return a key of views and a key of arrays that one after the other select what PyTorch selects.

    PyTorch applies the integers, slices and None of an index first, and then the arrays. For NumPy an integer
    beside an array is an array too, so a slice between them moves the dimension of the arrays to the front:
    ``x[0, :, [0, 1]]``. Return None if both agree on `where`, because nothing stands between them.
    """
    places = [i for i, part in enumerate(where) if isinstance(part, (int, np.ndarray))]
    if places[-1] - places[0] == len(places) - 1 or not any(isinstance(where[i], int) for i in places):
        return None
    basic: list[Any] = []
    advanced: list[Any] = []
    for part in where:
        if isinstance(part, np.ndarray):
            if part.ndim:
                basic += [slice(None)] * (part.ndim if part.dtype.kind == "b" else 1)
                advanced.append(part)
            else:
                basic.append(None)  # True and False select from a new dimension
                advanced.append(np.zeros(int(part), np.intp))
        else:
            basic.append(part)
            if not isinstance(part, int):
                advanced.append(part if part is Ellipsis else slice(None))
    return tuple(basic), tuple(advanced)


def _is_plain(part: slice) -> bool:
    return type(part.start) in _BOUNDS and type(part.stop) in _BOUNDS and type(part.step) in _BOUNDS


def _plain_slice(part: slice) -> slice:
    if _is_plain(part):
        return part
    try:
        bounds = [None if bound is None else index(bound) for bound in (part.start, part.stop, part.step)]
    except TypeError:
        raise TypeError(f"the bounds of a slice must be integers or None, as x[1:3], not {part}") from None
    return slice(*bounds)


def _plain_index(part: object, copying: bool) -> int | Array:
    if isinstance(part, TensorCore):
        part._raise_if_disposed()
        array = snapshot(part)
    elif isinstance(part, (list, tuple, range)):
        array = as_data(part, None) if len(part) else np.empty(0, np.intp)
    elif isinstance(part, (np.ndarray, np.generic)):
        array = np.array(part) if copying else np.asarray(part)
    elif isinstance(part, bool):
        return np.asarray(part)
    elif hasattr(part, "__index__"):
        return index(part)
    else:
        raise IndexError(
            "an index must be an integer, a slice, None, ..., or a boolean or integer tensor, array or list, "
            f"not {type(part).__name__}"
        )
    if array.dtype.kind not in "biu":
        raise IndexError(
            f"indices must be integers or booleans, not {array.dtype}: convert them with x.long(), or "
            "compare them to get a mask (x > 0)"
        )
    if array.ndim == 0 and array.dtype.kind != "b":
        return int(array)
    return array


def _checked_value(x: TensorCore, value: object) -> TensorCore | Array:
    """Return `value` as a tensor or array to write to `x`. Raise an error if it does not fit."""
    array = x._array
    if array is None:
        x._raise_disposed()
    dtype, given = array.dtype, value
    if isinstance(value, TensorCore):
        value._raise_if_disposed()
        array = value._array
        if array is None:
            value._raise_disposed()
    elif isinstance(value, (bool, int, float)) or (isinstance(value, complex) and dtype.kind == "c"):
        try:
            return np.asarray(value, dtype)
        except (OverflowError, ValueError):
            if dtype.kind not in "iu":
                raise
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            raise InvalidArgumentError(
                f"can't write {value} into a tensor of {dtype}, which has integers from {least} to {most}"
            ) from None
    else:
        try:
            # A list of Python floats keeps its full precision in a float64 tensor.
            array = given = as_data(
                value, dtype if isinstance(value, (list, tuple)) and is_floating(dtype) else None
            )
        except TypeError as error:
            raise TypeError(f"can't write {type(value).__name__} into a tensor: {error}") from None
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(
            f"can't write complex values into a tensor of {dtype}: write value.real, or convert the tensor"
        )
    if is_floating(array.dtype) and dtype.kind in "iu" and not np.isfinite(array).all():
        raise InvalidArgumentError(
            f"can't write infinities or NaN into a tensor of {dtype}: convert the tensor first (x.float())"
        )
    return given  # type: ignore[return-value]  # a tensor, or the array of as_data


def _selected(array: Array, where: tuple[Any, ...]) -> Any:
    try:
        return array[where]
    except IndexError as error:
        raise _with_advice(error, array.shape) from None


def _with_advice(error: IndexError, shape: tuple[int, ...]) -> IndexError:
    text = re.sub(r"\baxis\b", "dimension", str(error)).replace("numpy.newaxis (`None`)", "None")
    if "out of bounds" in text:
        advice = "Indices must be from 0 to size - 1, or from -size to -1"
    elif "too many indices" in text:
        advice = f"Give at most {len(shape)}; None adds a dimension and does not count"
    elif "boolean index" in text:
        advice = "A mask must have the sizes of the dimensions that it indexes"
    elif "could not be broadcast" in text:
        advice = "Index tensors must broadcast against each other: equal sizes, or 1"
    else:
        advice = "See tensor.Tensor.__getitem__ for what an index may be"
    return IndexError(f"index into a tensor of shape {shape}: {text}. {advice}")
