"""Batches of a data set of Ray Data as tensors over the object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nn.parallel.store import over_store
from scopes import DisposeScope, current_dispose_scope
from scopes.lowlevel import call_site, current

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scopes import Site
    from tensor import Tensor


def iter_batches(shard: Any, *, batch_size: int = 256, **options: Any) -> Iterator[dict[str, Tensor]]:
    """Go through a data set of Ray Data, or a worker's shard of one: columns by name, as tensors.

    Where Ray gives an array over the object store, the tensor lies there too and copies nothing. Each batch
    is in a scope of its own, which ends before the next is made: its memory is then released, even if
    something still refers to the batch.

    Parameters
    ----------
    shard
        ``ray.train.get_dataset_shard("train")``, or a ``ray.data.Dataset``.
    batch_size
        The number of rows in a batch.
    **options
        What Ray's ``iter_batches`` takes besides, such as ``local_shuffle_buffer_size`` and ``drop_last``.
        All workers must make equally many steps: write ``drop_last=True`` where shards differ in size.

    Raises
    ------
    TypeError
        If a column holds what no tensor can, such as texts: drop it, with ``dataset.select_columns``.
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
    """Return a column of a batch as a tensor, over the object store if it lies there; asked for by `site`.

    Raises
    ------
    TypeError
        If it holds what no tensor can.
    """
    array = np.asarray(column)
    if array.dtype.hasobject or array.dtype.kind in "USMm":
        raise TypeError(
            f"column {name!r} of the data set holds {array.dtype}, which no tensor can: leave it out by "
            "dataset.select_columns([...]), or turn it into numbers by dataset.map_batches(...)"
        )
    tensor: Tensor = over_store(array, site)
    return tensor
