"""Tensors of PyTorch that never belong to a scope: those of modules, optimizers, gradient scalers.

Of what a module's code assigns to an attribute, the module keeps what has no graph: a mask or a table that it
made at its first call for all later ones, a state that was detached. What has a graph ends with the scope,
as it is one step's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scopes.core.containers import find
from scopes.core.foreign import is_adopted, let_go
from scopes.foreign.torch.disposal import DisposedTensor
from scopes.foreign.torch.library import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Module = torch.nn.Module
# `torch.optim` hides it.
_optimizers = import_module("torch.optim.optimizer")
_Optimizer = torch.optim.Optimizer
_is_traced = torch.compiler.is_dynamo_compiling


def _is_tensor(x: object) -> bool:
    return isinstance(x, torch.Tensor)


def for_each_tensor(holder: object, action: Callable[[Any], None]) -> None:
    """Call `action` with each tensor in any nesting of containers."""
    for x in find((holder,), _is_tensor, inside=False):
        action(x)


def _let_go_of_module(module: Any) -> None:
    for inner in module.modules():
        for x in (*inner._parameters.values(), *inner._buffers.values()):
            if x is not None:
                let_go(x)


def _let_go_of_state(optimizer: Any) -> None:
    for state in optimizer.state.values():
        if isinstance(state, dict):
            for x in state.values():
                if isinstance(x, torch.Tensor):
                    let_go(x)
                elif isinstance(x, (list, tuple, dict)):
                    for_each_tensor(x, let_go)


def _registered(_module: Any, _name: str, x: Any) -> None:
    if isinstance(x, torch.Tensor):
        let_go(x)


def _module_registered(_module: Any, _name: str, inner: Any) -> None:
    if isinstance(inner, _Module):
        _let_go_of_module(inner)


def _stepped(optimizer: Any, _args: object, _kwargs: object) -> None:
    _let_go_of_state(optimizer)


def register_hooks() -> Iterable[Any]:
    """Register what PyTorch calls when something comes to belong to a module or an optimizer."""
    modules = torch.nn.modules.module
    return (
        modules.register_module_buffer_registration_hook(_registered),
        modules.register_module_parameter_registration_hook(_registered),
        modules.register_module_module_registration_hook(_module_registered),
        _optimizers.register_optimizer_step_post_hook(_stepped),
    )


def _then(let_go_of: Callable[[Any], None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what wraps a method, so that ``let_go_of(self)`` comes after it."""

    def wrap(method: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(self, *args, **kwargs)
            let_go_of(self)
            return result

        return called

    return wrap


def _let_go_of_constant(x: Any) -> None:
    if not isinstance(x, DisposedTensor) and is_adopted(x) and not x.requires_grad:
        let_go(x)


def _assigning(assign: Callable[..., None]) -> Callable[..., None]:
    def called(self: Any, name: str, value: Any) -> None:
        assign(self, name, value)
        if _is_traced():  # what is compiled is not run now
            pass
        elif isinstance(value, torch.Tensor):
            _let_go_of_constant(value)
        elif isinstance(value, (list, tuple, dict)):
            for_each_tensor(value, _let_go_of_constant)

    return called


def _let_go_of_scaler(scaler: Any) -> None:
    for x in (scaler._scale, scaler._growth_tracker):
        if x is not None:
            let_go(x)


# Where buffers and state are set past all hooks: to another device or dtype, copies, unpickled ones.
PATCHES: dict[tuple[Any, str], Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    (_Module, "__setattr__"): _assigning,
    (_Module, "_apply"): _then(_let_go_of_module),
    (_Module, "__setstate__"): _then(_let_go_of_module),
    (_Module, "load_state_dict"): _then(_let_go_of_module),
    (_Optimizer, "load_state_dict"): _then(_let_go_of_state),
    (_Optimizer, "__setstate__"): _then(_let_go_of_state),
    (torch.amp.GradScaler, "_lazy_init_scale_growth_tracker"): _then(_let_go_of_scaler),
}
