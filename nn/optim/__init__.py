"""Optimizers: PyTorch's ``torch.optim``."""

from nn.optim import lr_scheduler, swa_utils
from nn.optim.adadelta import Adadelta
from nn.optim.adafactor import Adafactor
from nn.optim.adagrad import Adagrad
from nn.optim.adam import Adam, AdamW
from nn.optim.adamax import Adamax
from nn.optim.asgd import ASGD
from nn.optim.lbfgs import LBFGS
from nn.optim.lion import Lion
from nn.optim.muon import Muon
from nn.optim.nadam import NAdam
from nn.optim.optimizer import Optimizer
from nn.optim.radam import RAdam
from nn.optim.rmsprop import RMSprop
from nn.optim.rprop import Rprop
from nn.optim.sgd import SGD
from scopes.lowlevel import clear_errors_of as _clear_errors_of

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

_clear_errors_of(globals(), __all__)
