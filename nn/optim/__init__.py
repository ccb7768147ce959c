"""Optimizers: PyTorch's ``torch.optim``."""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of

# Type checkers read a stub, which .ci/write-stubs makes from this table.
_ON_DEMAND = _origins_of(
    {
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
    }
) | {name: f"nn.optim.{name}" for name in ("lr_scheduler", "swa_utils")}

__all__ = [*_ON_DEMAND]

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
