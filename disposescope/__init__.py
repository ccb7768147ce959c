"""What notebooks load by the name that was installed: ``%load_ext disposescope``.

The library is in ``scopes``, ``tensor`` and ``nn``.
"""

from scopes import __version__ as __version__
from scopes.notebook import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
