"""JAX's arrays in scopes.

After ``import scopes.jax``, ``scope.attach(x)`` takes JAX's arrays. Inside ``owning()``, scopes own new
arrays without a call.
"""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes.adapters.jax import disable, enable, owning
from scopes.tracking.following import follow as _follow

__all__ = ["disable", "enable", "owning"]

_clear_errors_of(globals(), __all__)
_follow("jax")
