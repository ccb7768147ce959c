"""Data sets and batches: PyTorch's ``torch.utils.data``."""

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
from scopes.lowlevel import clear_errors_of as _clear_errors_of

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

_clear_errors_of(globals(), __all__)
