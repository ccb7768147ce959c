"""JAX's arrays in scopes.

Importing it lets scopes own JAX's arrays: ``scope.attach(x)``. Inside ``owning()`` scopes own new
ones without a call.
"""

from scopes._clearing import clear_errors_of as _clear_errors_of
from scopes.foreign.jax import disable, enable, owning

__all__ = ["disable", "enable", "owning"]

_clear_errors_of(globals(), __all__)
