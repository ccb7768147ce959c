"""Optimizers: PyTorch's ``torch.optim``."""

from typing import TYPE_CHECKING

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand

if TYPE_CHECKING:
    from nn.optim import lr_scheduler as lr_scheduler
    from nn.optim import swa_utils as swa_utils
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

_ON_DEMAND = {
    name: module
    for module, names in {
        "nn.optim.adadelta": "Adadelta",
        "nn.optim.adafactor": "Adafactor",
        "nn.optim.adagrad": "Adagrad",
        "nn.optim.adam": "Adam AdamW",
        "nn.optim.adamax": "Adamax",
        "nn.optim.asgd": "ASGD",
        "nn.optim.lbfgs": "LBFGS",
        "nn.optim.lion": "Lion",
        "nn.optim.muon": "Muon",
        "nn.optim.nadam": "NAdam",
        "nn.optim.optimizer": "Optimizer",
        "nn.optim.radam": "RAdam",
        "nn.optim.rmsprop": "RMSprop",
        "nn.optim.rprop": "Rprop",
        "nn.optim.sgd": "SGD",
    }.items()
    for name in names.split()
} | {name: f"nn.optim.{name}" for name in ("lr_scheduler", "swa_utils")}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
