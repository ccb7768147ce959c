"""Optimizers: PyTorch's ``torch.optim``."""

from nn.optim import lr_scheduler
from nn.optim._adam import Adam, AdamW
from nn.optim._optimizer import Optimizer
from nn.optim._rmsprop import RMSprop
from nn.optim._sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
