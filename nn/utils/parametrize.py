"""Parametrizations of parameters: PyTorch's ``torch.nn.utils.parametrize``."""

from __future__ import annotations

from typing import Any, TypeVar

import tensor as tn
from nn.module.module import Module
from nn.module.parameter import Parameter
from nn.module.states import copy_values
from nn.utils.computed import computations_of, set_computations
from tensor import Tensor
from tensor._errors import InvalidArgumentError, shown
from tensor.core.tensor import TensorCore

__all__ = ["ParametrizationList", "is_parametrized", "register_parametrization", "remove_parametrizations"]

M = TypeVar("M", bound=Module)


class ParametrizationList(Module):
    """Parametrizations of one attribute, and its original tensors.

    It is ``module.parametrizations.weight``, for example. The original tensors are ``original``, or
    ``original0``, ``original1`` and so on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_tensor = True

    def modules_in_order(self) -> list[Module]:
        """Return the parametrizations in the order of computation."""
        return [module for name, module in self.named_children() if name.isdecimal()]

    def __len__(self) -> int:
        return len(self.modules_in_order())

    def __getitem__(self, index: int) -> Module:
        return self.modules_in_order()[index]

    def originals(self) -> list[Tensor]:
        """Return the original tensors, the arguments of the first parametrization."""
        if self.is_tensor:
            return [getattr(self, "original")]  # noqa: B009 -- registered by name, unknown to type checkers
        count = sum(name.startswith("original") for name in self._kinds)
        return [getattr(self, f"original{i}") for i in range(count)]

    def forward(self) -> Tensor:
        """Return the current value."""
        first, *others = self.modules_in_order()
        value = first(*self.originals())
        for module in others:
            value = module(value)
        return value  # type: ignore[no-any-return]

    def right_inverse(self, value: Tensor) -> None:
        """Set the original tensors so that ``forward`` returns `value`."""
        with tn.no_grad():
            given: Any = value
            for module in reversed(self.modules_in_order()):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"an assignment to a parametrized tensor requires right_inverse(value), but "
                        f"{type(module).__name__} has none: define it, or assign the original tensors"
                    )
                given = module.right_inverse(given)
            values = [given] if self.is_tensor else list(given)
            copy_values(self.originals(), values)


class _Parametrized:
    """Computation of an attribute with its `ParametrizationList`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"parametrizations.{self.name}"

    def compute(self, module: Module) -> Tensor:
        """Return the current value."""
        return _list_of(module, self.name)()

    def assign(self, module: Module, value: Tensor) -> None:
        """Set the original tensors by ``right_inverse``."""
        _list_of(module, self.name).right_inverse(value)


def _list_of(module: Module, name: str) -> ParametrizationList:
    return getattr(vars(module)["parametrizations"], name)  # type: ignore[no-any-return]


def register_parametrization(
    module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> M:
    """Make a module compute a parameter or buffer with `parametrization`, at each read.

    ``module.weight`` is then ``parametrization(module.parametrizations.weight.original)``, and the parameter
    is renamed to ``original``. If the parametrization has ``right_inverse(weight)``, the original gets the
    result, and ``module.weight = value`` works. A tuple becomes ``original0``, ``original1`` and so on, which
    are the arguments of the parametrization. Computed values belong to the current scope. Several
    parametrizations of one name are applied in order.

    Parameters
    ----------
    module
        The module to change and return.
    tensor_name
        The name of a parameter or buffer.
    parametrization
        A module that takes and returns a tensor.
    unsafe
        Do not check that shape and dtype stay the same.

    Raises
    ------
    ValueError
        If the module has no such tensor, or shape or dtype would change.
    TypeError
        If ``right_inverse`` does not return tensors.

    Examples
    --------
    >>> import nn
    >>> from nn.utils.parametrize import register_parametrization
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all()), list(layer.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])
    """
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
        return module
    original: Any = vars(module).get(tensor_name)
    is_free = all(computation.name != tensor_name for computation in computations_of(module))
    if not is_free or module._kinds.get(tensor_name) not in ("parameter", "buffer"):
        raise InvalidArgumentError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}"
        )
    listed = ParametrizationList()
    with tn.no_grad():
        inverse = getattr(parametrization, "right_inverse", None)
        values: Any = original if inverse is None else inverse(original)
        listed.is_tensor = isinstance(values, TensorCore)
        each = [values] if listed.is_tensor else _tensors_of(parametrization, values)
        computed = parametrization(*each)
    _require_alike(tensor_name, original, computed, unsafe)
    kind = module._kinds[tensor_name]
    if listed.is_tensor:
        if values.dtype != original.dtype:
            raise InvalidArgumentError(
                f"register_parametrization: {type(parametrization).__name__}.right_inverse must return the "
                f"dtype of {tensor_name!r}, {original.dtype}, not {values.dtype}"
            )
        # Keep the same object, because an optimizer may hold it.
        is_same = values.shape == original.shape
        _register(listed, "original", kind, original if is_same else values, original.requires_grad)
        if is_same and values is not original:
            copy_values([original], [values])
    else:
        for i, value in enumerate(each):
            _register(listed, f"original{i}", kind, value, original.requires_grad)
    # From here on nothing fails, so an error never leaves a partly changed module.
    listed.register_module("0", parametrization)
    delattr(module, tensor_name)
    if "parametrizations" not in module._kinds:
        module.register_module("parametrizations", Parametrizations())
    vars(module)["parametrizations"].register_module(tensor_name, listed)
    set_computations(module, (*computations_of(module), _Parametrized(tensor_name)))
    return module


def _tensors_of(parametrization: Module, values: Any) -> list[Tensor]:
    """Return several tensors, the result of ``right_inverse``, as a list."""
    if not isinstance(values, (tuple, list)) or not all(isinstance(value, TensorCore) for value in values):
        raise TypeError(
            f"{type(parametrization).__name__}.right_inverse must return a tensor or a tuple of tensors, not "
            f"{shown(values)}"
        )
    return list(values)


class Parametrizations(Module):
    """Container of a module's `ParametrizationList` objects by name."""

    def __getitem__(self, name: str) -> ParametrizationList:
        return getattr(self, name)  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __len__(self) -> int:
        return len(self._kinds)


def _register(listed: ParametrizationList, name: str, kind: str, value: Any, requires_grad: bool) -> None:
    if kind == "parameter":
        parameter = value if isinstance(value, Parameter) else Parameter(value, requires_grad=requires_grad)
        listed.register_parameter(name, parameter)
    else:
        listed.register_buffer(name, value)


def _append(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    listed = _list_of(module, name)
    with tn.no_grad():
        before = listed()
        _require_alike(name, before, parametrization(before), unsafe)
    listed.register_module(str(len(listed)), parametrization)


def _require_alike(name: str, before: Tensor, after: Tensor, unsafe: bool) -> None:
    if unsafe:
        return
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        raise InvalidArgumentError(
            f"register_parametrization: the parametrization changes {name!r} from shape {before.shape} and "
            f"{before.dtype} to {after.shape} and {after.dtype}: pass unsafe=True if the module supports that"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module has a parametrization of this name, or of any name for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.utils.parametrize.is_parametrized(nn.Linear(1, 1))
    False
    """
    names = [x.name for x in computations_of(module) if isinstance(x, _Parametrized)]
    return bool(names) if tensor_name is None else tensor_name in names


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """Remove all parametrizations of a name, and keep the computed or the original values.

    Parameters
    ----------
    leave_parametrized
        Keep the currently computed values. False keeps the values of a single original.

    Raises
    ------
    ValueError
        If the name has no parametrization, or it has several originals and `leave_parametrized` is False.

    Examples
    --------
    >>> import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> list(nn.utils.parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise InvalidArgumentError(
            f"remove_parametrizations: {type(module).__name__} has no parametrization of {tensor_name!r}"
        )
    listed = _list_of(module, tensor_name)
    if not leave_parametrized and not listed.is_tensor:
        raise InvalidArgumentError(
            f"remove_parametrizations: leave_parametrized=False requires one original tensor, but "
            f"{tensor_name!r} is computed from {len(listed.originals())}: pass leave_parametrized=True"
        )
    computed = _current_value(listed)
    originals = listed.originals()
    kept = next((x for x in originals if x.shape == computed.shape or not leave_parametrized), None)
    if kept is None and isinstance(originals[0], Parameter):
        kept = Parameter(computed, requires_grad=originals[0].requires_grad)
    elif kept is None:
        kept = computed
    elif leave_parametrized:
        copy_values([kept], [computed._live_array()])
    computations = computations_of(module)
    set_computations(module, tuple(x for x in computations if x.name != tensor_name))
    for name in [name for name in listed._kinds if name.startswith("original")]:
        held = getattr(listed, name)
        delattr(listed, name)
        if held is not kept:
            held.dispose()
    lists = vars(module)["parametrizations"]
    delattr(lists, tensor_name)
    if not len(lists):
        delattr(module, "parametrizations")
    if isinstance(kept, Parameter):
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    return module


def _current_value(listed: ParametrizationList) -> Tensor:
    """Return the computed value, without running a power iteration."""
    was_training = [(module, module.training) for module in listed.modules()]
    try:
        for module, _ in was_training:
            vars(module)["training"] = False
        with tn.no_grad():
            value: Tensor = listed()
            return value.clone()
    finally:
        for module, is_training in was_training:
            vars(module)["training"] = is_training
