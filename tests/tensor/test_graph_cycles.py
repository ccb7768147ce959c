"""Tensors, nodes, gradients and modules make no cycle: nothing waits to be collected."""

from __future__ import annotations

from contextlib import suppress

import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, autograd
from tests.tensor.graphs import leaf, leaving_nothing


def use_backward() -> None:
    x = leaf(1.0, 2.0)
    (x * x).exp().sum().backward()
    (x * 2).sum().backward()


def use_grad() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    autograd.grad((y * y).sum(), [x, y])


def use_retained_graph() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x).exp().sum()
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)


def use_second_backward() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    loss.backward()
    with suppress(RuntimeError):
        loss.backward()


def use_writes() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.mul_(x).add_(y).sqrt_()
    y[0] = x[1]
    y += y.detach()
    y.sum().backward()


def use_views() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = (x * 2).reshape(2, 2)
    row, column, turned, alias = y[0], y[:, 0], y.T, y.alias()
    y.mul_(3)
    row.add_(x[:2])
    (row.sum() + column.sum() + turned.sum() + alias.expand(3, 2, 2).sum()).backward()


def use_views_of_leaves() -> None:
    x = leaf(1.0, 2.0)
    view, alias = x[:1], x.alias()
    with tensor.no_grad():
        view.add_(1)
    with suppress(RuntimeError):
        alias.add_(1)
    (view.sum() * alias).sum().backward()


def use_parameters() -> None:
    p = nn.Parameter(tensor.ones((3,)))
    q = nn.Parameter(p.detach() * 2)
    (p * q).sum().backward()
    p.grad = None
    q.requires_grad_(False)
    (p * q).sum().backward()


def use_gradient_of_ones_own() -> None:
    x = leaf(1.0, 2.0)
    x.grad = tensor.ones((2,))
    (x * x).sum().backward()
    x.grad = x.detach()
    x.grad = None


def use_gradient_with_history() -> None:
    x = leaf(1.0, 2.0)
    x.grad = x * 2


def use_module() -> None:
    model = nn.Sequential(
        nn.Embedding(5, 4), nn.LayerNorm(4), nn.Flatten(), nn.Linear(8, 4), nn.BatchNorm1d(4), nn.GELU()
    )
    optimizer = nn.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        out = model(tensor.tensor([[0, 1], [2, 3], [4, 4]]))
        nn.functional.cross_entropy(out, tensor.tensor([0, 1, 2])).backward()
        optimizer.step()


def use_module_hook() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())
    seen: list[Tensor] = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    model[1].register_forward_hook(lambda module, inputs, output: output.mul_(2))
    model(tensor.ones((1, 2))).sum().backward()


def use_state_dicts() -> None:
    model = nn.Linear(2, 2)
    model(tensor.ones((1, 2))).sum().backward()
    other = model.valid()
    model.load_state_dict(other.state_dict())


def use_scope() -> None:
    x = leaf(1.0, 2.0)
    with new_dispose_scope() as scope:
        kept = scope.detach((x * x).exp())
        (kept * x).sum().backward(retain_graph=True)
    kept.sum().backward()


def use_failing_forward() -> None:
    x = leaf(1.0, 2.0)
    with suppress(ValueError):
        (x * x).exp() @ tensor.ones((3, 3))


def use_failing_backward() -> None:
    x = leaf(1.0, 2.0)
    half = x.exp()
    half.sum().backward()
    with suppress(RuntimeError):
        ((x * 3).sum() + half.sum()).backward()


def use_disposed_leaf() -> None:
    x, w = leaf(1.0), leaf(2.0)
    loss = (x * w).sum()
    x.dispose()
    loss.backward()


def use_moved_handle() -> None:
    x = leaf(1.0)
    y = (x * 2).exp()
    z = Tensor.from_handle(y.move_handle())
    (z.requires_grad_() * x).sum().backward()


USES = {name.removeprefix("use_"): use for name, use in sorted(globals().items()) if name.startswith("use_")}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_tensors_and_nodes_make_no_cycle_in(use):
    use()  # what the first use of an op leaves, as its plan, is made now
    with leaving_nothing():
        use()
