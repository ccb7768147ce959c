"""Call a module with other parameters and buffers: PyTorch's ``torch.func.functional_call``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nn.module.module import Module
from nn.module.owners import add_owner, remove_owner
from tensor import Tensor
from tensor._errors import shown

__all__ = ["functional_call"]

Values = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Values | Sequence[Values],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with other tensors for some of its parameters and buffers, which do not change.

    Parameters
    ----------
    parameter_and_buffer_dicts
        Tensors by their names in ``named_parameters()`` and ``named_buffers()``, in one dict or in several.
        The name of a plain attribute that holds a tensor works too. Other names are ignored. The tensors
        keep their gradient history, so that gradients flow to what they were computed from. A dict of the
        type `dict` gets the new tensors that the call assigns to buffers.
    args, kwargs
        The arguments of the module. One that is not a tuple is a single argument.
    tie_weights
        Use a tensor for all names of the parameter or buffer.
    strict
        Raise an error if a name is missing, or is none of the module's.

    Raises
    ------
    TypeError
        If a value is not a tensor.
    ValueError
        If two dicts have the same name, or two names of one parameter have different tensors.
    KeyError
        If `strict`, and names are missing or unknown.

    Examples
    --------
    >>> import nn, tensor
    >>> layer, x = nn.Linear(2, 1, bias=False), tensor.ones((1, 2))
    >>> nn.utils.stateless.functional_call(layer, {"weight": tensor.tensor([[1.0, 2.0]])}, x).tolist()
    [[3.0]]
    """
    is_one = isinstance(parameter_and_buffer_dicts, Mapping)
    dicts: list[Any] = [parameter_and_buffer_dicts] if is_one else list(parameter_and_buffer_dicts)
    values: dict[str, Tensor] = {}
    for each in dicts:
        for name, x in each.items():
            if not isinstance(x, Tensor):
                raise TypeError(f"functional_call: the value of {name!r} must be a tensor, not {shown(x)}")
            if name in values:
                raise ValueError(f"functional_call: {name!r} is in several dicts: leave it in one of them")
            x._raise_if_disposed()
            values[name] = x
    modules = dict(module.named_modules(remove_duplicate=False))
    places = _places(modules)
    if strict and places.keys() != values.keys():
        missing, unknown = sorted(places.keys() - values.keys()), sorted(values.keys() - places.keys())
        raise KeyError(f"functional_call: missing names {missing}, unknown names {unknown}")
    for name in values.keys() - places.keys():
        path, _, key = name.rpartition(".")
        x = vars(modules[path]).get(key) if path in modules else None
        if isinstance(x, Tensor):  # a plain attribute, neither a parameter nor a buffer
            places[name] = modules[path], key, x
    names = {name: name for name in values if name in places}
    if tie_weights:
        names = _with_tied_names(places, values, names)
    call = _Call()
    try:
        for name, source in names.items():
            owner, key, _ = places[name]
            # A module disposes what it replaces, unless it has another owner.
            add_owner(values[source], call)
            add_owner(values[source], owner)
            vars(owner)[key] = values[source]
        arguments = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*arguments, **(kwargs or {}))
    finally:
        for name, source in names.items():
            owner, key, x = places[name]
            after = vars(owner).get(key)
            vars(owner)[key] = x
            remove_owner(after, owner)
            remove_owner(values[source], call)
            for each in dicts:
                if isinstance(each, dict) and name in each and isinstance(after, Tensor):
                    each[name] = after


class _Call:
    """Owns the tensors of a call while it runs."""


def _places(modules: Mapping[str, Module]) -> dict[str, tuple[Any, str, Any]]:
    """Return the module, the attribute and the tensor of each registered name, with all names of a tensor."""
    return {
        f"{path}.{key}" if path else key: (owner, key, x)
        for path, owner in modules.items()
        for key, kind, x in owner._registered()
        if kind != "module"
    }


def _with_tied_names(
    places: dict[str, tuple[Any, str, Any]], values: dict[str, Tensor], names: dict[str, str]
) -> dict[str, str]:
    """Return the name of the new tensor by name, for all names of the tensors that `names` replaces."""
    sources: dict[int, str] = {}
    for name in names:
        first = sources.setdefault(id(places[name][2]), name)
        if values[first] is not values[name]:
            raise ValueError(
                f"functional_call: {first!r} and {name!r} are one tensor of the module, but have different "
                "values: pass one of them, or tie_weights=False"
            )
    return {name: sources[id(x)] for name, (_, _, x) in places.items() if id(x) in sources}
