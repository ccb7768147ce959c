"""``torch.nn.modules``: all names of `nn`. Its submodules, named as PyTorch's files, have them too."""

import nn as _nn
from nn import *  # noqa: F403 -- what its `__all__` lists
from scopes.lowlevel import names_on_demand as _names_on_demand

_NAMESPACES = (
    "activation adaptive batchnorm container conv dropout flatten instancenorm lazy linear loss module "
    "normalization pixelshuffle pooling rnn sparse transformer upsampling utils"
)
_ON_DEMAND = {name: f"tensor.torch.nn.modules.{name}" for name in _NAMESPACES.split()}

__all__ = [*_ON_DEMAND]
__all__ += _nn.__all__

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND)
