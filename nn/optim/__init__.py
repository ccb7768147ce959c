"""Optimizers: PyTorch's ``torch.optim``."""

from nn.optim import lr_scheduler
from nn.optim.adam import Adam, AdamW
from nn.optim.optimizer import Optimizer
from nn.optim.rmsprop import RMSprop
from nn.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
