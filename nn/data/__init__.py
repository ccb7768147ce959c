"""Data sets and batches: PyTorch's ``torch.utils.data``."""

from typing import TYPE_CHECKING

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand

if TYPE_CHECKING:
    from nn.data.collate import default_collate, default_convert
    from nn.data.dataset import Dataset, IterableDataset, TensorDataset
    from nn.data.loader import DataLoader
    from nn.data.parts import ChainDataset, ConcatDataset, StackDataset, Subset, random_split
    from nn.data.samplers import (
        BatchSampler,
        RandomSampler,
        Sampler,
        SequentialSampler,
        SubsetRandomSampler,
        WeightedRandomSampler,
    )
    from nn.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_ON_DEMAND = {
    name: module
    for module, names in {
        "nn.data.collate": "default_collate default_convert",
        "nn.data.dataset": "Dataset IterableDataset TensorDataset",
        "nn.data.loader": "DataLoader",
        "nn.data.parts": "ChainDataset ConcatDataset StackDataset Subset random_split",
        "nn.data.samplers": (
            "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler WeightedRandomSampler"
        ),
        "nn.data.worker": "WorkerInfo get_worker_info",
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
