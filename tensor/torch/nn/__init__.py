"""``torch.nn``: the package `nn`, name by name."""

from types import ModuleType

import nn as _nn

# Keep this module under another name, because the next line sets `functional` to that of `nn`.
import tensor.torch.nn.functional as _functional
from nn import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.nn import modules, parallel, parameter
from tensor.torch.nn.parallel import DataParallel

functional: ModuleType = _functional  # type: ignore[no-redef]

__all__ = ["DataParallel", "modules", "parallel", "parameter"]
__all__ += _nn.__all__
