"""Optimizers: PyTorch's ``torch.optim``."""

from typing import TYPE_CHECKING

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand

if TYPE_CHECKING:
    from nn.optim import lr_scheduler as lr_scheduler
    from nn.optim import swa_utils as swa_utils
    from nn.optim.adadelta import Adadelta
    from nn.optim.adagrad import Adagrad
    from nn.optim.adam import Adam, AdamW
    from nn.optim.lbfgs import LBFGS
    from nn.optim.optimizer import Optimizer
    from nn.optim.rare.adafactor import Adafactor
    from nn.optim.rare.adamax import Adamax
    from nn.optim.rare.asgd import ASGD
    from nn.optim.rare.lion import Lion
    from nn.optim.rare.muon import Muon
    from nn.optim.rare.nadam import NAdam
    from nn.optim.rare.radam import RAdam
    from nn.optim.rare.rprop import Rprop
    from nn.optim.rmsprop import RMSprop
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
        "nn.optim.rare.adafactor": "Adafactor",
        "nn.optim.adagrad": "Adagrad",
        "nn.optim.adam": "Adam AdamW",
        "nn.optim.rare.adamax": "Adamax",
        "nn.optim.rare.asgd": "ASGD",
        "nn.optim.lbfgs": "LBFGS",
        "nn.optim.rare.lion": "Lion",
        "nn.optim.rare.muon": "Muon",
        "nn.optim.rare.nadam": "NAdam",
        "nn.optim.optimizer": "Optimizer",
        "nn.optim.rare.radam": "RAdam",
        "nn.optim.rmsprop": "RMSprop",
        "nn.optim.rare.rprop": "Rprop",
        "nn.optim.sgd": "SGD",
    }.items()
    for name in names.split()
} | {name: f"nn.optim.{name}" for name in ("lr_scheduler", "swa_utils")}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
