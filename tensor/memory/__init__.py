"""Memory statistics and limits, and the memory pool.

All figures are exact, and cover the whole process and all threads. `bytes_live` counts the memory of tensors
and of the autograd graph, in requested bytes. Each block counts once, even if several tensors share it.
Memory that only NumPy arrays and other code outside the library still use is `bytes_pinned`. Free blocks of
the pool are `bytes_cached`. External memory is `bytes_external`.
"""

from scopes.lowlevel import names_of_face as _names_of_face
from scopes.lowlevel import names_on_demand as _names_on_demand
from scopes.lowlevel import origins_of as _origins_of
from tensor.memory.limits import OutOfMemoryError
from tensor.memory.measuring import limit, measure

_ON_DEMAND = _origins_of(
    {
        "tensor.memory.budgets": "BudgetStatistics budget",
        "tensor.memory.donations": "donating",
        "tensor.memory.plans": "Plan Reservation plan reserve",
        "tensor.memory.reporting": (
            "Configuration MemoryStatistics configuration configure report reset_peak statistics trim"
        ),
    }
)

__all__ = _names_of_face(globals(), _ON_DEMAND)

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND)
