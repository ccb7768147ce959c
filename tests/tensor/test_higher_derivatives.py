"""Derivatives of derivatives: backward that is itself recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from tensor import Tensor, autograd
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing


def double(*values: float) -> Tensor:
    return tensor.tensor(list(values), dtype="float64", requires_grad=True)


def derivatives(function: Callable[[Tensor], Tensor], x: Tensor, order: int) -> list[list[float]]:
    """Return the values of the elementwise `function` at `x`, and of its first `order` derivatives."""
    y = function(x)
    found = [y.tolist()]
    for _ in range(order):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.tolist())
    return found


X = 0.7
ELEMENTARY: dict[str, tuple[Callable[[Tensor], Tensor], list[float]]] = {
    "a polynomial": (
        lambda x: x * x * x * x - 2 * x * x * x + x,
        [X**4 - 2 * X**3 + X, 4 * X**3 - 6 * X**2 + 1, 12 * X**2 - 12 * X, 24 * X - 12, 24.0],
    ),
    "a power": (lambda x: x**5, [X**5, 5 * X**4, 20 * X**3, 60 * X**2, 120 * X, 120.0]),
    "exp": (tensor.exp, [math.exp(X)] * 6),
    "sin": (tensor.sin, [math.sin(X), math.cos(X), -math.sin(X), -math.cos(X), math.sin(X), math.cos(X)]),
    "cosh": (tensor.cosh, [math.cosh(X), math.sinh(X)] * 3),
    "log": (tensor.log, [math.log(X), 1 / X, -1 / X**2, 2 / X**3, -6 / X**4, 24 / X**5]),
    "reciprocal": (lambda x: 1 / x, [1 / X, -1 / X**2, 2 / X**3, -6 / X**4, 24 / X**5, -120 / X**6]),
    "sqrt": (
        tensor.sqrt,
        [X**0.5, X**-0.5 / 2, -(X**-1.5) / 4, 3 * X**-2.5 / 8, -15 * X**-3.5 / 16, 105 * X**-4.5 / 32],
    ),
    "a gaussian": (
        lambda x: (x * x * -0.5).exp(),
        [
            math.exp(-0.5 * X * X) * hermite
            for hermite in (
                1,
                -X,
                X**2 - 1,
                -(X**3) + 3 * X,
                X**4 - 6 * X**2 + 3,
                -(X**5) + 10 * X**3 - 15 * X,
            )
        ],
    ),
}


@pytest.mark.parametrize("name", ELEMENTARY)
def test_up_to_the_fifth_they_are_those_of_the_textbook(name):
    function, expected = ELEMENTARY[name]
    found = derivatives(function, double(X, X), len(expected) - 1)
    np.testing.assert_allclose(found, [[v, v] for v in expected], rtol=1e-12, atol=1e-12)


def test_a_polynomial_has_no_history_after_its_derivative_is_constant():
    x = double(2.0)
    (dx,) = autograd.grad(x * 3, x, create_graph=True)
    assert dx.tolist() == [3.0]
    assert not dx.requires_grad
    with pytest.raises(RuntimeError, match="no gradient history"):
        dx.backward()


def test_mixed_partial_derivatives_are_the_same_in_either_order():
    x, w = double(0.3, 0.8), double(1.5, 2.5)
    y = ((x * w).sin() * (x + w * w).exp() / w).sum()
    dx, dw = autograd.grad(y, [x, w], create_graph=True)
    (dxdw,) = autograd.grad(dx.sum(), w, retain_graph=True)
    (dwdx,) = autograd.grad(dw.sum(), x)
    np.testing.assert_allclose(dxdw.numpy(), dwdx.numpy(), rtol=1e-12)


def quadratic(seed: int, n: int) -> tuple[np.ndarray[Any, Any], Tensor]:
    """Return a symmetric matrix, and a point."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, n))
    return a + a.T, tensor.tensor(rng.standard_normal(n), requires_grad=True)


def test_a_hessian_times_a_vector_is_that_of_the_whole_hessian():
    a, x = quadratic(0, 6)
    v = np.random.default_rng(1).standard_normal(6)
    matrix = tensor.from_numpy(a)
    y = (x @ matrix @ x) * 0.5 + x.exp().sum()
    (dx,) = autograd.grad(y, x, create_graph=True)
    (product,) = autograd.grad(dx, x, tensor.from_numpy(v), retain_graph=True)
    rows = [autograd.grad(dx[i], x, retain_graph=True)[0].numpy() for i in range(6)]
    hessian = a + np.diag(np.exp(x.detach().numpy()))
    np.testing.assert_allclose(np.stack(rows), hessian, rtol=1e-12)
    np.testing.assert_allclose(product.numpy(), hessian @ v, rtol=1e-12)


def test_a_step_of_newton_finds_the_minimum_of_a_quadratic():
    a, x = quadratic(2, 5)
    a = a @ a + np.eye(5)
    goal = tensor.tensor(np.arange(5.0))
    d = x - goal
    (dx,) = autograd.grad(d @ tensor.from_numpy(a) @ d, x, create_graph=True)
    hessian = tensor.stack([autograd.grad(g, x, retain_graph=True)[0] for g in dx])
    step = np.linalg.solve(hessian.numpy(), dx.detach().numpy())
    np.testing.assert_allclose(x.detach().numpy() - step, np.arange(5.0), atol=1e-9)


def test_the_gradient_that_is_given_has_derivatives_too():
    x, v = double(1.0, 2.0), double(3.0, 4.0)
    (dx,) = autograd.grad((x * x * x), x, v, create_graph=True)
    dx_of, dv_of = autograd.grad(dx.sum(), [x, v])
    assert dx_of.tolist() == [6 * 1 * 3.0, 6 * 2 * 4.0]
    assert dv_of.tolist() == [3.0, 12.0]


def test_the_directional_derivative_by_two_backward_passes():
    x = double(0.4, 0.9)
    v = tensor.tensor([2.0, -1.0], dtype="float64")
    y = (x * x).sin()
    u = tensor.ones((2,), dtype="float64", requires_grad=True)
    (vjp,) = autograd.grad(y, x, u, create_graph=True)
    (jvp,) = autograd.grad(vjp, u, v)
    values = x.detach().numpy()
    np.testing.assert_allclose(jvp.numpy(), 2 * values * np.cos(values**2) * v.numpy(), rtol=1e-12)


def written_in_place(x: Tensor) -> Tensor:
    y = x * 1
    y.mul_(x).exp_()
    y[0] = x[1] * y[1]
    y[1:] *= 3
    return y


def through_views(x: Tensor) -> Tensor:
    grid = (x * x).reshape(1, 3).expand(2, 3)
    return grid.T[1:].exp() @ grid[:, :1] + grid.sum(dim=1)[0]


def indexed(x: Tensor) -> Tensor:
    chosen = x[tensor.tensor([0, 2, 2, 1])]
    return (chosen * chosen * chosen)[tensor.tensor([True, False, True, True])]


def joined(x: Tensor) -> Tensor:
    parts = tensor.concat([x * x, tensor.stack([x[0].exp(), x[2].sin()])])
    return tensor.where(parts > 1, parts * parts, parts.sqrt())


def sorted_and_scanned(x: Tensor) -> Tensor:
    return tensor.cumulative_sum((x * x).sort()[0], axis=0) * tensor.max(x)


HISTORIES = [written_in_place, through_views, indexed, joined, sorted_and_scanned]


@pytest.mark.parametrize("function", HISTORIES)
def test_the_history_may_hold_writes_views_and_indices(function):
    x = double(0.5, 1.25, 0.75)
    assert autograd.gradcheck(function, [x])
    assert autograd.gradgradcheck(function, [x])


@pytest.mark.parametrize("function", HISTORIES)
def test_third_derivatives_of_such_are_differences_of_second_ones(function):
    def second(values: np.ndarray[Any, Any]) -> tuple[Tensor, Tensor]:
        x = tensor.tensor(values, requires_grad=True)
        (dx,) = autograd.grad((function(x) ** 2).sum(), x, create_graph=True)
        (ddx,) = autograd.grad((dx * weights).sum(), x, create_graph=True)
        return x, ddx

    weights = tensor.tensor([0.3, -0.7, 1.1], dtype="float64")
    at, direction = np.array([0.5, 1.25, 0.75]), np.array([1.0, -0.5, 0.25])
    x, ddx = second(at)
    (third,) = autograd.grad((ddx * tensor.tensor([1.0, 2.0, 3.0], dtype="float64")).sum(), x)
    ahead, behind = (second(at + sign * 1e-5 * direction)[1].detach().numpy() for sign in (1, -1))
    numeric = (ahead - behind) @ np.array([1.0, 2.0, 3.0]) / 2e-5
    np.testing.assert_allclose(third.numpy() @ direction, numeric, rtol=1e-6, atol=1e-5)


def test_an_embedding_has_second_derivatives():
    weight = tensor.tensor(np.linspace(0.1, 1.2, 12).reshape(4, 3), requires_grad=True)
    places = tensor.tensor([[0, 2], [2, 3]])
    assert autograd.gradgradcheck(lambda w: F.embedding(places, w).exp().sum(dim=1), [weight])


def test_a_write_to_a_leaf_after_the_first_derivative_does_not_show_in_the_second():
    x = double(2.0, 3.0)
    (dx,) = autograd.grad((x * x * x).sum(), x, create_graph=True)
    with tensor.no_grad():
        x.zero_()
    (ddx,) = autograd.grad(dx.sum(), x)
    assert ddx.tolist() == [12.0, 18.0]


def test_tensors_that_are_disposed_in_between_are_not_missed():
    x = double(2.0, 3.0)
    y = x * x
    z = y * x
    total = z.sum()
    (dx,) = autograd.grad(total, x, create_graph=True)
    for used in (y, z, total):
        used.dispose()
    assert autograd.grad(dx.sum(), x)[0].tolist() == [12.0, 18.0]


def critic() -> nn.Sequential:
    tensor.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 16),
        nn.LayerNorm(16),
        nn.GELU(),
        nn.Linear(16, 16),
        nn.LayerNorm(16),
        nn.GELU(),
        nn.Linear(16, 1),
    )


def with_penalty(model: nn.Module, real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of a critic whose slope is to be 1 (Gulrajani et al., 2017), and how far it is off."""
    mix = tensor.rand(real.shape[0], 1)
    between = (real * mix + fake * (1 - mix)).requires_grad_()
    (slope,) = autograd.grad(model(between).sum(), between, create_graph=True)
    penalty = ((slope.square().sum(dim=1) + 1e-12).sqrt() - 1).square().mean()
    return model(fake).mean() - model(real).mean() + 10 * penalty, penalty


def test_training_with_a_gradient_penalty_holds_the_slope_near_one_and_leaves_nothing(window):
    rng = np.random.default_rng(0)
    model = critic()
    optimizer = nn.optim.Adam(model.parameters(), 0.01)
    penalties, figures = [], set()
    for step in range(60):
        real = tensor.tensor(rng.standard_normal((32, 2)).astype("float32") + 2)
        fake = tensor.tensor(rng.standard_normal((32, 2)).astype("float32") - 2)
        optimizer.zero_grad()
        loss, penalty = with_penalty(model, real, fake)
        loss.backward()
        optimizer.step()
        penalties.append(penalty.item())
        if step:
            figures.add((window().live_count, bytes_live()))
    assert np.mean(penalties[-10:]) < 0.3 * np.mean(penalties[:3])
    assert model(real).mean().item() > model(fake).mean().item() + 1
    assert len(figures) == 1


def test_a_step_through_an_update_has_gradients_of_all_that_the_update_depends_on():
    w, rate = double(3.0), double(0.1)
    (dw,) = autograd.grad(w * w, w, create_graph=True)
    moved = w - rate * dw
    dw_of, rate_of = autograd.grad(moved * moved, [w, rate])
    # moved = w (1 - 2 rate); its square by w, and by rate
    np.testing.assert_allclose(dw_of.numpy(), [2 * 3.0 * 0.8**2], rtol=1e-12)
    np.testing.assert_allclose(rate_of.numpy(), [-4 * 3.0**2 * 0.8], rtol=1e-12)


def test_graphs_of_graphs_leave_no_memory_and_no_cycle():
    def use() -> None:
        x = tensor.full((64, 64), 0.5, requires_grad=True)
        y = (F.layer_norm(x @ x, (64,)).tanh() * x).sum()
        for _ in range(3):
            (dx,) = autograd.grad(y, x, create_graph=True)
            y = (dx * dx).sum()
        y.backward()

    use()
    with leaving_nothing():
        use()


def test_the_memory_of_a_second_derivative_is_freed_with_its_result():
    x = tensor.full((64, 64), 0.5, requires_grad=True)
    y = x.exp().sin().sum()
    start = bytes_live()
    (dx,) = autograd.grad(y, x, create_graph=True)
    assert bytes_live() > start + dx.nbytes
    del dx
    assert bytes_live() == start
    (dx,) = autograd.grad(y, x, create_graph=True)
    (ddx,) = autograd.grad(dx.sum(), x)
    del dx
    ddx.dispose()
    assert bytes_live() <= start


def test_without_retain_graph_values_shared_with_the_graph_are_freed():
    x = double(2.0)
    y = x * x
    (dx,) = autograd.grad(y, x, create_graph=True, retain_graph=False)
    assert autograd.grad(dx, x)[0].tolist() == [2.0]  # of the leaf alone
    z = x * x * x
    (dx,) = autograd.grad(z, x, create_graph=True, retain_graph=False)
    for used in (y, z, dx):
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            used.backward()
    assert x.grad is None


def normalised_rows(x: Any, weight: Any, bias: Any) -> Any:
    """Return what layer_norm does by single ops: the third derivative of PyTorch's own is another one."""
    d = x - x.mean(1, keepdim=True)
    return d / ((d * d).mean(1, keepdim=True) + 1e-5).sqrt() * weight + bias


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "product of matrices": (lambda x, w: (x @ w).tanh(), lambda torch, x, w: (x @ w).tanh()),
    "softmax": (lambda x, w: F.softmax(x * w, 1), lambda torch, x, w: torch.softmax(x * w, 1)),
    "log_softmax": (lambda x, w: F.log_softmax(x * w, 1), lambda torch, x, w: torch.log_softmax(x * w, 1)),
    "layer_norm": (
        lambda x, w: F.layer_norm(x, (3,), w[0], w[1]),
        lambda torch, x, w: normalised_rows(x, w[0], w[1]),
    ),
    "gelu": (lambda x, w: F.gelu(x * w), lambda torch, x, w: torch.nn.functional.gelu(x * w)),
    "silu": (lambda x, w: F.silu(x * w), lambda torch, x, w: torch.nn.functional.silu(x * w)),
    "pow": (lambda x, w: (x * x + 0.1) ** w, lambda torch, x, w: (x * x + 0.1) ** w),
    "atan2 and hypot": (
        lambda x, w: tensor.atan2(x, w) * tensor.hypot(x, w),
        lambda torch, x, w: torch.atan2(x, w) * torch.hypot(x, w),
    ),
    "var and mean": (
        lambda x, w: x.var(dim=1) / (w * w).mean(),
        lambda torch, x, w: x.var(dim=1) / (w * w).mean(),
    ),
    "logsumexp": (
        lambda x, w: tensor.logaddexp(x, w) + (x * w).exp().sum(dim=1, keepdim=True).log(),
        lambda torch, x, w: torch.logaddexp(x, w) + torch.logsumexp(x * w, 1, keepdim=True),
    ),
    "prod": (lambda x, w: (x * w + 1).prod(dim=1), lambda torch, x, w: (x * w + 1).prod(dim=1)),
    "cumsum and clamp": (
        lambda x, w: tensor.cumulative_sum(tensor.clip(x * w, -0.5, 0.5), axis=1) ** 3,
        lambda torch, x, w: torch.cumsum((x * w).clamp(-0.5, 0.5), 1) ** 3,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_first_three_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    ours, theirs = FUNCTIONS[name]
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(-1, 1, (3, 3)) for _ in range(2)]
    found = []
    for grad, leaves, function in (
        (autograd.grad, [tensor.tensor(a, requires_grad=True) for a in arrays], ours),
        (
            torch.autograd.grad,
            [torch.tensor(a, requires_grad=True) for a in arrays],
            lambda x, w: theirs(torch, x, w),
        ),
    ):
        y = (function(*leaves) ** 2).sum()
        values = []
        for _ in range(3):
            gradients = grad(y, leaves, create_graph=True)
            values += [np.array(g.detach().numpy()) for g in gradients]
            y = sum((g * (g + 0.5)).sum() for g in gradients)
        found.append(values)
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8)


def test_backward_with_create_graph_is_the_same_as_autograd_grad():
    x, w = leaf(1.0, 2.0), leaf(0.5, 0.25)
    y = ((x * w).exp() * x).sum()
    dx, dw = autograd.grad(y, [x, w], create_graph=True)
    (dx * dw).sum().backward(retain_graph=True)
    expected = x.grad.tolist(), w.grad.tolist()
    x.grad = w.grad = None
    y.backward(create_graph=True)
    product = (x.grad * w.grad).sum()
    x.grad = w.grad = None
    product.backward()
    assert (x.grad.tolist(), w.grad.tolist()) == expected


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 3, 1), (2, 2), (0, 2)])
def test_second_derivatives_of_diagonals_of_any_length(shape):
    x = tensor.full(shape, 2.0, dtype="float64", requires_grad=True)
    (first,) = autograd.grad((x.diagonal() ** 3).sum(), x, create_graph=True)
    (second,) = autograd.grad(first.sum(), x)
    expected = np.zeros(shape)
    for i in range(min(shape[:2])):
        expected[i, i] = 12.0
    assert second.tolist() == expected.tolist()
