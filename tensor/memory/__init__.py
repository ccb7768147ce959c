"""Memory statistics and limits, and the memory pool.

All counts are exact, and cover the whole process and all threads. `bytes_live` counts the memory of tensors
and of the autograd graph, in requested bytes. Each block counts once, even if several tensors share it.
`bytes_pinned` is memory that only code outside the library still uses, for example a NumPy array.
`bytes_cached` is free memory of the pool, and `bytes_external` is external memory.
"""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of
from scopes._shared.on_demand import public_names as _public_names
from tensor.memory.measuring import limit, measure
from tensor.memory.out_of_memory import OutOfMemoryError

_ON_DEMAND = _origins_of(
    {
        "tensor.memory.budgets": "BudgetStatistics budget",
        "tensor.memory.donations": "donating",
        "tensor.memory.pieces": "splitting",
        "tensor.memory.plans": "Plan Reservation plan reserve",
        "tensor.memory.reporting": (
            "Configuration MemoryStatistics configuration configure report reset_peak statistics trim"
        ),
    }
)

__all__ = _public_names(globals(), _ON_DEMAND)

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
