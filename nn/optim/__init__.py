"""Optimizers: PyTorch's ``torch.optim``."""

from nn.optim import lr_scheduler
from nn.optim.adam import Adam, AdamW
from nn.optim.optimizer import Optimizer
from nn.optim.rmsprop import RMSprop
from nn.optim.sgd import SGD
from scopes.lowlevel import clear_errors_of as _clear_errors_of

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]

_clear_errors_of(globals(), __all__)
