"""Gradients as memory: whose they are, who shares them, and when they go."""

from __future__ import annotations

import threading

import pytest

import tensor
from nn.optim import SGD  # Here, since free-threaded Pythons leave a module's code to the collector.
from scopes import new_dispose_scope
from tensor import Tensor, autograd, memory
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing
from tests.threads import run_at_once

SIDE = 128
BLOCK = SIDE * SIDE * 4


def block() -> Tensor:
    return tensor.ones((SIDE, SIDE), requires_grad=True)


def test_a_gradient_is_freed_when_its_tensor_is_dropped_disposed_zeroed_or_no_longer_requires_grad():
    endings = {
        "zero_grad": lambda x: SGD([x], lr=0.1).zero_grad(),
        "grad = None": lambda x: setattr(x, "grad", None),
        "requires_grad_(False)": lambda x: x.requires_grad_(False),
    }
    with leaving_nothing():
        for end in endings.values():
            x = block()
            start = bytes_live()
            (x * 2).sum().backward()
            assert bytes_live() == start + BLOCK
            end(x)
            assert x.grad is None
            assert bytes_live() == start
            (x.requires_grad_() * 2).sum().backward()
            x.dispose()
            assert bytes_live() == start - BLOCK
            x = block()
            (x * 2).sum().backward()
            del x
            assert bytes_live() == start - BLOCK


def test_gradients_of_one_array_are_one_block_until_one_is_written():
    with leaving_nothing():
        a, b, c = block(), block(), block()
        start = bytes_live()
        (a + b + c).backward(tensor.ones((SIDE, SIDE)))
        assert bytes_live() == start + BLOCK
        b.grad.mul_(2)
        assert bytes_live() == start + 2 * BLOCK
        assert [x.grad[0, 0].item() for x in (a, b, c)] == [1.0, 2.0, 1.0]
        a.grad = None
        c.grad.add_(1)
        assert bytes_live() == start + 2 * BLOCK
        del a, b, c


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_autograd_grad_returns_are_apart_on_write(create_graph):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    given = tensor.ones((2,))
    y = x + w
    dx, dw, dy = autograd.grad(y, [x, w, y], given, create_graph=create_graph)
    dx.mul_(2)
    dy.mul_(5)
    assert [g.tolist() for g in (dx, dw, dy, given)] == [[2.0, 2.0], [1.0, 1.0], [5.0, 5.0], [1.0, 1.0]]
    dw.dispose()
    assert given.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    "use", [lambda x: x + 0, lambda x: x, lambda x: x.T, lambda x: x[None], lambda x: x * 2]
)
def test_the_gradient_that_the_user_passes_is_never_written_or_kept(use, create_graph):
    x = block()
    given = tensor.ones(use(x).shape)
    for _ in range(2):
        use(x).backward(given, create_graph=create_graph)
    x.grad.mul_(3)
    assert (given.max().item(), given.min().item()) == (1.0, 1.0)
    expected = x.grad.tolist()
    given.zero_()
    assert x.grad.tolist() == expected
    x.grad = None


def test_gradients_add_up_in_the_memory_that_they_have():
    x = block()
    (x * 2).sum().backward()
    grad, view = x.grad, x.grad.numpy()
    for _ in range(3):
        (x * 2).sum().backward()
        assert x.grad is grad
    assert view[0, 0] == 8.0  # who shares the memory sees it grow


def test_gradients_add_up_in_other_memory_where_somebody_looks_at_their_values():
    x = block()
    (x * 2).sum().backward()
    clone = x.grad.clone()
    w = block()
    y = x.grad * w  # whose node has saved it
    (x * 2).sum().backward()
    assert (clone[0, 0].item(), x.grad[0, 0].item()) == (2.0, 4.0)
    assert autograd.grad(y.sum(), w)[0][0, 0].item() == 2.0


def test_no_step_takes_memory_for_a_gradient_that_is_there():
    x, w = block(), block()
    (x * w).sum().backward()
    start = bytes_live()
    for _ in range(3):
        with memory.measure() as during:
            (x * w).sum().backward()
        assert during.live_bytes_change == 0
        assert during.peak_bytes <= start + 3 * BLOCK


@pytest.mark.parametrize("hooks", [False, True])
def test_threads_that_share_a_leaf_lose_no_gradient(hooks):
    def work() -> None:
        for _ in range(steps):
            (x * 1).sum().backward()

    steps, count = 25, 4
    x = tensor.zeros((200_000,), requires_grad=True)
    if hooks:
        x.register_post_accumulate_grad_hook(lambda x: None)
    run_at_once(threading.Thread(target=work) for _ in range(count))
    assert set(x.grad.numpy()) == {steps * count}


def test_backward_adds_to_a_gradient_that_the_user_assigned():
    x = leaf(1.0)
    mine = tensor.ones((1,))
    with new_dispose_scope():
        x.grad = mine
    (x * 2).backward()
    assert x.grad is mine
    assert mine.tolist() == [3.0]


def test_a_disposed_gradient_is_created_again():
    x = leaf(1.0)
    (x * 2).backward()
    x.grad.dispose()
    (x * 3).backward()
    assert x.grad.tolist() == [3.0]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_gradients_with_and_without_history_add_up(first, second):
    def use() -> None:
        x = leaf(2.0, 3.0)
        (x * x * x).sum().backward(create_graph=first)
        (x * x).sum().backward(create_graph=second)
        assert x.grad.tolist() == [12 + 4.0, 27 + 6.0]
        assert x.grad.requires_grad == second
        if second:
            (ddx,) = autograd.grad(x.grad.sum(), x)
            assert ddx.tolist() == ([12 + 2.0, 18 + 2.0] if first else [2.0, 2.0])

    use()
    with leaving_nothing():
        use()


def test_backward_with_create_graph_makes_no_cycle():
    def use() -> None:
        x, w = block(), block()
        y = ((x * w).exp() * 0.1).sum()
        y.backward(create_graph=True)
        penalty = (x.grad * x.grad).sum() + w.grad.sum()
        penalty.backward(create_graph=True)
        y.backward(create_graph=True)

    use()
    with leaving_nothing():
        use()


def test_a_leaf_that_is_disposed_drops_a_gradient_with_history_and_its_graph():
    with leaving_nothing():
        x = block()
        start = bytes_live()
        (x * x * x).sum().backward(create_graph=True)
        assert bytes_live() > start + BLOCK
        x.dispose()
        assert bytes_live() == start - BLOCK
        del x


def test_a_scope_that_ends_leaves_a_gradient_with_history_whole():
    x = leaf(3.0)
    with new_dispose_scope() as scope:
        (x * x * x).backward(create_graph=True)
        assert x.grad not in scope
    assert autograd.grad(x.grad, x)[0].tolist() == [18.0]
    x.grad = None


def test_gradients_of_views_of_a_leaf_are_the_leafs():
    with leaving_nothing():
        x = block()
        start = bytes_live()
        rows = [x[i] for i in range(SIDE)]
        (rows[0] * 2 + rows[1]).sum().backward()
        assert x.grad.sum().item() == 3.0 * SIDE
        assert bytes_live() == start + BLOCK
        del x, rows


def test_a_tensor_that_retains_its_gradient_has_it_after_backward():
    x = leaf(1.0, 2.0)
    y = x * 3
    assert (y.grad, y.retains_grad, x.retains_grad) == (None, False, False)
    y.retain_grad()
    y.retain_grad()
    x.retain_grad()
    assert (y.grad, y.retains_grad, x.retains_grad) == (None, True, False)
    (y * y).sum().backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([6.0, 12.0], [18.0, 36.0])


def test_the_retained_gradient_is_the_result_of_all_hooks():
    y = leaf(1.0) * 3
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.register_hook(lambda g: g + 1)
    y.backward()
    assert y.grad.tolist() == [3.0]


def test_a_write_to_a_retained_gradient_changes_no_other():
    x = leaf(1.0, 2.0)
    y, z = x + 0, x + 1
    y.retain_grad()
    z.retain_grad()
    given = tensor.ones((2,))
    (y + z).backward(given)
    y.grad.mul_(10)
    assert (z.grad.tolist(), x.grad.tolist(), given.tolist()) == ([1.0, 1.0], [2.0, 2.0], [1.0, 1.0])


def test_a_retained_gradient_is_freed_with_its_tensor():
    with leaving_nothing():
        x = block()
        start = bytes_live()
        y = x * 1
        y.retain_grad()
        (y * 2).sum().backward()
        x.grad = None
        grad = y.grad
        y.dispose()
        assert grad.is_invalid
        assert bytes_live() == start
        z = x * 1
        z.retain_grad()
        loss = (z * 2).sum()
        z.dispose()
        loss.backward()
        x.grad = None
        del loss, z, y
        assert bytes_live() == start
        del x, grad


def test_a_retained_gradient_has_history_when_backward_is_recorded():
    x = leaf(2.0)
    y = x * x
    y.retain_grad()
    (y * y * y).backward(create_graph=True)
    assert y.grad.tolist() == [48.0]
    (dx,) = autograd.grad(y.grad, x)  # 3 x**4
    assert dx.tolist() == [96.0]
    x.grad = None


def step_peak(*, fused: bool) -> int:
    """Return the peak of a step of gradient descent, beside the weights, in blocks."""
    weights = [block() for _ in range(8)]
    x = tensor.ones((2, SIDE))

    def update(w: Tensor) -> None:
        with tensor.no_grad():
            w -= w.grad.mul_(0.01)
        w.grad = None

    if fused:
        for w in weights:
            w.register_post_accumulate_grad_hook(update)
    start = bytes_live()
    with memory.measure() as during:
        y = x
        for w in weights:
            y = (y @ w * (1 / SIDE)).tanh()
        y.sum().backward()
        if not fused:
            for w in weights:
                update(w)
    assert bytes_live() - start == y.nbytes
    return (during.peak_bytes - start) // BLOCK


def test_an_update_in_a_hook_never_needs_memory_for_all_gradients():
    assert step_peak(fused=False) >= 8
    assert step_peak(fused=True) <= 2


def test_a_gradient_without_another_user_is_overwritten_by_that_of_a_relu():
    x = tensor.ones((SIDE, 8 * SIDE), requires_grad=True)
    x.relu()  # kernels keep constants from their first call on
    with leaving_nothing():
        loss = (x.relu() * 2).sum()
        start = bytes_live()
        memory.reset_peak()
        loss.backward()
        # That of the sum is a number seen as a block; that of the product is a block, then the ReLU's. Beside
        # it there are the bits of what is kept, a part at a time.
        assert memory.statistics().bytes_peak < start + 8 * BLOCK + 3 * BLOCK
        del loss
        x.grad = None


def test_backward_does_not_overwrite_gradients_that_other_code_holds():
    values = tensor.tensor([[-1.0, 1.0]]).expand(SIDE, 2).reshape(SIDE * 2)

    def mixed() -> Tensor:
        return values.expand(SIDE, SIDE * 2).clone().requires_grad_()

    # By two ops at once, by the user who gave it, by a hook, and as what a tensor retains.
    x, y = mixed(), mixed()
    given = tensor.ones((SIDE, SIDE * 2)) * 3
    seen = []
    a, b = x.relu(), y.relu()
    b.retain_grad()
    whole = a + b
    whole.register_hook(lambda g: seen.append(g))
    (whole * 1).backward(given)
    assert given.sum().item() == 3 * SIDE * SIDE * 2
    assert seen[0].sum().item() == 3 * SIDE * SIDE * 2
    assert b.grad.sum().item() == 3 * SIDE * SIDE * 2
    for leaf_ in (x, y):
        assert leaf_.grad[0, :2].tolist() == [0.0, 3.0]
    (a,) = (mixed(),)
    a.relu().backward(given)
    assert given.sum().item() == 3 * SIDE * SIDE * 2
    assert a.grad[0, :2].tolist() == [0.0, 3.0]
