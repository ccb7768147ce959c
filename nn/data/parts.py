"""Data sets composed of others: subsets, concatenations and stacks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import floor, isclose
from typing import Any, Protocol, TypeVar

from nn.data.dataset import Dataset, IterableDataset
from scopes._shared.naming import set_module
from tensor import Generator, InvalidArgumentError
from tensor.creation.generators import default_generator

T_co = TypeVar("T_co", covariant=True)


class Indexable(Protocol[T_co]):
    """Protocol of data sets with samples by index."""

    def __getitem__(self, index: int, /) -> T_co: ...

    def __len__(self) -> int: ...


@set_module("nn.data")
class Subset(Dataset[T_co]):
    """Subset of a data set: the samples at `indices`, in that order.

    Examples
    --------
    >>> import nn, tensor
    >>> part = nn.data.Subset("abcd", [3, 0])
    >>> len(part), part[0], part[1]
    (2, 'd', 'a')
    """

    def __init__(self, dataset: Indexable[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int) -> T_co:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


@set_module("nn.data")
class ConcatDataset(Dataset[T_co]):
    """Concatenation of several data sets.

    Examples
    --------
    >>> import nn, tensor
    >>> joined = nn.data.ConcatDataset(["ab", "cde"])
    >>> len(joined), joined[1], joined[2], joined[-1]
    (5, 'b', 'c', 'e')
    """

    def __init__(self, datasets: Iterable[Indexable[T_co]]) -> None:
        self.datasets: list[Indexable[T_co]] = list(datasets)
        if not self.datasets:
            raise InvalidArgumentError("ConcatDataset requires at least one data set")
        self.cumulative_sizes: list[int] = list(accumulate(len(part) for part in self.datasets))

    def __getitem__(self, index: int) -> T_co:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"index {index} is out of range for a ConcatDataset of length {len(self)}")
        which = bisect_right(self.cumulative_sizes, place)
        return self.datasets[which][place - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


@set_module("nn.data")
class ChainDataset(IterableDataset[T_co]):
    """Concatenation of several iterable data sets.

    Examples
    --------
    >>> import nn, tensor
    >>> list(nn.data.ChainDataset(["ab", "c"]))
    ['a', 'b', 'c']
    """

    def __init__(self, datasets: Iterable[Iterable[T_co]]) -> None:
        self.datasets: Iterable[Iterable[T_co]] = datasets

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)  # type: ignore[misc, arg-type]  # raises TypeError if a part has no length


@set_module("nn.data")
class StackDataset(Dataset[Any]):
    """Stack of data sets of equal length: samples are tuples, or dicts if the data sets have names.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.data.StackDataset("ab", [1, 2])[0], nn.data.StackDataset(letter="ab", number=[1, 2])[1]
    (('a', 1), {'letter': 'b', 'number': 2})
    """

    def __init__(self, *args: Indexable[Any], **kwargs: Indexable[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise InvalidArgumentError(
                "StackDataset requires data sets, all as positional or all as keyword arguments: write "
                "StackDataset(images, labels)"
            )
        self.datasets: tuple[Indexable[Any], ...] | dict[str, Indexable[Any]] = args or kwargs
        lengths = [len(part) for part in (args or kwargs.values())]
        if len(set(lengths)) != 1:
            raise InvalidArgumentError(
                f"StackDataset requires data sets of equal length, not of lengths {lengths}"
            )
        self._length = lengths[0]

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple([part[index] for part in self.datasets])

    def __len__(self) -> int:
        return self._length


def random_split(
    dataset: Indexable[Any], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Split `dataset` into random subsets with these lengths, or fractions that sum to 1.

    Raises
    ------
    ValueError
        If the lengths do not sum to the length of the data set.

    Examples
    --------
    >>> import nn, tensor
    >>> [len(part) for part in nn.data.random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    count = len(dataset)
    if min(lengths, default=0) < 0:
        raise InvalidArgumentError(f"random_split: lengths must be at least 0, not {list(lengths)}")
    sizes = [int(n) for n in lengths]
    if isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9:
        sizes = [floor(count * share) for share in lengths]
        for i in range(count - sum(sizes)):  # distribute the remainder of rounding
            sizes[i % len(sizes)] += 1
    if sum(sizes) != count:
        raise InvalidArgumentError(
            f"random_split: lengths must sum to the number of samples, {count}, or fractions to 1, but "
            f"{list(lengths)} sum to {sum(lengths):g}"
        )
    order = (generator or default_generator).numbers.permutation(count).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
