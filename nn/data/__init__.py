"""Data sets and batches: PyTorch's ``torch.utils.data``."""

from nn.data.collate import default_collate
from nn.data.dataset import Dataset, TensorDataset
from nn.data.loader import DataLoader
from scopes.lowlevel import clear_errors_of as _clear_errors_of

__all__ = ["DataLoader", "Dataset", "TensorDataset", "default_collate"]

_clear_errors_of(globals(), __all__)
