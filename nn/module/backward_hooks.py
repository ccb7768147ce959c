"""Backward hooks of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensor import Tensor
from tensor.autograd import Function


class BackwardPass:
    """Marks of one forward pass at which its backward pass calls the backward `hooks` of `module`."""

    def __init__(self, module: object, hooks: Mapping[int, Callable[..., Any]]) -> None:
        self._module = module
        self._hooks = hooks
        self._has_inputs = False
        # None outside of the module's backward.
        self._grad_output: tuple[Any, ...] | None = None

    def mark_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return `args` with tensors at which the backward pass of the module ends."""
        indices = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        self._has_inputs = any(args[i].requires_grad for i in indices)
        return _marked(_Inputs, self, args, indices) if self._has_inputs else args

    def mark_outputs(self, output: Any) -> Any:
        """Return `output` with tensors at which the backward pass of the module begins."""
        outputs = output if isinstance(output, tuple) else (output,)
        indices = [i for i, x in enumerate(outputs) if isinstance(x, Tensor) and x.requires_grad]
        if not indices:
            return output
        changed = _marked(_Outputs, self, outputs, indices)
        return changed if isinstance(output, tuple) else changed[0]

    def begin(self, grad_output: tuple[Any, ...]) -> None:
        """Store the gradients of the outputs."""
        self._grad_output = grad_output
        if not self._has_inputs:
            self.end((None,))

    def end(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the hooks, and return the gradients of the inputs."""
        if self._grad_output is None:
            # A second derivative reaches the inputs through saved values, without the outputs.
            return grad_input
        for hook in list(self._hooks.values()):
            changed = hook(self._module, grad_input, self._grad_output)
            if changed is not None:
                grad_input = changed if isinstance(changed, tuple) else (changed,)
        self._grad_output = None
        return grad_input


def _marked(
    mark: type[_Identity], of: BackwardPass, values: tuple[Any, ...], indices: list[int]
) -> tuple[Any, ...]:
    changed = list(values)
    for i, x in zip(indices, mark.apply(of, *(values[i] for i in indices)), strict=True):
        changed[i] = x
    return tuple(changed)


class _Identity(Function):
    """Identity on tensors of a forward pass."""

    @staticmethod
    def forward(ctx: Any, of: BackwardPass, *xs: Tensor) -> tuple[Tensor, ...]:
        ctx.of = of
        return xs


class _Inputs(_Identity):
    """Identity on the inputs. Its backward runs after the module's backward."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *ctx.of.end(grads))


class _Outputs(_Identity):
    """Identity on the outputs. Its backward runs before the module's backward."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        ctx.of.begin(grads)
        return (None, *grads)
