"""Batches of sequences of different lengths: PyTorch's ``torch.nn.utils.rnn``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from nn.functional.checks import array_of
from nn.functional.derivatives import RULES
from scopes.core.scope import Compound
from tensor import Tensor
from tensor._dtypes import Array, DtypeLike
from tensor._errors import shown
from tensor.core.tensor import TensorCore, wrap
from tensor.ops.dispatch import apply

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(Compound):
    """Batch of sequences of different lengths without padding, for recurrent layers.

    It is a disposable made of tensors: a scope owns the packed sequence, and its tensors are disposed with
    it. To keep a tensor longer, move the whole sequence with ``scope.move_to_outer(packed)``, or keep
    ``packed.data.clone()``. Create one with ``pack_sequence`` or ``pack_padded_sequence``. If you call the
    class, for example with the data of a layer and the sizes of another packed sequence, the result holds
    aliases of your tensors. Iteration yields its four parts.

    Parameters
    ----------
    data
        The elements of all sequences, shape ``(sum of lengths, *)``: all first elements, all second
        elements, and so on.
    batch_sizes
        The number of sequences at each step: integers of at least 1, not increasing.
    sorted_indices
        The order of the sequences in `data`, if they were sorted by length; or None.
    unsorted_indices
        The inverse permutation; computed from `sorted_indices` by default.

    Raises
    ------
    ValueError
        If `batch_sizes` is not as described, or its sum is not the length of `data`.

    Examples
    --------
    >>> import tensor
    >>> from nn.utils.rnn import PackedSequence, pack_sequence
    >>> packed = pack_sequence([tensor.tensor([1, 2, 3]), tensor.tensor([4, 5])])
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1, 4, 2, 5, 3], [2, 2, 1])
    >>> doubled = PackedSequence(packed.data * 2, packed.batch_sizes)
    >>> doubled.data.tolist()
    [2, 8, 4, 10, 6]
    """

    def __init__(
        self,
        data: Tensor,
        batch_sizes: Tensor,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> None:
        name = "PackedSequence"
        elements = array_of(name, "data", data)
        sizes = array_of(name, "batch_sizes", batch_sizes)
        _require_sizes(sizes, elements)
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = wrap(_inverse(array_of(name, "sorted_indices", sorted_indices)))
        given = (data, batch_sizes, sorted_indices, unsorted_indices)
        self._hold(*(None if x is None else x.alias() for x in given))

    @classmethod
    def _of(cls, data: Tensor, batch_sizes: Array, sorted_indices: Array | None) -> Self:
        """Return a packed sequence that takes over `data`, which has no other reference."""
        packed = cls.__new__(cls)
        order = (None, None) if sorted_indices is None else (sorted_indices, _inverse(sorted_indices))
        packed._hold(data, wrap(batch_sizes), *(None if x is None else wrap(x) for x in order))
        return packed

    def _hold(self, *fields: Any) -> None:
        self._fields: tuple[Any, ...] = fields
        super().__init__(tuple([x for x in fields if x is not None]))

    @property
    def data(self) -> Tensor:
        """The elements of all sequences, step by step: shape ``(sum of lengths, *)``."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def batch_sizes(self) -> Tensor:
        """The number of sequences at each step."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def sorted_indices(self) -> Tensor | None:
        """The order of the sequences in `data`; None if packing did not sort them."""
        return self._fields[2]  # type: ignore[no-any-return]

    @property
    def unsorted_indices(self) -> Tensor | None:
        """The position of each sequence in `data`; None if packing did not sort them."""
        return self._fields[3]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor | None]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getitem__(self, place: int) -> Tensor | None:
        return self._fields[place]  # type: ignore[no-any-return]

    def to(
        self,
        target: DtypeLike | Tensor | None = None,
        dtype: DtypeLike | None = None,
        *,
        device: str | None = None,
        copy: bool = False,
    ) -> Self:
        """Return the sequences in another dtype, as ``Tensor.to`` does; this object if nothing changes.

        Examples
        --------
        >>> import tensor
        >>> from nn.utils.rnn import pack_sequence
        >>> pack_sequence([tensor.ones((2,))]).to(tensor.float64).data.dtype
        dtype('float64')
        """
        self._raise_if_disposed()
        data = self.data.to(target, dtype, device=device, copy=copy)
        return self if data is self.data else type(self)(data, *self._fields[1:])

    def cpu(self) -> Self:
        """Return this object: its memory is always on the CPU."""
        self._raise_if_disposed()
        return self

    def double(self) -> Self:
        """Return the sequences as float64."""
        return self.to(np.float64)

    def float(self) -> Self:
        """Return the sequences as float32."""
        return self.to(np.float32)

    def half(self) -> Self:
        """Return the sequences as float16."""
        return self.to(np.float16)

    def long(self) -> Self:
        """Return the sequences as int64."""
        return self.to(np.int64)

    def int(self) -> Self:
        """Return the sequences as int32."""
        return self.to(np.int32)

    def __repr__(self) -> str:
        if self.is_invalid:
            return "<PackedSequence: disposed>"
        names = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
        return f"PackedSequence({', '.join(f'{n}={x!r}' for n, x in zip(names, self, strict=True))})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        self._raise_if_disposed()
        return type(self), self._fields


def _require_sizes(sizes: Array, data: Array) -> None:
    if (
        sizes.ndim != 1
        or sizes.dtype.kind not in "iu"
        or not sizes.size
        or (sizes[1:] > sizes[:-1]).any()
        or sizes[-1] < 1
    ):
        raise ValueError(
            "PackedSequence: batch_sizes must be integers in one dimension, at least 1 and not increasing, "
            f"not {shown(sizes.tolist())}"
        )
    if data.ndim == 0 or sizes.sum() != len(data):
        raise ValueError(
            f"PackedSequence: the first size of data must be the sum of batch_sizes, {sizes.sum()}, but data "
            f"has shape {data.shape}"
        )


def _inverse(order: Array) -> Array:
    inverse = np.empty(order.size, np.int64)
    inverse[order] = np.arange(order.size)
    return inverse


# --- Positions of elements ----------------------------------------------------------------------------------


def _in_order(name: str, lengths: Array, enforce_sorted: bool) -> Array | None:
    """Return the indices that sort sequences by descending length; None if `enforce_sorted`."""
    if not enforce_sorted:
        return np.argsort(-lengths, kind="stable")
    if (lengths[1:] > lengths[:-1]).any():
        raise ValueError(
            f"{name}: lengths must not increase, but they are {shown(lengths.tolist())}: sort the sequences "
            "by descending length, or pass enforce_sorted=False"
        )
    return None


def _sizes_of(falling: Array) -> Array:
    """Return the number of sequences at each step, from their descending lengths."""
    steps = np.arange(int(falling[0]))
    return np.asarray(np.searchsorted(-falling, -steps, side="left"), np.int64)


def _places(sizes: Array, order: Array | None) -> tuple[Array, Array]:
    """Return the step and the sequence of each packed element."""
    steps = np.repeat(np.arange(sizes.size), sizes)
    starts = np.cumsum(sizes) - sizes
    sequences = np.arange(steps.size) - starts[steps]
    return steps, sequences if order is None else order[sequences]


def _rows(sizes: Array, order: Array | None, length: int, count: int, batch_first: bool) -> Array:
    """Return the index of each packed element in a padded batch whose first two dimensions are flattened."""
    steps, sequences = _places(sizes, order)
    return sequences * length + steps if batch_first else steps * count + sequences


def _lengths_of(name: str, lengths: Tensor | Sequence[int]) -> Array:
    found = array_of(name, "lengths", lengths) if isinstance(lengths, TensorCore) else np.asarray(lengths)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"{name}: lengths must be integers in one dimension, not {shown(lengths)}")
    return found.astype(np.int64)


# --- Packing ------------------------------------------------------------------------------------------------


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack the sequences of a padded batch. The operation is differentiable.

    Parameters
    ----------
    input
        Shape ``(length, batch, *)``, or ``(batch, length, *)`` with `batch_first`.
    lengths
        The length of each sequence, at least 1.
    batch_first
        Whether the batch is the first dimension.
    enforce_sorted
        Require sequences that are sorted by descending length. If False, the function sorts them, and
        ``sorted_indices`` is the order.

    Raises
    ------
    ValueError
        If the numbers of lengths and sequences differ, or a length is below 1, above the number of steps of
        `input`, or out of order.

    Examples
    --------
    >>> import tensor
    >>> from nn.utils.rnn import pack_padded_sequence
    >>> padded = tensor.tensor([[1, 2, 0], [3, 4, 5]])
    >>> packed = pack_padded_sequence(padded, [2, 3], batch_first=True, enforce_sorted=False)
    >>> packed.data.tolist(), packed.sorted_indices.tolist()
    ([3, 1, 4, 2, 5], [1, 0])
    """
    name = "pack_padded_sequence"
    x, given = array_of(name, "input", input), _lengths_of(name, lengths)
    if x.ndim < 2:
        raise ValueError(f"{name}: input must have at least two dimensions, not shape {x.shape}")
    length, count = x.shape[:2][::-1] if batch_first else x.shape[:2]
    if given.size != count or not count:
        raise ValueError(
            f"{name}: lengths must hold one length for each sequence, and at least one, but it holds "
            f"{given.size}, and with batch_first={batch_first} an input of shape {x.shape} has {count}"
        )
    if given.min() < 1 or given.max() > length:
        wrong = given[(given < 1) | (given > length)][0]
        raise ValueError(
            f"{name}: lengths must be from 1 to {length}, the number of steps of input, not {wrong}"
        )
    order = _in_order(name, given, enforce_sorted)
    sizes = _sizes_of(given if order is None else given[order])
    rows = _rows(sizes, order, length, count, batch_first)

    def kernel(x: Array) -> Array:
        return x.reshape(length * count, *x.shape[2:]).take(rows, 0)

    data: Any = apply(RULES["pack_padded"], kernel, (input,), rows=rows, shape=x.shape)
    return PackedSequence._of(data, sizes, order)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of shape ``(length, *)``. The operation is differentiable.

    Parameters
    ----------
    sequences
        At least one sequence, sorted by descending length unless `enforce_sorted` is False.
    enforce_sorted
        As in `pack_padded_sequence`.

    Raises
    ------
    ValueError
        If there is no sequence, one is empty or out of order, or their shapes differ beyond the length.

    Examples
    --------
    >>> import tensor
    >>> from nn.utils.rnn import pack_sequence, unpack_sequence
    >>> words = [tensor.tensor([1, 2]), tensor.tensor([3, 4, 5])]
    >>> packed = pack_sequence(words, enforce_sorted=False)
    >>> [x.tolist() for x in unpack_sequence(packed)]
    [[1, 2], [3, 4, 5]]
    """
    name = "pack_sequence"
    arrays = _sequences(name, sequences)
    given = np.asarray([len(x) for x in arrays], np.int64)
    if given.min() < 1:
        raise ValueError(f"{name}: sequence {int(given.argmin())} is empty: remove it")
    order = _in_order(name, given, enforce_sorted)
    sizes = _sizes_of(given if order is None else given[order])
    steps, owners = _places(sizes, order)
    ends = np.cumsum(given)
    rows = (ends - given)[owners] + steps
    places = _inverse(rows)

    def kernel(*arrays: Array) -> Array:
        return np.concatenate(arrays).take(rows, 0)

    data: Any = apply(RULES["pack"], kernel, sequences, places=places, ends=(0, *ends.tolist()))
    return PackedSequence._of(data, sizes, order)


def _sequences(name: str, sequences: Sequence[Tensor]) -> list[Array]:
    arrays = [array_of(name, f"sequence {i}", x) for i, x in enumerate(sequences)]
    if not arrays:
        raise ValueError(f"{name} requires at least one sequence")
    for i, x in enumerate(arrays):
        if x.ndim == 0 or x.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(
                f"{name}: sequences must have shape (length, *), equal except for the length, but sequence 0 "
                f"has shape {arrays[0].shape}, and sequence {i} {x.shape}"
            )
    return arrays


# --- Padding ------------------------------------------------------------------------------------------------


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sequences as a padded batch in their original order, and their lengths.

    Parameters
    ----------
    sequence
        A packed sequence, from `pack_sequence` or a recurrent layer.
    batch_first
        Whether the batch is the first dimension of the result instead of the second.
    padding_value
        The value after the end of each sequence.
    total_length
        The number of steps of the result, at least the longest length.

    Returns
    -------
    The batch, which is differentiable, and the lengths as an int64 tensor.

    Raises
    ------
    ValueError
        If `total_length` is too small.
    TensorDisposedError
        If `sequence` is disposed.

    Examples
    --------
    >>> import tensor
    >>> from nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([tensor.tensor([1, 2, 3]), tensor.tensor([4])])
    >>> padded, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1)
    >>> padded.tolist(), lengths.tolist()
    ([[1, 2, 3], [4, -1, -1]], [3, 1])
    """
    name = "pad_packed_sequence"
    _require_packed(name, sequence)
    sequence._raise_if_disposed()
    sizes = array_of(name, "batch_sizes", sequence.batch_sizes)
    order = sequence.sorted_indices
    places = None if order is None else array_of(name, "sorted_indices", order)
    length, count = sizes.size, int(sizes[0])
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                f"{name}: total_length must be at least {length}, the length of the longest sequence, not "
                f"{total_length}"
            )
        length = total_length
    rows = _rows(sizes, places, length, count, batch_first)

    def kernel(data: Array) -> Array:
        padded = np.full((length * count, *data.shape[1:]), padding_value, data.dtype)
        padded[rows] = data
        return padded.reshape(*((count, length) if batch_first else (length, count)), *data.shape[1:])

    padded: Any = apply(RULES["pad_packed"], kernel, (sequence.data,), rows=rows)
    lengths = np.empty(count, np.int64)
    lengths[slice(None) if places is None else places] = np.searchsorted(-sizes, -np.arange(count), "left")
    return padded, wrap(lengths)


def pad_sequence(
    sequences: Sequence[Tensor] | Tensor,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences of shape ``(length, *)`` as one padded batch. The operation is differentiable.

    Parameters
    ----------
    sequences
        At least one sequence.
    batch_first
        Whether the batch is the first dimension of the result instead of the second.
    padding_value
        The value of the padding.
    padding_side
        ``"right"`` or ``"left"``: whether the padding comes after or before a sequence.

    Raises
    ------
    ValueError
        If there is no sequence, or their shapes differ beyond the length.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.utils.rnn.pad_sequence([tensor.tensor([1, 2, 3]), tensor.tensor([4])], batch_first=True).tolist()
    [[1, 2, 3], [4, 0, 0]]
    """
    name = "pad_sequence"
    if padding_side not in ("right", "left"):
        raise ValueError(f"{name}: padding_side must be 'right' or 'left', not {shown(padding_side)}")
    arrays = _sequences(name, sequences)  # type: ignore[arg-type]  # iterating over a tensor yields its rows
    length = max(len(x) for x in arrays)
    spans = tuple((0, len(x)) if padding_side == "right" else (length - len(x), length) for x in arrays)

    def kernel(*arrays: Array) -> Array:
        dtype = np.result_type(*(x.dtype for x in arrays))
        padded = np.full((len(arrays), length, *arrays[0].shape[1:]), padding_value, dtype)
        for i, x in enumerate(arrays):
            padded[i, slice(*spans[i])] = x
        return padded if batch_first else np.ascontiguousarray(padded.swapaxes(0, 1))

    return apply(RULES["pad"], kernel, tuple(sequences), spans=spans, axis=int(batch_first))


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded batch without padding, as views.

    Examples
    --------
    >>> import tensor
    >>> from nn.utils.rnn import unpad_sequence
    >>> [x.tolist() for x in unpad_sequence(tensor.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)]
    [[1, 2], [3]]
    """
    x = array_of("unpad_sequence", "padded_sequences", padded_sequences)
    given = _lengths_of("unpad_sequence", lengths)
    if x.ndim < 2 or x.shape[0 if batch_first else 1] != given.size:
        raise ValueError(
            f"unpad_sequence: lengths must hold one length for each sequence, but it holds {given.size}, and "
            f"padded_sequences has shape {x.shape} with batch_first={batch_first}"
        )
    if batch_first:
        return [padded_sequences[i, :length] for i, length in enumerate(given.tolist())]
    return [padded_sequences[:length, i] for i, length in enumerate(given.tolist())]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed sequence in their original order.

    Examples
    --------
    >>> import tensor
    >>> from nn.utils.rnn import pack_sequence, unpack_sequence
    >>> packed = pack_sequence([tensor.tensor([1, 2, 3]), tensor.tensor([4])])
    >>> [x.tolist() for x in unpack_sequence(packed)]
    [[1, 2, 3], [4]]
    """
    _require_packed("unpack_sequence", packed_sequences)
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def _require_packed(name: str, sequence: object) -> None:
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"{name}() requires a PackedSequence, not {type(sequence).__name__}")
