"""Read and collate the samples of a batch, in the loop's process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from nn.data.collate import default_collate, default_convert
from nn.data.dataset import BatchDataset, IterableDataset, TensorDataset


class _Exhausted:
    """The result of `fetch` at the end of the data set."""


EXHAUSTED: Final = _Exhausted()


@dataclass(frozen=True)
class Recipe:
    """Instructions for creating batches, for this process or a worker.

    `batch_size` is None for single samples. With a batch sampler it is not None, and its value has no effect.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any] | None
    batch_size: int | None
    drop_last: bool

    def fetcher(self) -> Fetcher:
        """Return a new fetcher, for one epoch."""
        if isinstance(self.dataset, BatchDataset):
            return BatchFetcher(self)
        if isinstance(self.dataset, IterableDataset):
            return IterableFetcher(self)
        if self._reads_rows():
            return RowFetcher(self)
        return MapFetcher(self)

    def _reads_rows(self) -> bool:
        """Return whether one indexing operation can read a batch, because the samples are rows of tensors."""
        return (
            self.collate_fn is None
            and self.batch_size is not None
            and isinstance(self.dataset, TensorDataset)
            and type(self.dataset).__getitem__ is TensorDataset.__getitem__
        )


class Fetcher:
    """Reads the batches of an epoch in two steps: `fetch` runs outside of scopes, `collate` inside."""

    takes_several = False  # whether the argument of `fetch` is an iterable of indices

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._collate = recipe.collate_fn or (
            default_convert if recipe.batch_size is None else default_collate
        )

    def fetch(self, numbers: Any) -> Any:
        """Return the samples at `numbers`, or `EXHAUSTED`. Without batches, `numbers` is one index."""
        raise NotImplementedError

    def collate(self, samples: Any) -> Any:
        """Return the batch of the samples from `fetch`."""
        return self._collate(samples)


class MapFetcher(Fetcher):
    """Reads a data set with samples by index."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.takes_several = recipe.batch_size is not None

    def fetch(self, numbers: Any) -> Any:
        dataset = self.recipe.dataset
        if self.recipe.batch_size is None:
            return dataset[numbers]
        if getattr(dataset, "__getitems__", None) is not None:
            return dataset.__getitems__(list(numbers))
        return [dataset[i] for i in numbers]


class RowFetcher(Fetcher):
    """Reads tensors whose rows are the samples."""

    takes_several = True

    def fetch(self, numbers: Iterable[int]) -> list[int]:
        return list(numbers)

    def collate(self, samples: list[int]) -> Any:
        return tuple([x[samples] for x in self.recipe.dataset.tensors])


class IterableFetcher(Fetcher):
    """Reads an iterable data set. `fetch` returns the next ``batch_size`` samples, or fewer at the end."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self._samples: Iterator[Any] = iter(recipe.dataset)

    def fetch(self, numbers: Any) -> Any:
        del numbers
        if self.recipe.batch_size is None:
            return next(self._samples, EXHAUSTED)
        samples = list(islice(self._samples, self.recipe.batch_size))
        is_short = len(samples) < self.recipe.batch_size
        return EXHAUSTED if not samples or (is_short and self.recipe.drop_last) else samples


class BatchFetcher(Fetcher):
    """Reads a data set that reads whole batches itself."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        if recipe.batch_size is None:
            raise ValueError(
                f"{type(recipe.dataset).__name__} reads whole batches: pass a batch_size to the DataLoader"
            )
        self._batches = iter(recipe.dataset.batches(recipe.batch_size, drop_last=recipe.drop_last))

    def fetch(self, numbers: Any) -> Any:
        del numbers
        return next(self._batches, EXHAUSTED)

    def collate(self, samples: Any) -> Any:
        batch = self.recipe.dataset.collate(samples)
        return batch if self.recipe.collate_fn is None else self.recipe.collate_fn(batch)
