"""Hooks: functions of the user's own before and after a module's forward."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from nn._registration import ModuleCore

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from nn._module import Module

_keys = count()


class RemovableHandle:
    """Takes a hook away again: ``remove()``, or the end of a ``with`` block.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.ReLU()
    >>> with layer.register_forward_hook(lambda module, inputs, output: output * 2):
    ...     layer(tensor.ones((1,))).item()
    2.0
    >>> layer(tensor.ones((1,))).item()
    1.0
    """

    __slots__ = ("_key", "_module", "_where")

    def __init__(self, module: ModuleCore, where: str, key: int) -> None:
        self._module = ref(module)
        self._where = where
        self._key = key

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        module = self._module()
        if module is not None:
            module.__dict__[self._where].pop(self._key, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class Hooks(ModuleCore):
    """Methods that register hooks."""

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; what it returns, unless None, replaces `args`.

        Hooks run in the order of their registration. A value that is no tuple stands for a single argument.
        """
        return self._hook("_pre_hooks", hook)

    def register_forward_hook(self, hook: Callable[[Module, tuple[Any, ...], Any], Any]) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; what it returns, unless None, replaces it.

        Hooks run in the order of their registration. A hook that keeps a tensor keeps it no longer than its
        scope does: move it out, or detach it.
        """
        return self._hook("_post_hooks", hook)

    def _hook(self, where: str, hook: Callable[..., Any]) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(
                f"a hook is a function of the module and its arguments, not a {type(hook).__name__}"
            )
        key = next(_keys)
        self.__dict__[where][key] = hook
        return RemovableHandle(self, where, key)

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
