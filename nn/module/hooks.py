"""Hooks: user functions that run before and after a module's forward, and after its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nn.module.registration import ModuleCore
from scopes.lowlevel import ModuleOnDemand
from tensor.lowlevel import RemovableHandle, is_recording

if TYPE_CHECKING:
    from nn.module import backward_hooks
    from nn.module.module import Module
else:
    backward_hooks = ModuleOnDemand("nn.module.backward_hooks")


class Hooks(ModuleCore):
    """Methods that register hooks, and call `forward` between them."""

    forward: Callable[..., Any]

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple[Any, ...]], Any]) -> RemovableHandle:
        """Register ``hook(module, args)`` to run before each forward. A result replaces `args`.

        A result of None keeps `args`; a result that is not a tuple is a single argument. Hooks run in the
        order of registration.
        """
        return self._table("before").register(hook)

    def register_forward_hook(self, hook: Callable[[Module, tuple[Any, ...], Any], Any]) -> RemovableHandle:
        """Register ``hook(module, args, output)`` to run after each forward. A result replaces the output.

        A result of None keeps the output. Hooks run in the order of registration. A tensor that a hook stores
        is disposed when its scope ends: move it out, or detach it from the scope.
        """
        return self._table("after").register(hook)

    def register_full_backward_hook(
        self, hook: Callable[[Module, tuple[Any, ...], tuple[Any, ...]], Any]
    ) -> RemovableHandle:
        """Register ``hook(module, grad_input, grad_output)`` to run after the module's backward.

        `grad_input` and `grad_output` are tuples: gradients of the positional tensor arguments, and of the
        tensor outputs. An element is None if there is no gradient. A result that is not None replaces
        `grad_input`. If no input requires grad, the hook runs before the module's backward.

        Examples
        --------
        >>> import nn, tensor
        >>> layer, seen = nn.Linear(2, 1), []
        >>> handle = layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
        >>> layer(tensor.ones((1, 2), requires_grad=True)).sum().backward()
        >>> seen
        [[[1.0]]]
        """
        return self._table("backward").register(hook)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call ``forward`` between the hooks. Backward hooks get gradients of its arguments and output."""
        for hook in list(self._table("before").values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        backward = backward_hooks.BackwardPass(self) if self._table("backward") and is_recording() else None
        if backward is not None:
            args = backward.mark_inputs(args)
        output = self.forward(*args, **kwargs)
        for hook in list(self._table("after").values()):
            changed = hook(self, args, output)
            if changed is not None:
                output = changed
        return output if backward is None else backward.mark_outputs(output)
