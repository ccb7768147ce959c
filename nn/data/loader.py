"""Load batches of a data set, in this process or in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

from nn.data.dataset import IterableDataset
from nn.data.fetching import EXHAUSTED, Fetcher, Recipe
from nn.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from nn.data.workers import WorkerEpoch, Workers
from scopes import DisposeScope, current_dispose_scope
from scopes._shared.clearing import clear_errors_of
from scopes._shared.naming import set_module
from scopes.core.scope import current
from scopes.tracking.memory_owners import note_role
from tensor import Generator, Tensor
from tensor._errors import shown
from tensor.creation.generators import default_generator

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from typing_extensions import TypeVar as TypeVarWithDefault


T_co = TypeVar("T_co", covariant=True)


class Collated:
    """For type checkers: batches have the type of ``default_collate``'s result."""


# The type of a batch: the result of `collate_fn`, if there is one.
if TYPE_CHECKING:
    B_co = TypeVarWithDefault("B_co", covariant=True, default=Collated)
else:
    B_co = TypeVar("B_co", covariant=True)
# The types of samples that `default_collate` converts to batches of the same type.
Rows = TypeVar("Rows", bound="Tensor | tuple[Tensor, ...]")


class Samples(Protocol[T_co]):
    """A source of samples by index, for a loader."""

    def __getitem__(self, index: int, /) -> T_co: ...

    def __len__(self) -> int: ...


@set_module("nn.data")
class DataLoader(Generic[T_co, B_co]):
    """Iterable over the batches of a data set.

    A batch belongs to the scope that is current when the loop requests it, like any other new tensor. Samples
    are read outside of all scopes, so tensors of the data set are never disposed.

    With ``num_workers``, worker processes create the batches in advance, in turn. The order of batches is the
    same as without workers. Tensors of 4 KiB and more arrive in shared memory. The loop's process does not
    copy them while fewer than 64 tensors of a worker are alive. The memory is reused for another batch when
    the tensor is disposed or its last reference is deleted. An error in a worker is raised in the loop, with
    the worker's traceback in a note. If a worker dies, all workers end, and a ``RuntimeError`` says how it
    died. Workers end with the loop, also after a ``break``.

    Parameters
    ----------
    dataset
        An object with ``__getitem__`` and ``__len__``, or an ``IterableDataset``.
    batch_size
        The number of samples in a batch; None returns single samples.
    shuffle
        Use a new random order for each epoch.
    sampler
        An iterable of sample indices, instead of `shuffle`.
    batch_sampler
        An iterable of lists of indices, one list for each batch, instead of `batch_size`, `shuffle`,
        `sampler` and `drop_last`.
    num_workers
        The number of worker processes; 0 creates batches in this process.
    collate_fn
        Function that creates a batch from a list of samples. The default is ``default_collate``, or
        ``default_convert`` for single samples.
    pin_memory
        No effect: there is no device to copy to.
    drop_last
        Drop the last batch if it is smaller. With an ``IterableDataset``, drop the last batch of each worker.
    timeout
        The most seconds to wait for a batch of a worker; 0 waits without a limit.
    worker_init_fn
        Function that each worker calls with its id before its first batch.
    multiprocessing_context
        The start method of processes: "fork", "spawn", "forkserver", or a context of ``multiprocessing``.
        None uses the default of ``multiprocessing``. All but "fork" need a data set that can be pickled.
    generator
        The random generator for orders and for seeds of workers: a ``tensor.Generator``, or a seed for a new
        one, which makes runs reproducible. None is the default generator. Worker `i` seeds ``random`` and
        ``tensor`` with a random base seed plus `i`, and ``numpy.random`` with a hash of both numbers.
    prefetch_factor
        The number of batches that each worker creates in advance; None is 2.
    persistent_workers
        Keep the worker processes and their copies of the data set between epochs.
    pin_memory_device
        No effect.
    in_order
        If False, return batches in the order in which they are ready.
    dispose_batches
        If True, each batch has its own scope, which ends before the next batch is created and at the end of
        the loop. The scope is current only while the batch is created. To keep a tensor of a batch, clone it
        or move it to another scope (``scope.attach(x)``). After a ``break`` or ``next(iter(loader))``, the
        last batch stays alive, in the enclosing scope if there is one.

    Examples
    --------
    >>> import tensor
    >>> from nn.data import DataLoader, TensorDataset
    >>> data = TensorDataset(tensor.tensor([1.0, 2.0, 3.0]))
    >>> loader = DataLoader(data, batch_size=2, shuffle=True, generator=0)
    >>> seen = []
    >>> for (x,) in loader:
    ...     seen += x.tolist()
    >>> sorted(seen), len(loader)
    ([1.0, 2.0, 3.0], 2)
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, item):
            # `DataLoader[Tensor]` names no batch type, and before Python 3.13 type variables have no default.
            return super().__class_getitem__(item if isinstance(item, tuple) else (item, Collated))

    def __init__(
        self,
        dataset: Samples[T_co] | IterableDataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], B_co] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | int | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        dispose_batches: bool = False,
    ) -> None:
        _require_data_set(dataset)
        _require_numbers(batch_size, num_workers, prefetch_factor, timeout)
        _require_no_conflict(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if not num_workers:
            _require_no_options_of_workers(
                prefetch_factor=prefetch_factor,
                persistent_workers=persistent_workers or None,
                multiprocessing_context=multiprocessing_context,
                timeout=timeout or None,
            )
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.shuffle = bool(shuffle)
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.dispose_batches = dispose_batches
        self.generator = _generator_of(generator)
        self.sampler: Iterable[Any] | None = sampler
        self.batch_sampler: Iterable[Any] | None = batch_sampler
        if isinstance(dataset, IterableDataset):
            self.sampler = None
        elif sampler is None:
            self.sampler = (
                RandomSampler(dataset, generator=self.generator) if shuffle else SequentialSampler(dataset)
            )
        if batch_sampler is None and batch_size is not None and self.sampler is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self._idle: Workers | None = None
        #: Called with the number of each batch before it is returned, and with None after the last.
        self._on_batch: Callable[[int | None], object] | None = None

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            count, size = len(self.dataset), self.batch_size or 1
            return count // size if self.drop_last else -(-count // size)
        return len(self._tasks_of_a_round())  # type: ignore[arg-type]  # raises TypeError if the sampler has no length

    def __disposables__(self) -> list[object]:
        # Scopes call this when the loader is attached or returned.
        return [self.dataset]

    @overload
    def __iter__(self: DataLoader[Rows, Collated]) -> Iterator[Rows]: ...
    @overload
    def __iter__(self: DataLoader[Any, Collated]) -> Iterator[Any]: ...
    @overload
    def __iter__(self) -> Iterator[B_co]: ...
    def __iter__(self) -> Iterator[Any]:
        return _Batches(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": None}

    def _tasks_of_a_round(self) -> Iterable[Any]:
        if isinstance(self.dataset, IterableDataset):
            return repeat(None)
        tasks = self.sampler if self.batch_sampler is None else self.batch_sampler
        assert tasks is not None
        return tasks

    def _recipe(self) -> Recipe:
        # With a batch sampler the sampler decides the size of a batch.
        size = 1 if self.batch_size is None and self.batch_sampler is not None else self.batch_size
        return Recipe(self.dataset, self.collate_fn, size, self.drop_last)

    def _workers(self, base_seed: int) -> Workers:
        """Return the processes of an earlier epoch, or new ones."""
        import multiprocessing

        idle, self._idle = self._idle, None
        if idle is not None and not idle.is_stopped:
            return idle
        if multiprocessing.current_process().daemon:
            raise RuntimeError(
                "a DataLoader inside a worker process can't start its own workers: pass num_workers=0"
            )
        context: Any = self.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        return Workers(self._recipe(), self.num_workers, base_seed, self.worker_init_fn, context)

    def _give_back(self, workers: Workers) -> None:
        if self.persistent_workers and self._idle is None and not workers.is_stopped:
            self._idle = workers
        else:
            workers.stop()


class _Batches:
    """One epoch of a loader."""

    def __init__(self, loader: DataLoader[Any, Any]) -> None:
        self._scope: DisposeScope | None = None
        self._workers: Workers | None = None
        self._loader = loader
        self._done = 0
        tasks: Iterator[Any] = _Tasks(loader)
        # Draw the seed even without workers, so that epochs have the same orders with and without workers.
        base_seed = int((loader.generator or default_generator).numbers.integers(2**62))
        self._fetcher: Fetcher | WorkerEpoch
        if loader.num_workers:
            self._workers = loader._workers(base_seed)
            self._fetcher = WorkerEpoch(
                self._workers, tasks, loader.prefetch_factor or 2, loader.timeout, loader.in_order
            )
        else:
            self._fetcher, self._tasks = loader._recipe().fetcher(), tasks

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        return len(self._loader) - self._done

    def __next__(self) -> Any:
        self._end()
        try:
            batch = self._next_here() if self._workers is None else self._next_from_worker()
        except StopIteration:
            self._release()
            self._report(None)
            raise
        self._report(self._done)
        self._done += 1
        return batch

    def _report(self, number: int | None) -> None:
        if self._loader._on_batch is not None:
            self._loader._on_batch(number)

    def _next_here(self) -> Any:
        fetcher = self._fetcher
        assert isinstance(fetcher, Fetcher)
        numbers = next(self._tasks)
        samples = _outside_scopes(lambda: fetcher.fetch(numbers))
        if samples is EXHAUSTED:
            raise StopIteration
        return self._in_scope(lambda: fetcher.collate(samples))

    def _next_from_worker(self) -> Any:
        fetcher = self._fetcher
        assert isinstance(fetcher, WorkerEpoch)
        return self._in_scope(fetcher.next_batch)

    def _in_scope(self, make: Callable[[], Any]) -> Any:
        """Create a batch in the current scope, or in a separate one."""
        outside = current_dispose_scope()
        scope = DisposeScope("a DataLoader's batch") if self._loader.dispose_batches else None
        try:
            batch = make()
        except BaseException:
            if scope is not None:
                scope.dispose()
            raise
        finally:
            current.set(outside)
        self._scope = scope
        return batch

    def _end(self) -> None:
        """Dispose the scope of the last returned batch."""
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.dispose()

    def _release(self) -> None:
        """Stop the workers."""
        workers, self._workers = self._workers, None
        if workers is not None:
            self._loader._give_back(workers)
        self._tasks = iter(())
        self._fetcher = Fetcher(self._loader._recipe())

    def __del__(self) -> None:
        # Keep the last batch alive: no next batch follows, and the caller may use it.
        scope, self._scope = self._scope, None
        if scope is not None and not scope.is_disposed:
            scope.move_to_outer(*scope.disposables_view)
            scope.dispose()
        workers, self._workers = self._workers, None
        if workers is not None:
            self._loader._give_back(workers)


class _Tasks:
    """The numbers of the samples of each batch, from a sampler, which may keep tensors between batches."""

    def __init__(self, loader: DataLoader[Any, Any]) -> None:
        self._numbers: Iterator[Any] = _outside_scopes(lambda: iter(loader._tasks_of_a_round()))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return _outside_scopes(lambda: next(self._numbers))


def _outside_scopes(call: Callable[[], Any]) -> Any:
    """Call a function outside of all scopes, so that what a data set or a sampler keeps stays alive."""
    outside = current.get(None)
    current.set(None)
    try:
        return call()
    finally:
        current.set(outside)


def _generator_of(generator: object) -> Generator | None:
    if isinstance(generator, int) and not isinstance(generator, bool):
        return Generator().manual_seed(generator)
    if generator is not None and not isinstance(generator, Generator):
        kind = type(generator)
        raise TypeError(
            f"generator must be a tensor.Generator or an int seed, not {kind.__module__}.{kind.__qualname__}"
        )
    return generator


def _require_data_set(dataset: object) -> None:
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise TypeError(
            "a DataLoader requires a data set with __getitem__ and __len__, or an IterableDataset, not "
            f"{type(dataset).__name__}: pass TensorDataset(inputs, targets), or a list of samples"
        )


def _require_numbers(
    batch_size: object, num_workers: object, prefetch_factor: object, timeout: object
) -> None:
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ValueError(f"batch_size must be None or an integer of at least 1, not {shown(batch_size)}")
    if type(num_workers) is not int or num_workers < 0:
        raise ValueError(f"num_workers must be an integer of at least 0, not {shown(num_workers)}")
    if prefetch_factor is not None and (type(prefetch_factor) is not int or prefetch_factor < 1):
        raise ValueError(
            f"prefetch_factor must be None or an integer of at least 1, not {shown(prefetch_factor)}"
        )
    if not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise ValueError(f"timeout must be a number of seconds, at least 0, not {shown(timeout)}")


def _require_no_conflict(
    dataset: object,
    batch_size: int | None,
    shuffle: bool | None,
    sampler: object,
    batch_sampler: object,
    drop_last: bool,
) -> None:
    """Raise an error for two arguments that both set the order or the batches."""
    if isinstance(dataset, IterableDataset) and (shuffle or sampler is not None or batch_sampler is not None):
        raise ValueError("an IterableDataset determines the order: omit shuffle, sampler and batch_sampler")
    if batch_size is None and drop_last:
        raise ValueError("drop_last=True requires a batch_size, because single samples have no last batch")
    if sampler is not None and shuffle:
        raise ValueError("a sampler determines the order: omit shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "a batch_sampler determines the batches: omit batch_size, shuffle, sampler and drop_last"
        )


def _require_no_options_of_workers(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} requires workers: pass num_workers of at least 1, or omit {name}")


clear_errors_of(globals(), ["_Batches"])


note_role(DataLoader, "data")
