"""Gradients as values, graphs as memory, and the switches of recording."""

from tensor._anomalies import detect_anomaly
from tensor._checkpoint import checkpoint
from tensor._function import Function, once_differentiable
from tensor._function_context import FunctionCtx
from tensor._gradcheck import GradcheckError, gradcheck, gradgradcheck
from tensor._gradients import backward, grad
from tensor._graph_statistics import GraphStatistics, OpStatistics, graph_statistics
from tensor._growth import GraphGrowthWarning, warn_on_graph_growth
from tensor._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensor._modes import is_recording as is_grad_enabled

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
