"""``torch.optim.optimizer``."""

from nn.optim import Optimizer

__all__ = ["Optimizer"]
