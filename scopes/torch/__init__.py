"""PyTorch's tensors in scopes.

After ``import scopes.torch``, ``scope.attach(x)`` takes PyTorch's tensors. Inside ``owning()``, scopes own
new tensors without a call.
"""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of
from scopes._shared.on_demand import public_names as _public_names
from scopes.adapters.torch.owning import disable, enable, owning
from scopes.tracking.following import follow as _follow

# Loaded on demand: with them the import takes twice as long, and most programs use none.
_ON_DEMAND = _origins_of(
    {
        "scopes.adapters.torch.budgets": "BudgetStatistics budget",
        "scopes.adapters.torch.growth": "GraphGrowthWarning warn_on_graph_growth",
        "scopes.adapters.torch.fitting": "CheckpointRow FitsReport FitsRow NotFakeError fits",
        "scopes.adapters.torch.report": "DeviceReport DeviceRow HeldReport HeldRow KeptReport KeptRow kept "
        "memory_by_device still_held",
        "scopes.torch.memory": "memory",
        "scopes.adapters.torch.splitting": "splitting",
    }
)

__all__ = _public_names(globals(), _ON_DEMAND)

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)

_clear_errors_of(globals(), ["disable", "enable", "owning"])
_follow("torch")
