"""Data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from scopes._shared.naming import set_module
from scopes.tracking.memory_owners import note_role
from tensor import Tensor
from tensor.core.tensor import TensorCore

T_co = TypeVar("T_co", covariant=True)


@set_module("nn.data")
class Dataset(Generic[T_co]):
    """Base class of map-style data sets. Subclasses define ``__getitem__`` and ``__len__``.

    A `DataLoader` calls ``dataset[i]`` outside of all scopes, so samples that the data set caches stay alive.
    Moving a data set to another scope moves the tensors in its attributes. So does returning it from a
    ``@disposing`` function.

    Examples
    --------
    >>> from nn.data import DataLoader, Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> [batch.tolist() for batch in DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4, 9]]
    """

    def __disposables__(self) -> list[object]:
        # Scopes call this when the data set is attached or returned.
        return list(vars(self).values())

    def __getitem__(self, index: int) -> T_co:
        raise NotImplementedError(
            f"{type(self).__name__} does not define __getitem__(self, index): define it to return a sample"
        )

    def __len__(self) -> int:
        raise NotImplementedError(
            f"{type(self).__name__} does not define __len__(self): define it to return the number of samples"
        )


@set_module("nn.data")
class IterableDataset(Dataset[T_co]):
    """Base class of iterable data sets without indices. Subclasses define ``__iter__``.

    Each worker of a `DataLoader` iterates over its own copy. Select a part of the samples by
    ``get_worker_info()``, or every worker returns all samples.

    Examples
    --------
    >>> from nn.data import DataLoader, IterableDataset
    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> [batch.tolist() for batch in DataLoader(Countdown(), batch_size=2)]
    [[3, 2], [1]]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(
            f"{type(self).__name__} does not define __iter__(self): define it to yield the samples"
        )

    def __getitem__(self, index: int) -> T_co:
        raise TypeError(
            f"{type(self).__name__} does not support the index {index}, because it is an IterableDataset: "
            "iterate over it"
        )

    def __len__(self) -> int:
        raise TypeError(
            f"{type(self).__name__} does not define __len__(self): define it if the number of samples is "
            "known"
        )


class BatchDataset(IterableDataset[T_co]):
    """Base class of data sets that read whole batches. Subclasses define ``batches`` and ``collate``."""

    def batches(self, batch_size: int, *, drop_last: bool) -> Iterable[Any]:
        """Return the raw batches of one epoch, for `collate`. The loader reads them outside of all scopes."""
        raise NotImplementedError

    def collate(self, batch: Any) -> T_co:
        """Convert a raw batch to tensors, which belong to the scope of the loop."""
        raise NotImplementedError


@set_module("nn.data")
class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Data set of the rows of `tensors`, which have the same length. The tensors are not copied.

    The tensors are detached from their scopes, as the buffers of a module are: they live as long as something
    refers to them.

    Examples
    --------
    >>> import tensor
    >>> from nn.data import TensorDataset
    >>> data = TensorDataset(tensor.ones((3, 2)), tensor.tensor([0, 1, 2]))
    >>> len(data), data[1][1].item()
    (3, 1)
    """

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset requires at least one tensor")
        lengths = []
        for x in tensors:
            if not isinstance(x, TensorCore):
                raise TypeError(
                    f"TensorDataset requires tensors, not {type(x).__name__}: write tensor.tensor(data)"
                )
            if not x.shape:
                raise ValueError("TensorDataset requires tensors with at least one dimension")
            lengths.append(x.shape[0])
        if len(set(lengths)) != 1:
            raise ValueError(f"TensorDataset requires tensors of equal length, not of lengths {lengths}")
        for x in tensors:
            x.detach_from_dispose_scope()
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


note_role(Dataset, "data")
