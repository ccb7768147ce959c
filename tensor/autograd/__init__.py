"""Gradients, backward, statistics of graphs, and switches for recording."""

from typing import TYPE_CHECKING

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand
from tensor.autograd.anomalies import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from tensor.autograd.gradients import backward, grad
from tensor.tape.growth import GraphGrowthWarning, warn_on_graph_growth
from tensor.tape.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensor.tape.modes import is_recording as is_grad_enabled

if TYPE_CHECKING:
    from tensor.autograd.checkpointing import checkpoint
    from tensor.autograd.function import Function, once_differentiable
    from tensor.autograd.function_context import FunctionCtx
    from tensor.autograd.gradchecks import GradcheckError, gradcheck, gradgradcheck
    from tensor.tape.statistics import GraphStatistics, OpStatistics, graph_statistics

__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "GraphGrowthWarning",
    "GraphStatistics",
    "OpStatistics",
    "backward",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph_statistics",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
    "warn_on_graph_growth",
]

# Loaded on first use, because most programs need none of these.
_ON_DEMAND = {
    "Function": "tensor.autograd.function",
    "FunctionCtx": "tensor.autograd.function_context",
    "GradcheckError": "tensor.autograd.gradchecks",
    "GraphStatistics": "tensor.tape.statistics",
    "OpStatistics": "tensor.tape.statistics",
    "checkpoint": "tensor.autograd.checkpointing",
    "gradcheck": "tensor.autograd.gradchecks",
    "gradgradcheck": "tensor.autograd.gradchecks",
    "graph_statistics": "tensor.tape.statistics",
    "once_differentiable": "tensor.autograd.function",
}

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
