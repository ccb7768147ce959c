"""CuPy's arrays in scopes. Not tested on a device.

After ``import scopes.cupy``, ``scope.attach(x)`` takes CuPy's arrays. Inside ``owning()``, scopes own new
arrays without a call of ``attach``.
"""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes.adapters.cupy import disable, enable, owning
from scopes.tracking.following import follow as _follow

__all__ = ["disable", "enable", "owning"]

_clear_errors_of(globals(), __all__)
_follow("cupy")
