"""Data sets and batches: PyTorch's ``torch.utils.data``."""

from nn.data._collate import default_collate
from nn.data._dataset import Dataset, TensorDataset
from nn.data._loader import DataLoader

__all__ = ["DataLoader", "Dataset", "TensorDataset", "default_collate"]
