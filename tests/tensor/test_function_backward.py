"""What the backward of a user's own op is given, what it has saved, and what it may return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from scopes import disposing, new_dispose_scope
from tensor import Tensor, TensorDisposedError, autograd, memory
from tests.tensor.functions import (
    Exp,
    Linear,
    Multiply,
    Returning,
    SinCos,
    doubles,
    returning,
)
from tests.tensor.graphs import bytes_live, leaf


def test_outputs_without_a_gradient_have_zeros() -> None:
    x = leaf(0.0, 1.0)
    SinCos.apply(x)[0].sum().backward()
    assert SinCos.given == ([1.0, 1.0], None, [0.0, 0.0], 0)


def test_missing_gradient_is_none_without_materialize_grads() -> None:
    class Sparse(SinCos):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            assert grads[0] is None
            return grads[1] * 2

    x = leaf(1.0)
    Sparse.apply(x)[1].backward()
    assert x.grad.tolist() == [2.0]


def test_needs_input_grad_of_ctx_shows_which_inputs_require_grad() -> None:
    x, weight = tensor.ones((1, 2)), tensor.ones((3, 2), requires_grad=True)
    Linear.apply(x, weight, None).sum().backward()
    assert Linear.needed == (False, True, False)
    assert weight.grad.tolist() == [[1.0, 1.0]] * 3


def test_gradient_none_leaves_grad_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    returning(monkeypatch, lambda grad: (None, grad * 2))
    x, y = leaf(1.0), leaf(1.0)
    Returning.apply(x, y).backward()
    assert x.grad is None
    assert y.grad.tolist() == [2.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_are_summed_and_cast_to_shape_and_dtype_of_their_argument(
    monkeypatch: pytest.MonkeyPatch, create_graph: bool
) -> None:
    returning(monkeypatch, lambda grad: (grad.expand(4, 2).to(tensor.float64), grad.to(tensor.int32)))
    x, y = leaf(1.0, 2.0), tensor.ones((1,), requires_grad=True)
    dx, dy = autograd.grad(Returning.apply(x, y).sum(), [x, y], create_graph=create_graph)
    assert (dx.dtype, dx.tolist()) == (tensor.float32, [4.0, 4.0])
    assert (dy.dtype, dy.tolist()) == (tensor.float32, [2.0])


def test_backward_ignores_gradients_of_tensors_that_do_not_require_grad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    returning(monkeypatch, lambda grad: (grad, grad))
    x, y = leaf(1.0), tensor.ones((5,))
    Returning.apply(x, y).backward()
    assert x.grad.tolist() == [1.0]
    assert not y.requires_grad


@pytest.mark.parametrize(
    ("of", "error", "message"),
    [
        (lambda g: g, RuntimeError, "returned 1 gradient, but forward takes 2 arguments"),
        (lambda g: None, RuntimeError, "returned 1 gradient, "),
        (lambda g: (g, None, g), RuntimeError, "returned 3 gradients, "),
        (
            lambda g: (g.sum(), None),
            ValueError,
            r"argument 0 \('x'\) has shape \(\), but the argument has \(2,\)",
        ),
        (lambda g: (g[None, :1], None), ValueError, r"has shape \(1, 1\), but the argument has \(2,\)"),
        (
            lambda g: (2.0, None),
            TypeError,
            r"Returning.backward: the gradient of argument 0 \('x'\) must be a tensor or None, not float",
        ),
        (lambda g: [g], RuntimeError, "returned 1 gradient, "),
        (lambda g: (g, g), TypeError, r"argument 1 \('y'\) is a tensor, but the argument is not a tensor"),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_wrong_gradients_raise_an_error_and_none_is_added(
    monkeypatch: pytest.MonkeyPatch, of: Any, error: type[Exception], message: str, create_graph: bool
) -> None:
    returning(monkeypatch, of)
    x, z = leaf(1.0, 2.0), leaf(1.0, 2.0)
    with pytest.raises(error, match=message):
        (Returning.apply(x, 4) * z).sum().backward(create_graph=create_graph)
    assert (x.grad, z.grad) == (None, None)


def test_a_disposed_gradient_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def disposed(grad: Tensor) -> Any:
        g = grad * 2
        g.dispose()
        return g, None

    returning(monkeypatch, disposed)
    with pytest.raises(TensorDisposedError):
        Returning.apply(leaf(1.0), 4).backward()


def test_more_gradients_than_arguments_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    returning(monkeypatch, lambda g: (g, None, None, None))
    x = leaf(1.0)
    Returning.apply(x, 4).backward()
    assert x.grad.tolist() == [1.0]


def test_writing_to_the_gradient_in_backward_changes_no_other_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    returning(monkeypatch, lambda g: (g.mul_(3), None))
    x, z = leaf(1.0), leaf(1.0)
    given = tensor.tensor([2.0])
    (Returning.apply(x, 4) + z).backward(given)
    assert (x.grad.tolist(), z.grad.tolist(), given.tolist()) == ([6.0], [2.0], [2.0])


def test_a_gradient_without_another_user_is_written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def scale(grad: Tensor) -> Any:
        with memory.measure() as measured:
            grad.mul_(3)
        taken.append(measured.allocated_bytes)
        return grad, None

    returning(monkeypatch, scale)
    x = tensor.ones((2**18,), requires_grad=True)
    (Returning.apply(x, 4) * 2).sum().backward()
    assert taken == [0]
    assert x.grad.numpy()[0] == 6


def test_a_tensor_that_is_kept_and_returned_as_gradient_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = tensor.tensor([7.0])
    returning(monkeypatch, lambda g: (kept, kept))
    x = leaf(1.0)
    for _ in range(2):
        (Returning.apply(x, x) + x).backward()
    assert x.grad.tolist() == [30.0]
    assert kept.tolist() == [7.0]


def test_backward_is_recorded_with_create_graph_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(grad: Tensor) -> Any:
        seen.append((tensor.is_grad_enabled(), grad.requires_grad))
        return grad, None

    returning(monkeypatch, look)
    x = leaf(1.0)
    y = Returning.apply(x, 4) * x
    y.backward(retain_graph=True)
    y.backward(create_graph=True)
    assert seen == [(False, False), (True, True)]
    x.grad = None


def test_backward_may_run_a_backward_of_its_own() -> None:
    class Inner(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            with tensor.enable_grad():
                again = x.detach().requires_grad_()
                return autograd.grad(again.sin(), again, grad)[0]

    assert autograd.gradcheck(Inner.apply, doubles(3))


@pytest.mark.parametrize(
    ("function", "expected"), [(Exp.apply, np.exp([1, 2])), (lambda x: Multiply.apply(x, x), [2, 4])]
)
def test_writes_after_saving_do_not_change_saved_tensors(function: Any, expected: Any) -> None:
    x = leaf(1.0, 2.0)
    y = function(x)
    with tensor.no_grad():
        x.fill_(100.0)
        y.detach().fill_(100.0)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_an_argument_that_is_saved_and_returned_unchanged_has_its_own_history() -> None:
    class Odd(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * 10

    x = leaf(3.0)
    (dx,) = autograd.grad(Odd.apply(x), x, create_graph=True)
    assert autograd.grad(dx, x)[0].tolist() == [10.0]


def test_an_output_that_two_nodes_stand_for_has_the_gradients_of_both() -> None:
    x = doubles(3)
    y = Exp.apply(x)
    (applied,) = y.grad_fn.next
    # As another thread leaves it that asks for the output at the same time.
    applied.outputs[0] = None
    (dx,) = autograd.grad(y.sum(), x, create_graph=True)
    (dx + y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(x.detach().numpy()))


def test_a_disposed_tensor_is_not_saved() -> None:
    class Late(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x * 2
            y.dispose()
            ctx.save_for_backward(y)
            return x

    with pytest.raises(TensorDisposedError):
        Late.apply(leaf(1.0))


def test_saved_values_outlive_their_tensors_and_their_scope() -> None:
    class Scoped(Multiply):
        @staticmethod
        @disposing
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.factor = 1
            ctx.save_for_backward(x.clone(), y.clone())
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return Multiply.backward(ctx, grad)[:2]

    x = leaf(3.0)
    with new_dispose_scope() as scope:
        y = leaf(4.0)
        z = scope.detach(Scoped.apply(x, y))
    z.backward()
    assert y.is_invalid
    assert x.grad.tolist() == [4.0]


def test_a_second_backward_needs_a_retained_graph() -> None:
    x = leaf(0.0)
    y = Exp.apply(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [2.0]
    with pytest.raises(RuntimeError, match="ExpBackward: backward through a graph whose saved values"):
        y.backward()


def test_saved_values_are_freed_by_backward() -> None:
    x = tensor.ones((1000,), requires_grad=True)
    y = Multiply.apply(x * 2, x * 3)
    before = bytes_live()
    y.sum().backward()
    assert bytes_live() - before == x.grad.numpy().nbytes - 2 * x.detach().numpy().nbytes


def test_saved_tensors_are_read_in_backward_only() -> None:
    kept = []

    class Early(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            kept.append(ctx)
            with pytest.raises(RuntimeError, match="is for backward"):
                _ = ctx.saved_tensors
            return Exp.forward(ctx, x)

    y = Early.apply(leaf(0.0))
    assert kept[0].saved_tensors[0].tolist() == [1.0]
    del y
    with pytest.raises(RuntimeError, match="its graph is gone"):
        _ = kept[0].saved_tensors
    Early.apply(tensor.ones((1,)))
    with pytest.raises(RuntimeError, match="it is not recorded"):
        _ = kept[1].saved_tensors


@pytest.mark.parametrize(
    "call",
    [
        lambda ctx: ctx.save_for_backward(),
        lambda ctx: ctx.mark_dirty(),
        lambda ctx: ctx.mark_non_differentiable(),
        lambda ctx: ctx.set_materialize_grads(True),
    ],
)
def test_ctx_takes_no_setting_after_forward(monkeypatch: pytest.MonkeyPatch, call: Any) -> None:
    class Late(Exp):
        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            call(ctx)

    with pytest.raises(RuntimeError, match=r"Late: call ctx.\w+\(\) in forward or setup_context"):
        Late.apply(leaf(1.0)).backward()


@pytest.mark.parametrize("method", ["save_for_backward", "mark_dirty", "mark_non_differentiable"])
def test_ctx_takes_tensors_and_says_where_other_values_go(method: str) -> None:
    class Wrong(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            getattr(ctx, method)(x, 3)
            return x

    with pytest.raises(TypeError, match=f"Wrong: {method} takes tensors, not int.*ctx.n = n"):
        Wrong.apply(leaf(1.0))


def test_any_other_attribute_may_be_set_on_ctx() -> None:
    class Named(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.shape, ctx.dtype, ctx.next, ctx.saved, ctx.name = x.shape, x.dtype, 1, 2, "a name"
            return Exp.forward(ctx, x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            assert (ctx.shape, ctx.dtype) == ((1,), tensor.float32)
            assert (ctx.next, ctx.saved, ctx.name) == (1, 2, "a name")
            return Exp.backward(ctx, grad)

    x = leaf(0.0)
    Named.apply(x).backward()
    assert x.grad.tolist() == [1.0]


def test_a_function_that_writes_to_its_argument_leaves_its_gradient_retained():
    class Triple(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = tensor.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    Triple.apply(y)
    (y * y).sum().backward()
    assert y.grad.tolist() == [12.0, 24.0]
    assert x.grad.tolist() == [72.0, 144.0]
