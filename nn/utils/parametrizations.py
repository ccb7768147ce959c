"""Weight and spectral normalization as parametrizations: PyTorch's ``torch.nn.utils.parametrizations``."""

from __future__ import annotations

from typing import TypeVar

import tensor as tn
from nn.module.module import Module
from nn.utils.normalized import SpectralNorm, WeightNorm, output_dim
from nn.utils.parametrize import register_parametrization
from tensor import Tensor
from tensor._errors import InvalidArgumentError, shown
from tensor.autograd.checkpointing import is_recomputing

__all__ = ["spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__()
        self.formula = WeightNorm(name, dim)

    def forward(self, size: Tensor, direction: Tensor) -> Tensor:
        return self.formula.weight(size, direction)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return self.formula.length(weight), weight


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, name: str, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.formula = SpectralNorm(name, n_power_iterations, eps, dim)
        if weight.ndim > 1:
            with tn.no_grad():
                u, v = self.formula.new_vectors(weight)
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                self._run_power_iterations(weight, 15)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return self.formula.unit(weight)
        if self.training and not is_recomputing():
            with tn.no_grad():
                self._run_power_iterations(weight, self.formula.n_power_iterations)
        return self.formula.weight(weight, self._u, self._v)

    def _run_power_iterations(self, weight: Tensor, times: int) -> None:
        # As in PyTorch, update `u` first. `nn.utils.spectral_norm` updates `v` first.
        matrix = self.formula.matrix(weight)
        for _ in range(times):
            self._u.copy_(self.formula.unit(matrix @ self._v))
            self._v.copy_(self.formula.unit(self._u @ matrix))

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Apply weight normalization to a parameter, as ``nn.utils.weight_norm`` does.

    The norm is ``module.parametrizations.weight.original0``, the direction ``original1``.

    Examples
    --------
    >>> import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> {name.rpartition(".")[2]: x.shape for name, x in layer.state_dict().items()}
    {'bias': (2,), 'original0': (2, 1), 'original1': (2, 3)}
    """
    return register_parametrization(module, name, _WeightNorm(name, dim), unsafe=True)


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Apply spectral normalization to a parameter, as ``nn.utils.spectral_norm`` does.

    The parameter is ``module.parametrizations.weight.original``, the vectors are buffers ``_u`` and ``_v`` of
    ``module.parametrizations.weight[0]``. The call runs 15 power iterations, and each read in training mode
    `n_power_iterations` more. A weight with one dimension is divided by its norm, without iterations.

    Examples
    --------
    >>> import nn
    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    >>> [name.removeprefix("parametrizations.weight.") for name in layer.state_dict()]
    ['bias', 'original', '0._u', '0._v']
    """
    if n_power_iterations < 1:
        raise InvalidArgumentError(
            f"spectral_norm: n_power_iterations must be at least 1, not {shown(n_power_iterations)}"
        )
    weight = getattr(module, name, None)
    if not isinstance(weight, tn.Tensor):
        raise InvalidArgumentError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}")
    own = output_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(name, weight, n_power_iterations, own, eps))
