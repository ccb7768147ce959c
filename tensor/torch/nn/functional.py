"""``torch.nn.functional``: `nn.functional`, name by name; with ``out=`` where PyTorch has it."""

from nn import functional as _ours
from nn.functional import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.calling import place as _place
from tensor.torch.calling import with_out as _with_out

__all__ = []
__all__ += _ours.__all__

avg_pool2d = _with_out(_ours.avg_pool2d)
avg_pool3d = _with_out(_ours.avg_pool3d)
gelu = _with_out(_ours.gelu)
hardshrink = _with_out(_ours.hardshrink)
linear = _with_out(_ours.linear)
logsigmoid = _with_out(_ours.logsigmoid)
normalize = _with_out(_ours.normalize)
softplus = _with_out(_ours.softplus)
softshrink = _with_out(_ours.softshrink)

_WITH_OUT = "avg_pool2d avg_pool3d gelu hardshrink linear logsigmoid normalize softplus softshrink"
_place(globals(), _WITH_OUT.split())
