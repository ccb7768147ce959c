"""Averages of models over training: PyTorch's ``torch.optim.swa_utils``."""

from nn.optim.swa_utils.averaged_model import AveragedModel, update_bn
from nn.optim.swa_utils.averages import (
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
)
from nn.optim.swa_utils.schedule import SWALR
from scopes._shared.clearing import clear_errors_of as _clear_errors_of

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

_clear_errors_of(globals(), __all__)
