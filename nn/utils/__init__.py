"""Helpers for gradients, parameters and sequences: PyTorch's ``torch.nn.utils``."""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of

# Type checkers read a stub, which .ci/write-stubs makes from this table.
_ON_DEMAND = _origins_of(
    {
        "nn.utils.normalized": "remove_spectral_norm remove_weight_norm spectral_norm weight_norm",
        "nn.utils.parameters": (
            "clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm "
            "parameters_to_vector vector_to_parameters"
        ),
    }
) | {name: f"nn.utils.{name}" for name in ("parametrizations", "parametrize", "rnn", "stateless")}

__all__ = [*_ON_DEMAND]

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
