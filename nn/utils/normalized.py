"""Weight normalization and spectral normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import tensor as tn
from nn.module.parameter import Parameter
from nn.module.states import copy_values
from nn.utils.computed import computations_of, set_computations
from tensor import Tensor
from tensor._errors import shown
from tensor.autograd.checkpointing import is_recomputing

if TYPE_CHECKING:
    from nn.module.module import Module

M = TypeVar("M", bound="Module")


class WeightNorm:
    """Computation of ``weight_g / norm(weight_v) * weight_v``, with a norm for each slice along `dim`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def __repr__(self) -> str:
        return f"weight_norm(name={self.name!r}, dim={self.dim})"

    def length(self, weight: Tensor) -> Tensor:
        """Return the norm of each slice along ``dim``."""
        # PyTorch also accepts -1 for all dimensions together.
        if self.dim is None or self.dim == -1:
            return weight.norm()
        own = self.dim % weight.ndim
        others = tuple(d for d in range(weight.ndim) if d != own)
        return weight.norm(dim=others, keepdim=True) if others else weight.abs()

    def compute(self, module: Module) -> Tensor:
        """Return the current weight."""
        return self.weight(*(getattr(module, f"{self.name}_{part}") for part in "gv"))

    def weight(self, size: Tensor, direction: Tensor) -> Tensor:
        """Return the weight with the norm `size` and the direction `direction`."""
        return direction * (size / self.length(direction))


class SpectralNorm:
    """Computation of ``weight_orig`` divided by its largest singular value, by power iteration."""

    def __init__(self, name: str, n_power_iterations: int, eps: float, dim: int) -> None:
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.eps = eps
        self.dim = dim

    def __repr__(self) -> str:
        return f"spectral_norm(name={self.name!r}, dim={self.dim})"

    def matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix with one row for each output."""
        if self.dim % weight.ndim:
            weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.shape[0], -1)

    def unit(self, vector: Tensor) -> Tensor:
        """Return the vector of length 1 in the direction of `vector`."""
        return vector / vector.norm().clamp(min=self.eps)

    def compute(self, module: Module) -> Tensor:
        """Return the current weight; in training, run the power iteration first."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        if module.training and not is_recomputing():
            with tn.no_grad():
                matrix = self.matrix(weight)
                for _ in range(self.n_power_iterations):
                    v.copy_(self.unit(u @ matrix))
                    u.copy_(self.unit(matrix @ v))
        return self.weight(weight, u, v)

    def weight(self, weight: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """Return `weight` divided by the singular value of these singular vectors."""
        return weight / (u * (self.matrix(weight) @ v)).sum()

    def new_vectors(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return random vectors of length 1, one for the outputs and one for the inputs."""
        rows, columns = self.matrix(weight).shape
        u, v = (self.unit(tn.randn(n, dtype=weight.dtype)) for n in (rows, columns))
        return u, v


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Apply weight normalization to a parameter of a module (Salimans and Kingma, 2016).

    The module trains the norm and the direction of the weight separately. The parameter is renamed to ``name
    + "_v"``, the direction; a new parameter ``name + "_g"`` is the norm. Each read computes ``module.weight``
    again, in the current scope. Create optimizers afterwards, from the new ``module.parameters()``.

    Parameters
    ----------
    module
        The module to change and return.
    name
        The name of a parameter.
    dim
        The dimension whose slices have separate norms; None for a single norm.

    Raises
    ------
    ValueError
        If the module has no such parameter, or the parameter is already computed.

    Examples
    --------
    >>> import nn
    >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> {name: x.shape for name, x in layer.state_dict().items()}
    {'bias': (2,), 'weight_g': (2, 1), 'weight_v': (2, 3)}
    >>> layer.weight.shape
    (2, 3)
    """
    computation = WeightNorm(name, dim)
    weight = _parameter("weight_norm", module, name, dim)
    with tn.no_grad():
        size = Parameter(computation.length(weight))
    delattr(module, name)
    module.register_parameter(f"{name}_g", size)
    module.register_parameter(f"{name}_v", weight)
    return _computing(module, computation)


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Remove weight normalization: the parameter keeps the computed values.

    Raises
    ------
    ValueError
        If this normalization does not compute the parameter `name`.

    Examples
    --------
    >>> import nn, tensor
    >>> list(nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    return _removed("weight_norm", WeightNorm, module, name, f"{name}_v", (f"{name}_g",))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Apply spectral normalization to a parameter of a module (Miyato et al., 2018).

    The weight is divided by its largest singular value. The parameter is renamed to ``name + "_orig"``.
    Buffers ``name + "_u"`` and ``name + "_v"`` hold the singular vectors. Each read computes
    ``module.weight`` again, in the current scope. In training, each read runs the power iterations first.

    Parameters
    ----------
    module
        The module to change and return.
    name
        The name of a parameter.
    n_power_iterations
        The number of power iterations for each read, at least 1.
    eps
        The smallest norm to divide by.
    dim
        The dimension of the outputs. None: 1 for transposed convolutions, else 0.

    Raises
    ------
    ValueError
        If the module has no such parameter, the parameter is already computed, or `n_power_iterations` is not
        positive.

    Examples
    --------
    >>> import nn
    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> {name: x.shape for name, x in layer.state_dict().items()}
    {'bias': (2,), 'weight_orig': (2, 3), 'weight_u': (2,), 'weight_v': (3,)}
    """
    if n_power_iterations < 1:
        raise ValueError(
            f"spectral_norm: n_power_iterations must be at least 1, not {shown(n_power_iterations)}"
        )
    computation = SpectralNorm(name, n_power_iterations, eps, output_dim(module) if dim is None else dim)
    weight = _parameter("spectral_norm", module, name, dim)
    with tn.no_grad():
        u, v = computation.new_vectors(weight)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    return _computing(module, computation)


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Remove spectral normalization: the parameter keeps the computed values.

    Raises
    ------
    ValueError
        If this normalization does not compute the parameter `name`.

    Examples
    --------
    >>> import nn, tensor
    >>> list(nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    return _removed("spectral_norm", SpectralNorm, module, name, f"{name}_orig", (f"{name}_u", f"{name}_v"))


def output_dim(module: Module) -> int:
    """Return the dimension of the outputs in a module's weight."""
    return int(any(base.__name__.startswith("ConvTranspose") for base in type(module).__mro__))


def _computing(module: M, computation: WeightNorm | SpectralNorm) -> M:
    set_computations(module, (*computations_of(module), computation))
    return module


def _parameter(function: str, module: Module, name: str, dim: int | None) -> Parameter:
    for computation in computations_of(module):
        if computation.name == name:
            raise ValueError(
                f"{function}: {name!r} of this {type(module).__name__} is already computed by "
                f"{computation!r}: remove that first"
            )
    found = vars(module).get(name)
    if not isinstance(found, Parameter):
        names = [name for name, _ in module.named_parameters(recurse=False)]
        advice = f": pass one of {names} as name" if names else ", and no other parameter"
        raise ValueError(f"{function}: {type(module).__name__} has no parameter {name!r}{advice}")
    if dim is not None and not -found.ndim <= dim < found.ndim:
        raise ValueError(
            f"{function}: dim must be a dimension of {name!r}, which has shape {found.shape}, not {dim}"
        )
    return found


def _removed(
    function: str, kind: type[Any], module: M, name: str, original: str, others: tuple[str, ...]
) -> M:
    computations = computations_of(module)
    for computation in computations:
        if computation.name == name and isinstance(computation, kind):
            break
    else:
        raise ValueError(
            f"remove_{function}: {name!r} of this {type(module).__name__} is not computed by {function}"
        )
    was_training, parameter = module.training, getattr(module, original)
    try:
        vars(module)["training"] = False  # so that reading the weight runs no power iteration
        with tn.no_grad():
            values = computation.compute(module)
    finally:
        vars(module)["training"] = was_training
    copy_values([parameter], [values._live_array()])
    set_computations(module, tuple(other for other in computations if other is not computation))
    for part in others:
        held = getattr(module, part)
        delattr(module, part)
        held.dispose()
    delattr(module, original)
    module.register_parameter(name, parameter)
    return module
