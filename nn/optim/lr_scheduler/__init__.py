"""Learning rate schedulers: PyTorch's ``torch.optim.lr_scheduler``."""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of

# Type checkers read a stub, which .ci/write-stubs makes from this table.
_ON_DEMAND = _origins_of(
    {
        "nn.optim.lr_scheduler.combined": "ChainedScheduler SequentialLR",
        "nn.optim.lr_scheduler.cosine": "CosineAnnealingLR CosineAnnealingWarmRestarts",
        "nn.optim.lr_scheduler.cycles": "CyclicLR OneCycleLR",
        "nn.optim.lr_scheduler.decays": "ConstantLR ExponentialLR LinearLR MultiStepLR PolynomialLR StepLR",
        "nn.optim.lr_scheduler.functions": "LambdaLR MultiplicativeLR",
        "nn.optim.lr_scheduler.plateau": "ReduceLROnPlateau",
        "nn.optim.lr_scheduler.scheduler": "LRScheduler",
    }
)

__all__ = [*_ON_DEMAND]

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
