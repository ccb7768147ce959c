"""Samplers: the order of samples in an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from scopes._shared.naming import set_module
from tensor import Generator, InvalidArgumentError
from tensor._errors import shown
from tensor.creation.generators import default_generator

T_co = TypeVar("T_co", covariant=True)

# The number of indices drawn at a time with replacement.
_DRAW_SIZE = 1024


@set_module("nn.data")
class Sampler(Generic[T_co]):
    """Base class of samplers. Subclasses define ``__iter__``, which yields indices, and ``__len__``.

    Examples
    --------
    >>> from nn.data import DataLoader, Sampler
    >>> class Backward(Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    ...
    ...     def __len__(self):
    ...         return 3
    >>> [batch.tolist() for batch in DataLoader([5, 6, 7], batch_size=2, sampler=Backward())]
    [[7, 6], [5]]
    """

    def __init__(self, data_source: object = None) -> None:
        del data_source

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(
            f"{type(self).__name__} does not define __iter__(self): define it to yield indices"
        )


@set_module("nn.data")
class SequentialSampler(Sampler[int]):
    """Sampler of all indices in order.

    Examples
    --------
    >>> import nn, tensor
    >>> list(nn.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


@set_module("nn.data")
class RandomSampler(Sampler[int]):
    """Sampler in a random order, which is drawn again for each epoch.

    Parameters
    ----------
    data_source
        The data set; the sampler only uses its length.
    replacement
        Whether to draw with replacement.
    num_samples
        The number of indices in an epoch; None for the length of the data set.
    generator
        The random generator; None is the default one.

    Examples
    --------
    >>> from nn.data import RandomSampler
    >>> sorted(RandomSampler("abc")), len(list(RandomSampler("abc", replacement=True, num_samples=10)))
    ([0, 1, 2], 10)
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if num_samples is not None and (type(num_samples) is not int or num_samples < 1):
            raise InvalidArgumentError(
                f"num_samples must be None or an integer of at least 1, not {shown(num_samples)}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """The number of indices in an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        numbers = (self.generator or default_generator).numbers
        count, left = len(self.data_source), self.num_samples
        if left and not count:
            raise InvalidArgumentError(f"RandomSampler can't draw {left} samples from an empty data set")
        while left > 0:
            if self.replacement:
                drawn = numbers.integers(0, count, min(left, _DRAW_SIZE))
            else:
                drawn = numbers.permutation(count)[:left]
            left -= len(drawn)
            yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


@set_module("nn.data")
class SubsetRandomSampler(Sampler[int]):
    """Sampler of the given indices in a random order.

    Examples
    --------
    >>> import nn, tensor
    >>> sorted(nn.data.SubsetRandomSampler([7, 3]))
    [3, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = (self.generator or default_generator).numbers.permutation(len(self.indices))
        return iter([self.indices[i] for i in order.tolist()])

    def __len__(self) -> int:
        return len(self.indices)


@set_module("nn.data")
class WeightedRandomSampler(Sampler[int]):
    """Random sampler with probabilities in proportion to `weights`, which need not sum to 1.

    Parameters
    ----------
    weights
        One weight for each sample, at least 0; a sequence or a tensor.
    num_samples
        The number of indices in an epoch.
    replacement
        Whether to draw with replacement.
    generator
        The random generator; None is the default one.

    Examples
    --------
    >>> import nn, tensor
    >>> list(nn.data.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if type(num_samples) is not int or num_samples < 1:
            raise InvalidArgumentError(
                f"num_samples must be an integer of at least 1, not {shown(num_samples)}"
            )
        self.weights = np.array(weights, np.float64)
        if self.weights.ndim != 1 or not (self.weights >= 0).all() or not 0 < self.weights.sum() < np.inf:
            raise InvalidArgumentError(
                "weights must be finite numbers of at least 0 in one dimension, and not all 0, not "
                f"{shown(self.weights.tolist())}"
            )
        if not replacement and num_samples > np.count_nonzero(self.weights):
            raise InvalidArgumentError(
                f"without replacement, num_samples must be at most {np.count_nonzero(self.weights)}, the "
                f"number of weights above 0, not {num_samples}: pass replacement=True"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        numbers = (self.generator or default_generator).numbers
        drawn = numbers.choice(
            len(self.weights), self.num_samples, self.replacement, self.weights / self.weights.sum()
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


@set_module("nn.data")
class BatchSampler(Sampler[list[int]]):
    """Sampler of batches: lists of `batch_size` indices of another sampler.

    Examples
    --------
    >>> import nn, tensor
    >>> list(nn.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if type(batch_size) is not int or batch_size < 1:
            raise InvalidArgumentError(
                f"batch_size must be an integer of at least 1, not {shown(batch_size)}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # raises TypeError if the sampler has no length
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
