"""PyTorch's tensors in scopes.

Importing it lets scopes own PyTorch's tensors: ``scope.attach(x)``. With ``owning()`` they own new ones by
themselves. The guide is docs/pytorch.md.
"""

from scopes.foreign.torch.held import HeldReport, HeldRow, still_held
from scopes.foreign.torch.owning import disable, enable, owning

__all__ = ["HeldReport", "HeldRow", "disable", "enable", "owning", "still_held"]
