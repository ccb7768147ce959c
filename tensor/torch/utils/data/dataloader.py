"""``torch.utils.data.dataloader``."""

from nn.data import DataLoader, default_collate

__all__ = ["DataLoader", "default_collate"]
