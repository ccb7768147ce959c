"""Gradients, backward, statistics of graphs, and switches for recording."""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of
from scopes._shared.on_demand import public_names as _public_names
from tensor.autograd.gradients import backward, grad
from tensor.tape.growth import GraphGrowthWarning, warn_on_graph_growth
from tensor.tape.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensor.tape.modes import is_recording as is_grad_enabled

# Loaded on first use, because most programs need none of these.
_ON_DEMAND = _origins_of(
    {
        "tensor.autograd.anomalies": (
            "detect_anomaly is_anomaly_check_nan_enabled is_anomaly_enabled set_detect_anomaly"
        ),
        "tensor.autograd.checkpointing": "checkpoint",
        "tensor.autograd.function": "Function once_differentiable",
        "tensor.autograd.function_context": "FunctionCtx",
        "tensor.autograd.graph": "graph",
        "tensor.autograd.gradchecks": "GradcheckError gradcheck gradgradcheck",
        "tensor.tape.statistics": "GraphStatistics OpStatistics graph_statistics",
    }
)

__all__ = _public_names(globals(), _ON_DEMAND)

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
