"""Helpers for gradients, parameters and sequences: PyTorch's ``torch.nn.utils``."""

from nn.utils import rnn
from nn.utils.parameters import (
    clip_grad_norm_,
    clip_grad_value_,
    parameters_to_vector,
    vector_to_parameters,
)

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "rnn", "vector_to_parameters"]
