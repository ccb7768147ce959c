"""Hooks on tensors: what they see, what they may return, what is left of them."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, TensorDisposedError, autograd
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing

SIDE = 128
BLOCK = SIDE * SIDE * 4


def block(requires_grad: bool = True) -> Tensor:
    return tensor.ones((SIDE, SIDE), requires_grad=requires_grad)


def test_hooks_are_called_once_with_all_of_the_gradient_in_the_order_of_registration():
    x = leaf(1.0, 2.0)
    seen = []
    x.register_hook(lambda g: seen.append(("first", g.tolist())))
    x.register_hook(lambda g: seen.append(("second", g.tolist())))
    (x * 2 + x * x).sum().backward()
    assert seen == [("first", [4.0, 6.0]), ("second", [4.0, 6.0])]


def test_the_result_of_a_hook_is_passed_to_the_next_and_to_the_inputs():
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert seen == [[2.0, 2.0]]
    assert x.grad.tolist() == [9.0, 9.0]


def test_hooks_of_a_leaf_see_the_gradient_that_is_added():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 10)
    (x * 2).backward()
    (x * 3).backward()
    assert x.grad.tolist() == [50.0]


def test_hooks_are_called_for_autograd_grad_too():
    x = leaf(1.0)
    y = x * 2
    x.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g * 7)
    dx, dy = autograd.grad(y * y, [x, y])
    assert (dx.tolist(), dy.tolist()) == ([4 * 7 * 2 * 10.0], [4 * 7.0])
    assert x.grad is None


def test_hooks_of_tensors_without_a_gradient_are_not_called():
    x, w = leaf(1.0), leaf(2.0)
    w.register_hook(lambda g: pytest.fail("there is none"))
    unused = (x * w).exp()
    unused.register_hook(lambda g: pytest.fail("there is none"))
    (x * 2).backward()


def test_a_hook_of_an_output_sees_the_gradient_that_backward_is_given():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.backward(tensor.tensor([3.0, 4.0]))
    assert seen == [[3.0, 4.0]]


def test_a_removed_hook_is_no_longer_called():
    x = leaf(1.0)
    y = x * 1
    seen = []
    handle = y.register_hook(lambda g: seen.append("removed"))
    with y.register_hook(lambda g: seen.append("in the block")):
        y.backward(retain_graph=True)
    handle.remove()
    handle.remove()
    y.backward()
    assert seen == ["removed", "in the block"]


def test_hooks_added_or_removed_during_a_call_count_from_the_next_call_on():
    x = leaf(1.0)
    seen = []

    def change(g):
        seen.append("change")
        later.remove()
        own.remove()
        x.register_hook(lambda g: seen.append("new"))

    own = x.register_hook(change)
    later = x.register_hook(lambda g: seen.append("later"))
    (x * 1).backward()
    assert seen == ["change", "later"]
    (x * 1).backward()
    assert seen == ["change", "later", "new"]


def test_a_handle_keeps_neither_tensor_nor_graph(window):
    x = leaf(1.0)
    handle = (x * 2).register_hook(lambda g: None)
    kept = x.register_hook(lambda g: None)
    del x
    assert window().live_count == 0
    handle.remove()
    kept.remove()


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (3.0, TypeError, "a tensor as the new gradient, not float"),
        (np.ones(2, np.float32), TypeError, "not ndarray"),
        (tensor.ones((3,)), ValueError, r"float32\[3\], but the tensor is float32\[2\]"),
        (tensor.ones((2, 1)), ValueError, r"float32\[2, 1\]"),
        (tensor.ones((2,), dtype="float64"), ValueError, r"float64\[2\]"),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_an_invalid_result_of_a_hook_raises_and_changes_no_gradient(given, kind, message, create_graph):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 2
    y.register_hook(lambda g: given)
    with pytest.raises(kind, match=message):
        (y * w).sum().backward(create_graph=create_graph)
    assert (x.grad, w.grad) == (None, None)


def test_a_disposed_tensor_from_a_hook_is_an_error_that_says_why():
    x = leaf(1.0, 2.0)

    def scaled(g):
        with new_dispose_scope("hook"):
            return g * 2

    x.register_hook(scaled)
    with pytest.raises(TensorDisposedError, match="its dispose scope 'hook' ended"):
        (x * 2).sum().backward()
    assert x.grad is None


def test_disposing_the_gradient_in_a_hook_is_an_error_that_says_so():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g.dispose())
    with pytest.raises(TensorDisposedError, match="disposed by dispose"):
        (x * 2).sum().backward()
    assert x.grad is None


def test_an_error_in_a_hook_changes_no_gradient_and_leaves_nothing():
    x, w = block(), block()
    (x * w).sum().backward()
    start = bytes_live()

    def fail(g):
        raise KeyError

    y = x * 2
    handle = y.register_hook(fail)
    with suppress(KeyError):
        (y * w).sum().backward()
    del y
    assert (x.grad.sum().item(), w.grad.sum().item()) == (SIDE * SIDE, SIDE * SIDE)
    assert bytes_live() == start
    handle.remove()


def test_only_functions_are_hooks_and_only_on_tensors_that_require_grad():
    x = leaf(1.0)
    for register in (x.register_hook, x.register_post_accumulate_grad_hook):
        with pytest.raises(TypeError, match="a hook must be a function, not int"):
            register(3)
    constant = tensor.ones((1,))
    for use in (
        lambda: constant.register_hook(print),
        lambda: constant.register_post_accumulate_grad_hook(print),
        constant.retain_grad,
    ):
        with pytest.raises(RuntimeError, match="requires_grad=True"):
            use()
    with pytest.raises(RuntimeError, match="was computed: use register_hook"):
        (x * 2).register_post_accumulate_grad_hook(print)
    x.dispose()
    with pytest.raises(TensorDisposedError):
        x.register_hook(print)


def column(*values: float) -> Tensor:
    return tensor.tensor([[v] for v in values], requires_grad=True)


# What gradients come as: an array for two, a broadcast view, a turned view, the user's own, a slice.
SHARED = {
    "sum of two": lambda x, w: x + w,
    "expanded": lambda x, w: (x + w).sum(),
    "turned": lambda x, w: x.T + w.T,
    "stacked": lambda x, w: tensor.stack([x, w]),
    "product": lambda x, w: x * w,
}


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("on_leaf", [False, True])
def test_a_write_to_the_gradient_in_a_hook_reaches_only_the_nodes_after_it(kind, create_graph, on_leaf):
    x, w = column(1.0, 2.0), column(3.0, 4.0)
    y = x if on_leaf else x * 1
    y.register_hook(lambda g: g.mul_(10).sum().item() and None)
    out = SHARED[kind](y, w)
    given = tensor.ones(out.shape)
    out.backward(given, create_graph=create_graph)
    plain_x, plain_w = column(1.0, 2.0), column(3.0, 4.0)
    expected_x, expected_w = autograd.grad(SHARED[kind](plain_x, plain_w), [plain_x, plain_w], given)
    assert w.grad.tolist() == expected_w.tolist()
    assert given.tolist() == tensor.ones(given.shape).tolist()
    assert x.grad.tolist() == (expected_x * 10).tolist()


@pytest.mark.parametrize("kind", SHARED)
def test_a_gradient_that_a_hook_keeps_does_not_change(kind):
    x, w = column(1.0, 2.0), column(3.0, 4.0)
    kept = []
    y = x * 2
    y.register_hook(kept.append)
    x.register_hook(kept.append)
    out = SHARED[kind](y, w)
    for _ in range(2):
        out.backward(tensor.ones(out.shape), retain_graph=True)
    x.grad.add_(100)
    w.grad.add_(100)
    (dy,) = autograd.grad(out, y, tensor.ones(out.shape))
    assert [g.tolist() for g in kept[:4]] == [dy.tolist(), (dy * 2).tolist()] * 2
    kept[0].zero_()
    assert kept[2].tolist() == dy.tolist()


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_hooks_keep_are_freed_with_the_last_reference(kind, create_graph):
    def use() -> None:
        kept: list[Tensor] = []
        x, w = block(), block()
        y = x * 2
        y.register_hook(kept.append)
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
        w.register_hook(kept.append)
        out = SHARED[kind](y, w)
        out.backward(tensor.ones(out.shape), create_graph=create_graph)
        del x, w, y, out
        assert len(kept) == 2
        kept.clear()  # with history they would hold the graph, which holds its hooks

    use()
    with leaving_nothing():
        use()


def test_the_current_scope_owns_the_arguments_of_a_hook_but_not_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    kept = []
    for z in (x, y):
        z.register_hook(kept.append)
    with new_dispose_scope() as scope:
        y.sum().backward()
        assert all(g in scope for g in kept)
        assert x.grad not in scope
        assert y.grad not in scope
    assert all(g.is_invalid for g in kept)
    assert (x.grad.tolist(), y.grad.tolist()) == ([2.0, 2.0], [1.0, 1.0])


def test_a_hook_records_nothing_unless_backward_is_recorded():
    x = leaf(2.0)
    seen = []
    x.register_hook(lambda g: seen.append((g.requires_grad, (x * 2).requires_grad)))
    (x * x).backward()
    (x * x).backward(create_graph=True)
    assert seen == [(False, False), (True, True)]
    x.grad = None


def test_results_of_a_hook_have_a_derivative_when_backward_is_recorded():
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (dx,) = autograd.grad(y, x, create_graph=True)  # x * 2x
    assert dx.tolist() == [18.0]
    assert autograd.grad(dx, x)[0].tolist() == [12.0]


def test_a_hook_may_run_backward_of_another_graph():
    x, w = leaf(2.0), leaf(5.0)
    y, inner = x * 3, w * w
    y.register_hook(lambda g: inner.backward(g))
    y.backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([3.0], [10.0])


def test_a_hook_stays_with_the_value_that_a_write_replaces():
    x = leaf(1.0)
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(5)
    y.backward()
    assert seen == [[5.0]]


def test_garbage_collector_frees_tensors_whose_hooks_refer_to_them():
    def make() -> list[weakref.ref[Tensor]]:
        x = block()
        y = x * 2
        y.register_hook(lambda g: y * g)
        x.register_hook(lambda g: x * g)
        y.sum().backward()
        return [weakref.ref(x), weakref.ref(y)]

    gc.collect()
    start = bytes_live()
    gone = make()
    gc.collect()
    assert [r() for r in gone] == [None, None]
    assert bytes_live() == start


def test_after_accumulation_a_leafs_hooks_have_its_gradient_in_order():
    x = leaf(1.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(("after", leaf is x, leaf.grad.tolist())))
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.mul_(100))
    x.register_hook(lambda g: seen.append(("before", g.tolist())))
    for _ in range(2):
        (x * 3).backward()
    assert seen == [("before", [3.0]), ("after", True, [3.0]), ("before", [3.0]), ("after", True, [303.0])]
    assert x.grad.tolist() == [30300.0]


def test_autograd_grad_accumulates_nothing_and_calls_no_hook_for_it():
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda leaf: pytest.fail("nothing was accumulated"))
    assert autograd.grad(x * 3, x)[0].tolist() == [3.0]


def test_hooks_of_parameters_see_training():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    norms = {}
    for name, p in model.named_parameters():
        p.register_hook(lambda g, name=name: norms.update({name: g.square().sum().item()}))
    model(tensor.ones((2, 3))).sum().backward()
    assert norms == {name: p.grad.square().sum().item() for name, p in model.named_parameters()}


def test_hooks_of_a_leaf_are_removed_when_it_no_longer_requires_grad():
    x = leaf(1.0)
    x.register_hook(lambda g: pytest.fail("it is gone"))
    x.requires_grad_(False).requires_grad_()
    (x * 2).backward()
    assert x.grad.tolist() == [2.0]


def test_a_retained_gradient_is_by_the_values_that_were_written_last():
    x = tensor.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y[0].mul_(5)
    assert y.retains_grad
    (y * y).sum().backward()
    np.testing.assert_array_equal(y.grad.numpy(), 2 * y.detach().numpy())
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy() * [[30], [6]])


def test_a_retained_gradient_adds_up_over_calls_of_backward() -> None:
    x = tensor.tensor([1.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    loss = (y * y).sum()
    for times in (1, 2, 3):
        loss.backward(retain_graph=True)
        assert y.grad is not None
        assert y.grad.tolist() == [6.0 * times]
    y.grad = None
    loss.backward()
    assert y.grad.tolist() == [6.0]
