"""Wrong uses of ``autograd.Function`` say what to write; right ones give what PyTorch gives."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from scopes import new_dispose_scope
from tensor import Tensor, TensorDisposedError, autograd
from tests.tensor.functions import (
    Exp,
    Identity,
    Multiply,
)
from tests.tensor.graphs import leaf


def test_methods_that_are_not_static_are_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match=r"Plain\.backward is no static method: write @staticmethod above it"):

        class Plain(Exp):
            def backward(self, grad: Tensor) -> Any:
                return grad


def test_a_function_has_no_objects() -> None:
    with pytest.raises(TypeError, match=r"write Exp.apply\(...\)"):
        Exp(leaf(1.0))


def test_apply_takes_no_keyword_arguments() -> None:
    with pytest.raises(TypeError, match=r"Multiply.apply takes no keyword arguments \(factor\)"):
        Multiply.apply(leaf(1.0), leaf(1.0), factor=3.0)


def test_missing_methods_are_errors_when_they_are_reached() -> None:
    class Half(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x / 2

    with pytest.raises(NotImplementedError, match="has no backward"):
        Half.apply(leaf(1.0)).backward()
    with pytest.raises(NotImplementedError, match="has no forward"):
        autograd.Function.apply(leaf(1.0))


def test_a_list_of_tensors_is_refused_for_it_would_have_no_history() -> None:
    class Listing(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return [x * 2]

    with pytest.raises(TypeError, match=r"Listing\.forward has returned a list with tensors"):
        Listing.apply(leaf(1.0))


def test_disposed_arguments_and_results_are_errors() -> None:
    class Disposing(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            with new_dispose_scope("inside"):
                return x * 2

    x = leaf(1.0)
    with pytest.raises(TensorDisposedError, match="its dispose scope 'inside' ended"):
        Disposing.apply(x)
    x.dispose()
    with pytest.raises(TensorDisposedError):
        Exp.apply(x)


def test_the_same_class_gives_the_same_in_pytorch() -> None:
    torch = pytest.importorskip("torch")

    def using(library: Any, function: Any) -> Any:
        class Scaled(function):
            given: tuple[Any, ...] = ()

            @staticmethod
            def forward(ctx, x, factor, y):
                product = x * y
                index = x.argmax()
                rounded = x.round()
                ctx.mark_non_differentiable(rounded)
                ctx.save_for_backward(x, y, product)
                ctx.factor = factor
                return product * factor, index, rounded, "text", product, x

            @staticmethod
            def backward(ctx, *grads):
                Scaled.given = [g if g is None else g.tolist() for g in grads]
                x, y, _ = ctx.saved_tensors
                whole = grads[0] * ctx.factor + grads[4]
                return whole * y + grads[5], None, (whole * x).sum(0), None

        x = library.tensor([[0.5, 1.25], [2.0, -3.0]], requires_grad=True)
        y = library.tensor([1.5, -0.5], requires_grad=True)
        out = Scaled.apply(x, 3, y)
        kinds = [hasattr(z, "tolist") and (z.requires_grad, z.is_leaf, z is x) for z in out]
        (out[0] * out[0]).sum().backward(retain_graph=True)
        found = [Scaled.given, x.grad.tolist(), y.grad.tolist()]
        grad = library.autograd.grad
        first = grad((out[0] * out[5]).sum(), [x, y], create_graph=True)
        second = grad(first[0].sum() + first[1].sum(), [x, y])
        return kinds, found, [g.tolist() for g in (*first, *second)]

    assert using(tensor, autograd.Function) == using(torch, torch.autograd.Function)
