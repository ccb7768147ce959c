"""Gradients as values, graphs as memory, and the switches of recording."""

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from tensor.autograd.anomalies import detect_anomaly
from tensor.autograd.checkpointing import checkpoint
from tensor.autograd.function import Function, once_differentiable
from tensor.autograd.function_context import FunctionCtx
from tensor.autograd.gradchecks import GradcheckError, gradcheck, gradgradcheck
from tensor.autograd.gradients import backward, grad
from tensor.tape.growth import GraphGrowthWarning, warn_on_graph_growth
from tensor.tape.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensor.tape.modes import is_recording as is_grad_enabled
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
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
    "warn_on_graph_growth",
]

_clear_errors_of(globals(), __all__)
