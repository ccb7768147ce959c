"""Wrong uses of ``autograd.Function`` say what to write; right ones give what PyTorch gives."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from scopes import new_dispose_scope
from tensor import Tensor, TensorDisposedError, autograd
from tests.tensor.functions import Exp, Identity, Multiply, doubles
from tests.tensor.graphs import leaf, leaving_nothing


def test_methods_that_are_not_static_are_refused_when_the_class_is_made() -> None:
    with pytest.raises(
        TypeError, match=r"Plain\.backward must be a static method: write @staticmethod above it"
    ):

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

    with pytest.raises(TypeError, match=r"Listing\.forward returned tensors in list"):
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


class NumpyCube(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return tensor.from_numpy(x.detach().numpy() ** 3)

    @staticmethod
    @autograd.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        assert not tensor.is_grad_enabled()
        return (tensor.from_numpy(3 * x.detach().numpy() ** 2 * grad.numpy()),)


def test_second_derivative_of_once_differentiable_backward_raises_an_error() -> None:
    x = doubles(3)
    assert autograd.gradcheck(NumpyCube.apply, x)
    y = NumpyCube.apply(x)
    # Alone, and as one of several terms, by which it would be missed silently.
    for weight in (0, 1):
        (dx,) = autograd.grad(y.sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match=r"NumpyCube\.backward is marked @once_differentiable"):
            (dx * x + weight * dx).sum().backward()
    assert x.grad is None


def test_once_differentiable_raises_for_each_source_of_the_gradient() -> None:
    x, weights = doubles(3), doubles(3, seed=1)
    y = NumpyCube.apply(x)
    for source in (x, weights):
        (dx,) = autograd.grad(y, x, weights, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            autograd.grad(dx.sum(), source)


def test_once_differentiable_above_staticmethod_raises_an_error() -> None:
    with pytest.raises(TypeError, match="write @staticmethod above it"):
        autograd.once_differentiable(staticmethod(Exp.backward))


def test_a_gradient_derived_once_leaves_nothing() -> None:
    x = doubles(3)
    with leaving_nothing():
        (dx,) = autograd.grad(NumpyCube.apply(x).sum(), x, create_graph=True)
        assert dx.requires_grad
        del dx


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
