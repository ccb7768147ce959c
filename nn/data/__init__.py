"""Data sets and batches: PyTorch's ``torch.utils.data``."""

from nn.data.collate import default_collate
from nn.data.dataset import Dataset, TensorDataset
from nn.data.loader import DataLoader

__all__ = ["DataLoader", "Dataset", "TensorDataset", "default_collate"]
