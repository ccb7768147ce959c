"""Data sets and batches: PyTorch's ``torch.utils.data``."""

from nn.data.collate import default_collate
from nn.data.dataset import Dataset, TensorDataset
from nn.data.loader import DataLoader
from nn.data.parts import ConcatDataset, Subset, random_split
from nn.data.samplers import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler
from scopes.lowlevel import clear_errors_of as _clear_errors_of

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "default_collate",
    "random_split",
]

_clear_errors_of(globals(), __all__)
