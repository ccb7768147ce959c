"""Data-parallel training on Ray: replicas, statistics of all workers, tensors in the object store.

Ray is imported at its first use: ``pip install '.[ray]'`` in a clone. Outside of a job, the program is the
only worker, so the same training loop runs with and without Ray.
"""

from nn.parallel.checkpoints import checkpoint, load_checkpoint, report
from nn.parallel.datasets import RayDataset, iter_batches
from nn.parallel.errors import ExchangeTimeoutError, WorkerLostError
from nn.parallel.figures import WorkerFigures
from nn.parallel.group import barrier, rank, world_size
from nn.parallel.leak_reports import ClusterLeakRow, ClusterLeaks
from nn.parallel.mapping import map
from nn.parallel.replicas import no_sync, prepare
from nn.parallel.reports import ClusterMemory, ClusterStatistics, leaks, memory, statistics
from nn.parallel.shards import ShardSampler, prepare_data_loader
from nn.parallel.store import StorePin, get, put, store_pins
from nn.parallel.trainer import Trainer
from nn.parallel.watching import Watch

__all__ = [
    "ClusterLeakRow",
    "ClusterLeaks",
    "ClusterMemory",
    "ClusterStatistics",
    "ExchangeTimeoutError",
    "RayDataset",
    "ShardSampler",
    "StorePin",
    "Trainer",
    "Watch",
    "WorkerFigures",
    "WorkerLostError",
    "barrier",
    "checkpoint",
    "get",
    "iter_batches",
    "leaks",
    "load_checkpoint",
    "map",
    "memory",
    "no_sync",
    "prepare",
    "prepare_data_loader",
    "put",
    "rank",
    "report",
    "statistics",
    "store_pins",
    "world_size",
]
