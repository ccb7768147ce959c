"""What the memory of tensors is doing, its limits, and the pool behind it.

All figures are of the whole process, over all threads, and exact: `bytes_live` counts the memory under
tensors and under the graph, each block once however many tensors share it, in the bytes that were asked for.
What only NumPy arrays and other outsiders still see is `bytes_pinned`, what the pool keeps for the next
tensors `bytes_cached`, what was borrowed from others `bytes_external`.
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
