"""PyTorch's tensors in scopes.

After ``import scopes.torch``, ``scope.attach(x)`` takes PyTorch's tensors. Inside ``owning()``, scopes own
new tensors without a call.
"""

from scopes._clearing import clear_errors_of as _clear_errors_of
from scopes.foreign.torch.budgets import BudgetStatistics, budget
from scopes.foreign.torch.held import HeldReport, HeldRow, still_held
from scopes.foreign.torch.kept import KeptReport, KeptRow, kept
from scopes.foreign.torch.owning import disable, enable, owning
from scopes.foreign.torch.report import DeviceReport, DeviceRow, memory_by_device
from scopes.tracking.following import follow as _follow

__all__ = [
    "BudgetStatistics",
    "DeviceReport",
    "DeviceRow",
    "HeldReport",
    "HeldRow",
    "KeptReport",
    "KeptRow",
    "budget",
    "disable",
    "enable",
    "kept",
    "memory_by_device",
    "owning",
    "still_held",
]

_clear_errors_of(globals(), __all__)
_follow("torch")
