"""``torch.nn.modules``: all names of `nn`. Its submodules, named as PyTorch's files, have them too."""

from types import ModuleType as _ModuleType

import nn as _nn

# Keep this module under another name, because the next line sets `utils` to that of `nn`.
import tensor.torch.nn.modules.utils as _utils
from nn import *  # noqa: F403 -- what its `__all__` lists
from scopes._shared.on_demand import names_on_demand as _names_on_demand

utils: _ModuleType = _utils  # type: ignore[no-redef]

_NAMESPACES = (
    "activation adaptive batchnorm container conv dropout flatten instancenorm lazy linear loss module "
    "normalization pixelshuffle pooling rnn sparse transformer upsampling"
)
_ON_DEMAND = {name: f"tensor.torch.nn.modules.{name}" for name in _NAMESPACES.split()}

__all__ = [*_ON_DEMAND]
__all__ += _nn.__all__  # which has `utils`

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND)
