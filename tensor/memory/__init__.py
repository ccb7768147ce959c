"""Memory statistics and limits, and the memory pool.

All figures are exact, and cover the whole process and all threads. `bytes_live` counts the memory of tensors
and of the autograd graph, in requested bytes. Each block counts once, even if several tensors share it.
Memory that only NumPy arrays and other code outside the library still use is `bytes_pinned`. Free blocks of
the pool are `bytes_cached`. External memory is `bytes_external`.
"""

from typing import TYPE_CHECKING

from scopes.lowlevel import names_on_demand as _names_on_demand
from tensor.memory.limits import OutOfMemoryError
from tensor.memory.measuring import limit, measure

if TYPE_CHECKING:
    from tensor.memory.budgets import BudgetStatistics, budget
    from tensor.memory.donations import donating
    from tensor.memory.plans import Plan, Reservation, plan, reserve
    from tensor.memory.reporting import (
        Configuration,
        MemoryStatistics,
        configuration,
        configure,
        report,
        reset_peak,
        statistics,
        trim,
    )

__all__ = [
    "BudgetStatistics",
    "Configuration",
    "MemoryStatistics",
    "OutOfMemoryError",
    "Plan",
    "Reservation",
    "budget",
    "configuration",
    "configure",
    "donating",
    "limit",
    "measure",
    "plan",
    "report",
    "reserve",
    "reset_peak",
    "statistics",
    "trim",
]

_ON_DEMAND = {name: "tensor.memory.reporting" for name in __all__ if name not in globals()}
_ON_DEMAND |= dict.fromkeys(("Plan", "Reservation", "plan", "reserve"), "tensor.memory.plans")
_ON_DEMAND["donating"] = "tensor.memory.donations"
_ON_DEMAND |= dict.fromkeys(("BudgetStatistics", "budget"), "tensor.memory.budgets")

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND)
