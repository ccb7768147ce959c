"""Split data among workers."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from copy import copy
from typing import Any, TypeVar

import numpy as np

from nn.data import BatchSampler, DataLoader, RandomSampler, Sampler, SequentialSampler
from nn.parallel.exchange import agree
from nn.parallel.group import current
from scopes._shared.naming import set_module
from tensor._errors import InvalidArgumentError, shown
from tensor.creation.generators import default_generator

LoaderT = TypeVar("LoaderT", bound=DataLoader[Any, Any])


@set_module("nn.parallel")
class ShardSampler(Sampler[int]):
    """Sampler of one worker's part of the samples, in a reproducible order for each epoch.

    The order of an epoch is split into pieces of ``batch_size * count`` samples, and each piece into `count`
    batches. So the workers together read the same samples at each step as one process with batches of that
    size. If the last piece can't be split evenly, the first samples of the order are repeated, as in
    PyTorch's ``DistributedSampler``. So all workers make the same number of steps.

    Parameters
    ----------
    data_source
        The data set; the sampler only uses its length.
    batch_size
        The number of samples in a batch of one worker.
    shuffle
        Whether to use a new random order for each epoch.
    drop_last
        Drop the last samples if they do not fill a batch for each worker, instead of repeating samples.
    even_batches
        If False, the workers' last batches differ by one sample at most. If the last piece has fewer samples
        than workers, each worker without a sample repeats one, whose gradient has weight 0.
    seed
        The seed of the orders, together with the number of the epoch.
    rank, count
        The number of this part, and the number of parts. None: the worker's rank, and the job's number of
        workers.

    Examples
    --------
    >>> import nn, tensor
    >>> [list(nn.parallel.ShardSampler("abcdefgh", 2, rank=rank, count=2)) for rank in range(2)]
    [[0, 1, 4, 5], [2, 3, 6, 7]]
    """

    def __init__(
        self,
        data_source: Sized,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        even_batches: bool = True,
        seed: int = 0,
        rank: int | None = None,
        count: int | None = None,
    ) -> None:
        place = current().place
        self.rank = place.rank if rank is None else rank
        self.count = place.world_size if count is None else count
        if not 0 <= self.rank < self.count:
            raise InvalidArgumentError(
                f"ShardSampler: rank must be at least 0 and below count, {self.count}, not {self.rank}"
            )
        if type(batch_size) is not int or batch_size < 1:
            raise InvalidArgumentError(
                f"batch_size must be an integer of at least 1, not {shown(batch_size)}"
            )
        self.data_source = data_source
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.even_batches = even_batches
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, for example after a restart. Each epoch increments it."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        length, whole = len(self.data_source), self.batch_size * self.count
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(length)
        else:
            order = np.arange(length)
        self.epoch += 1
        pieces, rest = divmod(length, whole)
        parts = [order[: pieces * whole].reshape(pieces, self.count, self.batch_size)[:, self.rank].ravel()]
        if rest and not self.drop_last:
            last = order[pieces * whole :]
            if self.even_batches:
                # The smallest equal number for each worker.
                each = -(-rest // self.count)
                last = np.resize(np.concatenate([last, order]), each * self.count)
                parts.append(last[self.rank * each : (self.rank + 1) * each])
            else:
                begin, end = self._part_of(rest)
                parts.append(last[begin:end] if end > begin else last[:1])
        yield from np.concatenate(parts).tolist()

    def __len__(self) -> int:
        pieces, rest = divmod(len(self.data_source), self.batch_size * self.count)
        last = 0
        if rest and not self.drop_last:
            begin, end = (0, -(-rest // self.count)) if self.even_batches else self._part_of(rest)
            last = max(end - begin, 1)
        return pieces * self.batch_size + last

    def weight(self, batch: int) -> float:
        """Return the weight of this worker's gradients in batch number `batch`; 1 if batches are even.

        It is the worker's share of the samples of this step, times the number of workers. The mean of the
        workers' weighted mean gradients is the mean gradient of all samples.

        Examples
        --------
        >>> from nn.parallel import ShardSampler
        >>> samplers = [
        ...     ShardSampler("abcdefg", 2, even_batches=False, rank=rank, count=2) for rank in range(2)
        ... ]
        >>> [list(sampler) for sampler in samplers], [sampler.weight(1) for sampler in samplers]
        ([[0, 1, 4, 5], [2, 3, 6]], [1.3333333333333333, 0.6666666666666666])
        """
        pieces, rest = divmod(len(self.data_source), self.batch_size * self.count)
        if self.even_batches or not rest or batch < pieces:
            return 1.0
        begin, end = self._part_of(rest)
        return (end - begin) * self.count / rest

    def _part_of(self, rest: int) -> tuple[int, int]:
        """Return the begin and end of this worker's part of the last `rest` samples."""
        each, more = divmod(rest, self.count)
        begin = self.rank * each + min(self.rank, more)
        return begin, begin + each + (self.rank < more)


class _Weigh:
    """Callback that sets the weight of this worker's gradients for each batch."""

    def __init__(self, sampler: ShardSampler) -> None:
        self._sampler = sampler

    def __call__(self, batch: int | None) -> None:
        current().weight = 1.0 if batch is None else self._sampler.weight(batch)


def prepare_data_loader(loader: LoaderT, *, even_batches: bool = True) -> LoaderT:
    """Return a loader over this worker's part of the data; `loader` is not changed.

    ``batch_size`` is the size of one worker's batch: a step uses ``batch_size * world_size()`` samples. With
    ``shuffle=True`` each epoch has its own order, the same for all workers. Its seed comes from the loader's
    generator in worker 0: set the generator's seed for equal runs. After a restart,
    ``prepared.sampler.set_epoch(n)`` continues at epoch `n`. The data set is not copied: each worker needs
    all of it. For data in a cluster, see `iter_batches`.

    Parameters
    ----------
    loader
        A loader of `nn.data`.
    even_batches
        How to split the last batch if it can't be split evenly. True repeats the first samples, as PyTorch
        does. False repeats none: some workers have one more sample, and `prepare` weights gradients by
        samples. Then a step equals that of one process with the whole batch, if the loss is a mean.

    Raises
    ------
    TypeError
        If `loader` is not a loader of `nn.data`.
    ValueError
        If it has its own sampler, which would give all workers the same samples.

    Examples
    --------
    >>> from nn import parallel
    >>> from nn.data import DataLoader
    >>> loader = parallel.prepare_data_loader(DataLoader([1.0, 2.0, 3.0], batch_size=2))
    >>> [batch.tolist() for batch in loader]
    [[1.0, 2.0], [3.0]]
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(
            f"prepare_data_loader() requires a DataLoader of nn.data, not {type(loader).__name__}"
        )
    if loader.batch_size is None:
        raise InvalidArgumentError(
            "prepare_data_loader() requires a DataLoader with batch_size: omit batch_sampler"
        )
    own = loader.sampler
    shuffle = type(own) is RandomSampler and not own.replacement
    if not shuffle and type(own) is not SequentialSampler:
        raise InvalidArgumentError(
            "prepare_data_loader() does not support a sampler or an IterableDataset, because all workers "
            "would get the same samples: omit the sampler, or use one that selects a part, such as "
            "ShardSampler"
        )
    seed = 0
    if shuffle:
        seed = agree(current(), int((loader.generator or default_generator).numbers.integers(2**31)))
    sampler = ShardSampler(
        loader.dataset,
        loader.batch_size,
        shuffle=shuffle,
        drop_last=loader.drop_last,
        even_batches=even_batches,
        seed=seed,
    )
    prepared = copy(loader)
    prepared.sampler = sampler
    if not even_batches:
        prepared._on_batch = _Weigh(sampler)
    prepared.batch_sampler = BatchSampler(sampler, loader.batch_size, loader.drop_last)
    return prepared
