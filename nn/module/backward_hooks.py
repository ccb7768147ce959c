"""Backward hooks of modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tensor import Tensor
from tensor.autograd import Function
from tensor.lowlevel import HookTable, is_recording

if TYPE_CHECKING:
    from nn.module.registration import ModuleCore
    from tensor.lowlevel import RemovableHandle


class _Pass:
    """One forward pass, and the gradients of its backward pass so far."""

    def __init__(self, module: Any, hooks: BackwardHooks) -> None:
        self.module = module
        self.hooks = hooks
        self.has_inputs = False
        self.grad_output: tuple[Any, ...] = ()

    def finish(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the hooks; return the gradients of the inputs."""
        for hook in list(self.hooks.table.values()):
            changed = hook(self.module, grad_input, self.grad_output)
            if changed is not None:
                grad_input = changed if isinstance(changed, tuple) else (changed,)
        return grad_input


class _Identity(Function):
    """Identity on tensors of a forward pass."""

    @staticmethod
    def forward(ctx: Any, passed: _Pass, *xs: Tensor) -> tuple[Tensor, ...]:
        ctx.passed = passed
        return xs


class _Inputs(_Identity):
    """Identity on the inputs. Its backward runs after the module's backward."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *ctx.passed.finish(grads))


class _Outputs(_Identity):
    """Identity on the outputs. Its backward runs before the module's backward."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        passed: _Pass = ctx.passed
        passed.grad_output = grads
        if not passed.has_inputs:
            passed.finish((None,))
        return (None, *grads)


class BackwardHooks:
    """The backward hooks of one module, with forward hooks that mark its inputs and outputs."""

    def __init__(self, module: ModuleCore) -> None:
        self.table = HookTable()
        # Forward passes that have not ended: a module may call itself.
        self.begun: list[_Pass] = []
        module._pre_hooks.register(self.before)
        module._post_hooks.register(self.after)

    @classmethod
    def of(cls, module: ModuleCore) -> BackwardHooks:
        """Return the backward hooks of `module`. The first call creates them."""
        found = _OF_MODULES.get(module)
        if found is None:
            found = _OF_MODULES[module] = cls(module)
        return found

    def register(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Add `hook`."""
        return self.table.register(hook)

    def before(self, module: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Mark where the backward of the module ends."""
        passed = _Pass(module, self)
        self.begun.append(passed)
        indices = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        passed.has_inputs = any(args[i].requires_grad for i in indices)
        if not self.table or not is_recording() or not passed.has_inputs:
            return None
        marked = _Inputs.apply(passed, *(args[i] for i in indices))
        changed = list(args)
        for i, x in zip(indices, marked, strict=True):
            changed[i] = x
        return tuple(changed)

    def after(self, module: Any, args: tuple[Any, ...], output: Any) -> Any:
        """Mark where the backward of the module begins."""
        del module, args
        passed = self.begun.pop()
        if not self.table or not is_recording():
            return None
        outputs = output if isinstance(output, tuple) else (output,)
        indices = [i for i, x in enumerate(outputs) if isinstance(x, Tensor) and x.requires_grad]
        if not indices:
            return None
        changed = list(outputs)
        for i, x in zip(indices, _Outputs.apply(passed, *(outputs[i] for i in indices)), strict=True):
            changed[i] = x
        return tuple(changed) if isinstance(output, tuple) else changed[0]


_OF_MODULES: WeakKeyDictionary[ModuleCore, BackwardHooks] = WeakKeyDictionary()
