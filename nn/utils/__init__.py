"""Helpers for gradients, parameters and sequences: PyTorch's ``torch.nn.utils``."""

from typing import TYPE_CHECKING

from scopes.lowlevel import names_on_demand as _names_on_demand

if TYPE_CHECKING:
    from nn.utils import parametrizations as parametrizations
    from nn.utils import parametrize as parametrize
    from nn.utils import rnn as rnn
    from nn.utils.normalized import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
    from nn.utils.parameters import (
        clip_grad_norm_,
        clip_grad_value_,
        clip_grads_with_norm_,
        get_total_norm,
        parameters_to_vector,
        vector_to_parameters,
    )

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]

_ON_DEMAND = {
    name: module
    for module, names in {
        "nn.utils.normalized": "remove_spectral_norm remove_weight_norm spectral_norm weight_norm",
        "nn.utils.parameters": (
            "clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm "
            "parameters_to_vector vector_to_parameters"
        ),
    }.items()
    for name in names.split()
} | {name: f"nn.utils.{name}" for name in ("parametrizations", "parametrize", "rnn")}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND)
