"""Load batches of Ray Data as tensors, without a copy from the object store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nn.data import get_worker_info
from nn.data.dataset import BatchDataset
from nn.parallel.errors import require
from nn.parallel.store import over_store
from scopes import DisposeScope, current_dispose_scope
from scopes._shared.naming import set_module
from scopes.core.scope import current
from scopes.tracking.records import call_site
from tensor import Tensor
from tensor._errors import InvalidArgumentError

if TYPE_CHECKING:
    from scopes import Site


@set_module("nn.parallel")
class RayDataset(BatchDataset[Any]):
    """Data set of Ray Data, or one worker's shard of it, for a ``DataLoader``.

    The tensors of a batch belong to the scope that is current when the loop requests it, as with any data
    set. Request batches inside the step's scope, or use ``dispose_batches=True``. If an array is in the
    object store, the tensor shares its memory, and the store can free it when the scope ends.

    Ray prefetches in its own processes: omit ``num_workers``. All workers must make the same number of steps.
    ``ray.train.get_dataset_shard`` gives each worker the same number of rows.

    Parameters
    ----------
    dataset
        ``ray.train.get_dataset_shard("train")``, or a ``ray.data.Dataset``.
    columns
        The columns to read: a batch is a tuple of them. With None a batch is a dict of all columns.
    **options
        Other arguments of Ray's ``iter_batches``, such as ``prefetch_batches`` and
        ``local_shuffle_buffer_size``.

    Raises
    ------
    ModuleNotFoundError
        If Ray Data can't be imported. It needs pyarrow and pandas.
    TypeError
        If `dataset` is not a data set of Ray Data.
    """

    def __init__(self, dataset: Any, columns: Sequence[str] | None = None, **options: Any) -> None:
        require("ray.data")
        if not hasattr(dataset, "iter_batches"):
            raise TypeError(
                f"RayDataset requires a data set of Ray Data, not {type(dataset).__name__}: write "
                "ray.data.from_numpy(array), or pass your data set to the DataLoader"
            )
        self._dataset = dataset
        self._columns = None if columns is None else tuple(columns)
        self._options = options

    def __len__(self) -> int:
        if not hasattr(self._dataset, "count"):
            raise TypeError("a shard of Ray Data has no length: Ray assigns rows to workers during the epoch")
        return int(self._dataset.count())

    def batches(self, batch_size: int, *, drop_last: bool) -> Iterable[dict[str, Any]]:
        """Return the batches of one epoch, as dicts of arrays."""
        if get_worker_info() is not None:
            raise RuntimeError(
                "a DataLoader over a RayDataset supports no workers, because Ray reads in its own processes: "
                "omit num_workers, and write RayDataset(dataset, prefetch_batches=4)"
            )
        batches: Iterable[dict[str, Any]] = self._dataset.iter_batches(
            batch_size=batch_size, batch_format="numpy", drop_last=drop_last, **self._options
        )
        return batches

    def collate(self, batch: dict[str, Any]) -> Any:
        """Return the columns as tensors that share memory with the object store."""
        site = call_site()
        if self._columns is None:
            return {name: tensor_of(name, column, site) for name, column in batch.items()}
        missing = [name for name in self._columns if name not in batch]
        if missing:
            raise InvalidArgumentError(
                f"the data set has no column {', '.join(map(repr, missing))}. Its columns are "
                f"{', '.join(map(repr, batch))}"
            )
        return tuple([tensor_of(name, batch[name], site) for name in self._columns])


def iter_batches(shard: Any, *, batch_size: int = 256, **options: Any) -> Iterator[dict[str, Tensor]]:
    """Yield the batches of a data set of Ray Data, or of one worker's shard, as dicts of tensors by column.

    If an array is in the object store, the tensor shares its memory. Each batch has its own scope, which ends
    before the next batch is created: this releases its memory, even if something still refers to the batch.

    Parameters
    ----------
    shard
        ``ray.train.get_dataset_shard("train")``, or a ``ray.data.Dataset``.
    batch_size
        The number of rows in a batch.
    **options
        Other arguments of Ray's ``iter_batches``, such as ``local_shuffle_buffer_size`` and ``drop_last``.
        All workers must make the same number of steps: see `RayDataset`.

    Raises
    ------
    TypeError
        If a column has values that no tensor can hold, such as text: drop it with ``dataset.select_columns``.
    """
    site = call_site()
    for columns in shard.iter_batches(batch_size=batch_size, batch_format="numpy", **options):
        outside = current_dispose_scope()
        scope = DisposeScope("a batch of Ray Data")
        try:
            batch = {name: tensor_of(name, column, site) for name, column in columns.items()}
            del columns
            current.set(outside)
            yield batch
        finally:
            if current_dispose_scope() is scope:
                current.set(outside)
            scope.dispose()
            batch = {}


def tensor_of(name: str, column: Any, site: Site) -> Tensor:
    """Return a column of a batch as a tensor, which shares memory with the object store if possible.

    Raises
    ------
    TypeError
        If no tensor can hold its values.
    """
    array = np.asarray(column)
    if array.dtype.hasobject or array.dtype.kind in "USMm":
        raise TypeError(
            f"column {name!r} of the data set has dtype {array.dtype}, which tensors do not support: omit it "
            "with dataset.select_columns([...]), or convert it to numbers with dataset.map_batches(...)"
        )
    tensor: Tensor = over_store(array, site)
    return tensor
