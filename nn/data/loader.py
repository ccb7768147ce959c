"""Batches of a data set, each disposed before the next is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

import numpy as np

from nn.data.collate import default_collate
from nn.data.dataset import TensorDataset
from nn.data.samplers import BatchSampler
from scopes import DisposeScope, current_dispose_scope
from scopes.lowlevel import current
from tensor import Generator
from tensor.lowlevel import default_generator, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import TypeVar as TypeVarWithDefault

    from tensor import Tensor
    from tensor.lowlevel import Array

T_co = TypeVar("T_co", covariant=True)


class Collated:
    """For type checkers: batches are what ``default_collate`` makes of samples."""


# A batch, of the loader's own `collate_fn` if it has one.
if TYPE_CHECKING:
    B_co = TypeVarWithDefault("B_co", covariant=True, default=Collated)
else:
    B_co = TypeVar("B_co", covariant=True)
# Samples whose batches are of the same type.
Rows = TypeVar("Rows", bound="Tensor | tuple[Tensor, ...]")


class Samples(Protocol[T_co]):
    """What a loader reads from: samples by number."""

    def __getitem__(self, index: int, /) -> T_co: ...

    def __len__(self) -> int: ...


class DataLoader(Generic[T_co, B_co]):
    """Goes through a data set in batches, as often as it is iterated.

    Each batch is in a scope of its own, which ends before the next batch is made, and when the loop has come
    to its end. That scope is current only while the batch is made: what the loop computes belongs to the
    loop's own scope. To keep a tensor of a batch, clone it, or take it out of its scope
    (``x.detach_from_dispose_scope()``, ``scope.attach(x)``).

    Where no next batch is asked for, the last one is the caller's, like any other tensor made there: after a
    ``break``, an exception, or ``next(iter(loader))``. The scope around the loop disposes it.

    The loader disposes what it has made itself, the collated batch. Samples are read outside of all scopes;
    tensors of the data set are never disposed.

    Parameters
    ----------
    dataset
        Anything with ``__getitem__`` and ``__len__``.
    batch_size
        The number of samples in a batch; None hands out single samples as they are.
    shuffle
        Go through the samples in a new random order each time.
    generator
        What orders are drawn from: a ``tensor.Generator``, or a seed for one of the loader's own, which gives
        the same orders in each run. None is the default generator.
    drop_last
        Leave out a last batch that would be smaller.
    collate_fn
        Makes a batch from a list of samples; ``default_collate`` for None.
    sampler
        Gives the numbers of the samples instead of `shuffle`: anything that can be iterated over.
    batch_sampler
        Gives lists of numbers, a batch each, instead of `batch_size`, `shuffle`, `sampler`, `drop_last`.
    num_workers
        Taken from programs written for PyTorch: batches are made by the process that asks for them.
    pin_memory
        Changes nothing: there is no device to copy to.
    dispose_batches
        With False a batch belongs to the scope that is current at the loop, like any other tensor.

    Examples
    --------
    >>> import tensor
    >>> from nn.data import DataLoader, TensorDataset
    >>> data = TensorDataset(tensor.tensor([1.0, 2.0, 3.0]))
    >>> loader = DataLoader(data, batch_size=2, shuffle=True, generator=0)
    >>> seen = []
    >>> for (x,) in loader:
    ...     seen += x.tolist()
    >>> sorted(seen), x.is_invalid, len(loader)
    ([1.0, 2.0, 3.0], True, 2)
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, item):
            # Before Python 3.13 a type variable has no default: `DataLoader[Tensor]` leaves the batch out.
            return super().__class_getitem__(item if isinstance(item, tuple) else (item, Collated))

    def __init__(
        self,
        dataset: Samples[T_co],
        batch_size: int | None = 1,
        shuffle: bool = False,
        *,
        generator: Generator | int | None = None,
        drop_last: bool = False,
        collate_fn: Callable[[list[T_co]], B_co] | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        dispose_batches: bool = True,
    ) -> None:
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise TypeError(
                "a DataLoader needs a data set with __getitem__ and __len__, not a "
                f"{type(dataset).__name__}: write TensorDataset(inputs, targets), or a list"
            )
        if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
            raise ValueError(
                f"batch_size is a number of samples, at least 1, or None, not {shown(batch_size)}"
            )
        if batch_size is None and drop_last:
            raise ValueError("drop_last needs a batch_size: single samples have no last batch")
        if sampler is not None and shuffle:
            raise ValueError("a sampler gives the order itself: leave shuffle out")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "a batch_sampler makes batches itself: leave batch_size, shuffle, sampler, drop_last out"
            )
        if type(num_workers) is not int or num_workers < 0:
            raise ValueError(f"num_workers is a number of processes, at least 0, not {shown(num_workers)}")
        self.dataset = dataset
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self.dispose_batches = dispose_batches
        if isinstance(generator, int) and not isinstance(generator, bool):
            generator = Generator().manual_seed(generator)
        elif generator is not None and not isinstance(generator, Generator):
            raise TypeError(f"generator is a tensor.Generator or a seed, not a {type(generator).__name__}")
        self.generator = generator

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]  # without a length it raises, as it should
        count = len(self.dataset) if self.sampler is None else len(self.sampler)  # type: ignore[arg-type]
        size = self.batch_size or 1
        return count // size if self.drop_last else -(-count // size)

    @overload
    def __iter__(self: DataLoader[Rows, Collated]) -> Iterator[Rows]: ...
    @overload
    def __iter__(self: DataLoader[Any, Collated]) -> Iterator[Any]: ...
    @overload
    def __iter__(self) -> Iterator[B_co]: ...
    def __iter__(self) -> Iterator[Any]:
        return _Batches(self)

    def order(self) -> Array:
        """Return the numbers of the samples in the order of a new round, without a sampler's; drawn here.

        Examples
        --------
        >>> from nn.data import DataLoader
        >>> DataLoader(["a", "b", "c"]).order().tolist()
        [0, 1, 2]
        """
        count = len(self.dataset)
        if not self.shuffle:
            return np.arange(count)
        return (self.generator or default_generator).numbers.permutation(count)


class _Batches:
    """One round through a loader."""

    def __init__(self, loader: DataLoader[Any, Any]) -> None:
        self._scope: DisposeScope | None = None
        self._loader = loader
        self._numbers = _numbers_of_batches(loader)
        self._done = 0

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        return len(self._loader) - self._done

    def __next__(self) -> Any:
        self._end()
        numbers = next(self._numbers)
        self._done += 1
        return self._batch(numbers)

    def _batch(self, numbers: Array) -> Any:
        loader = self._loader
        if loader.batch_size is None and loader.batch_sampler is None:
            return _read(loader.dataset, numbers)[0]
        whole_rows = _reads_rows(loader)
        samples = [] if whole_rows else _read(loader.dataset, numbers)
        outside = current_dispose_scope()
        scope = DisposeScope("a DataLoader's batch") if loader.dispose_batches else None
        try:
            if whole_rows:
                batch = tuple([x[numbers] for x in loader.dataset.tensors])  # type: ignore[attr-defined]  # seen above
            else:
                batch = (loader.collate_fn or default_collate)(samples)
        except BaseException:
            if scope is not None:
                scope.dispose()
            raise
        finally:
            samples.clear()
            current.set(outside)
        self._scope = scope
        return batch

    def _end(self) -> None:
        """Dispose what is left of the batch that is out."""
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.dispose()

    def __del__(self) -> None:
        # No next batch will be asked for, and the caller may go on with this one.
        scope, self._scope = self._scope, None
        if scope is not None and not scope.is_disposed:
            scope.move_to_outer(*scope.disposables_view)
            scope.dispose()


def _numbers_of_batches(loader: DataLoader[Any, Any]) -> Iterator[Array]:
    """Return the numbers of the samples of each batch of a new round."""
    size = loader.batch_size or 1
    if loader.batch_sampler is not None:
        return (np.asarray(numbers, np.int64) for numbers in loader.batch_sampler)
    if loader.sampler is not None:
        batches = BatchSampler(loader.sampler, size, loader.drop_last)
        return (np.asarray(numbers, np.int64) for numbers in batches)
    order = loader.order()
    return (order[place : place + size] for place in range(0, len(loader) * size, size))


def _reads_rows(loader: DataLoader[Any, Any]) -> bool:
    """Tell whether a batch can be read in one go: its collated samples would be the tensors' rows."""
    dataset = loader.dataset
    return (
        loader.collate_fn is None
        and isinstance(dataset, TensorDataset)
        and type(dataset).__getitem__ is TensorDataset.__getitem__
    )


def _read(dataset: Samples[Any], numbers: Array) -> list[Any]:
    """Read samples outside of all scopes: some may be the data set's own, made at this moment."""
    outside = current.get(None)
    current.set(None)
    try:
        return [dataset[i] for i in numbers.tolist()]
    finally:
        current.set(outside)
