"""Hooks: the user's functions before and after a module's forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.module.backward_hooks import BackwardHooks
from nn.module.registration import ModuleCore

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn.module.module import Module
    from tensor.lowlevel import RemovableHandle


class Hooks(ModuleCore):
    """Methods that register hooks."""

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; a result that is not None replaces `args`.

        Hooks run in the order of their registration. A value that is no tuple stands for a single argument.
        """
        return self._pre_hooks.register(hook)

    def register_forward_hook(self, hook: Callable[[Module, tuple[Any, ...], Any], Any]) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; a result that is not None replaces it.

        Hooks run in the order of their registration. A hook that keeps a tensor keeps it no longer than its
        scope does: move it out, or detach it.
        """
        return self._post_hooks.register(hook)

    def register_full_backward_hook(
        self, hook: Callable[[Module, tuple[Any, ...], tuple[Any, ...]], Any]
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when backward has passed through a forward.

        Both are tuples: the gradients of the positional arguments that are tensors, and of the outputs that
        are. Elements are None where there is no gradient. What the hook returns, unless None, replaces
        `grad_input`.

        Examples
        --------
        >>> import nn, tensor
        >>> layer, seen = nn.Linear(2, 1), []
        >>> handle = layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
        >>> layer(tensor.ones((1, 2), requires_grad=True)).sum().backward()
        >>> seen
        [[[1.0]]]
        """
        return BackwardHooks.of(self).register(hook)

    def _run_pre_hooks(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self._pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        return args

    def _run_post_hooks(self, args: tuple[Any, ...], output: Any) -> Any:
        for hook in list(self._post_hooks.values()):
            changed = hook(self, args, output)
            if changed is not None:
                output = changed
        return output
