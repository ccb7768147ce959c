"""Learning rate schedulers: PyTorch's ``torch.optim.lr_scheduler``."""

from typing import TYPE_CHECKING

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand

if TYPE_CHECKING:
    from nn.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
    from nn.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
    from nn.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
    from nn.optim.lr_scheduler.decays import (
        ConstantLR,
        ExponentialLR,
        LinearLR,
        MultiStepLR,
        PolynomialLR,
        StepLR,
    )
    from nn.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
    from nn.optim.lr_scheduler.plateau import ReduceLROnPlateau
    from nn.optim.lr_scheduler.scheduler import LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

_ON_DEMAND = {
    name: module
    for module, names in {
        "nn.optim.lr_scheduler.combined": "ChainedScheduler SequentialLR",
        "nn.optim.lr_scheduler.cosine": "CosineAnnealingLR CosineAnnealingWarmRestarts",
        "nn.optim.lr_scheduler.cycles": "CyclicLR OneCycleLR",
        "nn.optim.lr_scheduler.decays": "ConstantLR ExponentialLR LinearLR MultiStepLR PolynomialLR StepLR",
        "nn.optim.lr_scheduler.functions": "LambdaLR MultiplicativeLR",
        "nn.optim.lr_scheduler.plateau": "ReduceLROnPlateau",
        "nn.optim.lr_scheduler.scheduler": "LRScheduler",
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
