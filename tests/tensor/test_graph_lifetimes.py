"""How long graphs live, with the collector switched off: deep ones, wide ones, and many."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
from numpy.testing import assert_allclose

import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor, autograd, memory
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing, nodes

DEEP = 20_000
WIDE = 1000
MANY = 1000
KIB = 1024
# Python 3.13 lets deallocations nest 10,000 deep before it unwinds them, earlier ones 50.
SMALL_STACK = (128 if sys.version_info < (3, 13) else 8192) * KIB


def doubled_in_place(y: Tensor, x: Tensor) -> Tensor:
    return y.add_(x)


LINKS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "nothing saved": lambda y, x: y + x,
    "inputs saved": lambda y, x: y * x,
    "outputs saved": lambda y, x: y.sqrt(),
    "views": lambda y, x: y[:],
    "written in place": doubled_in_place,
}


def chain(link: Callable[[Tensor, Tensor], Tensor], x: Tensor) -> Tensor:
    y = x * 1.0
    for _ in range(DEEP):
        y = link(y, x)
    return y


@pytest.fixture(autouse=True)
def graphs_may_grow() -> Iterator[None]:
    autograd.warn_on_graph_growth(None)
    yield
    autograd.warn_on_graph_growth()


@pytest.mark.parametrize("kind", LINKS)
def test_a_deep_chain_is_dropped_at_once(kind):
    with leaving_nothing():
        x = leaf(1.0)
        alone = (nodes(), bytes_live())
        y = chain(LINKS[kind], x)
        assert nodes() > DEEP
        del y
        assert (nodes(), bytes_live()) == alone
        del x


@pytest.mark.parametrize(
    ("kind", "slope"),
    [
        ("nothing saved", DEEP + 1),
        ("inputs saved", DEEP + 1),
        ("outputs saved", 0),
        ("views", 1),
        ("written in place", DEEP + 1),
    ],
)
def test_backward_walks_a_deep_chain_and_gives_its_memory_back(kind, slope):
    with leaving_nothing():
        x = leaf(1.0)
        alone = bytes_live()
        y = chain(LINKS[kind], x)
        y.backward()
        assert x.grad.tolist() == [slope]
        # Beside x there are the output and the gradient alone, though the output still has its graph.
        assert bytes_live() == alone + y.nbytes + x.grad.nbytes
        del x, y


@pytest.mark.parametrize("kind", LINKS)
def test_a_thread_with_a_small_stack_drops_and_walks_such_a_chain(kind):
    x = leaf(1.0)
    chains = [chain(LINKS[kind], x)]

    def walk_and_drop() -> None:
        chains[0].backward(retain_graph=True)
        chains.pop()

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=walk_and_drop)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert x.grad is not None
    assert chains == []


def test_grad_finds_a_gradient_in_the_middle_of_a_deep_chain():
    with leaving_nothing():
        x = leaf(1.0)
        middle = chain(LINKS["nothing saved"], x)
        end = middle
        for _ in range(DEEP):
            end = end * 1.0
        (slope,) = autograd.grad(end, middle)
        assert slope.tolist() == [1.0]
        del x, middle, end, slope


def branches(x: Tensor) -> list[Tensor]:
    """Return results that each save one block of the size of `x`: their own values."""
    return [(x * (i / WIDE)).exp() for i in range(WIDE)]


def test_a_branch_that_is_dropped_gives_its_memory_back_at_once():
    with leaving_nothing():
        x = tensor.zeros((KIB,), requires_grad=True)
        alone = bytes_live()
        fan = branches(x)
        assert bytes_live() == alone + WIDE * x.nbytes
        del fan[::2]
        assert bytes_live() == alone + WIDE // 2 * x.nbytes
        total = fan[0]
        for branch in fan[1:]:
            total = total + branch
        del fan, branch
        # What the graph saves of the branches is what they were; beside it there is the sum.
        assert bytes_live() == alone + (WIDE // 2 + 1) * x.nbytes
        total.sum().backward()
        slope = sum(i / WIDE for i in range(1, WIDE, 2))
        assert_allclose(x.grad.numpy(), slope, rtol=1e-5)
        assert bytes_live() == alone + total.nbytes + x.grad.nbytes
        del x, total


def test_a_thousand_branches_that_meet_in_one_node_are_walked_and_freed():
    with leaving_nothing():
        x = tensor.zeros((KIB,), requires_grad=True)
        alone = bytes_live()
        whole = tensor.stack(branches(x))
        assert nodes() == 2 + 2 * WIDE
        whole.sum().backward()
        assert_allclose(x.grad.numpy(), (WIDE - 1) / 2, rtol=1e-5)
        assert bytes_live() == alone + whole.nbytes + x.grad.nbytes
        del whole
        assert nodes() == 1
        del x


def test_the_shared_part_of_two_graphs_is_freed_with_the_later_output():
    with leaving_nothing():
        x = tensor.zeros((KIB,), requires_grad=True)
        alone = bytes_live()
        common = x.exp()
        first, second = common.sin(), common.cos()
        del common
        assert bytes_live() == alone + 3 * x.nbytes
        del first
        assert bytes_live() == alone + 2 * x.nbytes
        del second
        assert bytes_live() == alone
        del x


def test_memory_falls_with_each_node_that_backward_has_passed():
    with leaving_nothing():
        x = tensor.zeros((KIB,), requires_grad=True)
        y = x
        for _ in range(100):
            y = y.exp().sin()  # sin saves the result of exp, which saves it too
            y = y * 0.5
        start = bytes_live()
        loss = y.sum()
        del y
        with memory.measure() as during:
            loss.backward()
        # A gradient more at a time, while a hundred blocks go.
        assert during.peak_bytes < start + 8 * x.nbytes
        assert bytes_live() <= start - 98 * x.nbytes
        del x, loss


@pytest.mark.parametrize("ending", ["backward", "grad", "dropped", "disposed", "scope", "detached"])
def test_thousands_of_graphs_leave_no_memory_no_tensor_and_no_node(ending):
    w = tensor.ones((4, 1), requires_grad=True)
    x = tensor.ones((2, 4))

    def one_graph() -> None:
        with new_dispose_scope() if ending == "scope" else nullcontext():
            loss = (x @ w).tanh().square().mean()
            if ending in ("backward", "scope"):
                loss.backward()
            elif ending == "grad":
                autograd.grad(loss, w)
            elif ending == "disposed":
                loss.dispose()
            elif ending == "detached":
                loss.detach().item()

    with leaving_nothing():
        # Python keeps up to 2,000 tuples of each size for the next ones.
        for _ in range(2500):
            one_graph()
        w.grad = None
        tracemalloc.start()
        try:
            for _ in range(100):
                one_graph()
            before, _ = tracemalloc.get_traced_memory()
            figures = (nodes(), bytes_live(), statistics.live_count)
            for _ in range(MANY):
                one_graph()
            after, _ = tracemalloc.get_traced_memory()
            assert (nodes(), bytes_live(), statistics.live_count) == figures
            # An object a graph would be more.
            assert after - before < 24 * MANY
        finally:
            tracemalloc.stop()
            w.grad = None


def test_one_state_that_is_carried_on_and_detached_keeps_one_step_of_graph():
    with leaving_nothing():
        w = tensor.full((KIB,), 0.5, requires_grad=True)
        state = tensor.ones((KIB,))
        figures = set()
        for _ in range(200):
            state = (state.detach() * w).tanh()
            figures.add((nodes(), bytes_live()))
        assert len(figures) == 1
        del w, state
