"""Step sizes that change as training goes on: PyTorch's ``torch.optim.lr_scheduler``."""

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
from scopes.lowlevel import clear_errors_of as _clear_errors_of

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

_clear_errors_of(globals(), __all__)
