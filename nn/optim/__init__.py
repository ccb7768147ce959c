"""Optimizers: PyTorch's ``torch.optim``."""

from typing import TYPE_CHECKING

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand

if TYPE_CHECKING:
    from nn.optim import lr_scheduler as lr_scheduler
    from nn.optim import swa_utils as swa_utils
    from nn.optim.adam import Adam, AdamW
    from nn.optim.adaptive import Adadelta, Adagrad, RMSprop
    from nn.optim.lbfgs import LBFGS
    from nn.optim.optimizer import Optimizer
    from nn.optim.rare.adafactor import Adafactor
    from nn.optim.rare.adam_variants import Adamax, NAdam, RAdam
    from nn.optim.rare.asgd import ASGD
    from nn.optim.rare.muon import Muon
    from nn.optim.rare.signs import Lion, Rprop
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
        "nn.optim.adaptive": "Adadelta Adagrad RMSprop",
        "nn.optim.rare.adam_variants": "Adamax NAdam RAdam",
        "nn.optim.rare.signs": "Lion Rprop",
        "nn.optim.rare.adafactor": "Adafactor",
        "nn.optim.adam": "Adam AdamW",
        "nn.optim.rare.asgd": "ASGD",
        "nn.optim.lbfgs": "LBFGS",
        "nn.optim.rare.muon": "Muon",
        "nn.optim.optimizer": "Optimizer",
        "nn.optim.sgd": "SGD",
    }.items()
    for name in names.split()
} | {name: f"nn.optim.{name}" for name in ("lr_scheduler", "swa_utils")}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
