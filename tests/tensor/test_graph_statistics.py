"""What graphs are said to keep, against what they really give back."""

import gc
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nn
import tensor
from tensor import Tensor, TensorDisposedError, autograd, memory
from tensor.core.tensor import share_of, snapshot_share
from tensor.memory.buffer import Share
from tensor.tape.recording import Deferred

N = 1000
BYTES = 4 * N


def leaf(n: int = N) -> Tensor:
    return tensor.ones((n,), requires_grad=True)


def figures(x: Tensor | None = None) -> tuple[int, int, int]:
    found = autograd.graph_statistics(x)
    return found.node_count, found.bytes_saved, found.bytes_held_alone


def live() -> int:
    gc.collect()
    return memory.statistics().bytes_live


def test_recorded_ops_count_and_leaves_do_not():
    x, w = leaf(), leaf()
    y = x * 2 + w
    assert autograd.graph_statistics(y).node_count == 2
    assert {op.name: op.node_count for op in autograd.graph_statistics(y).ops} == {
        "AddBackward": 1,
        "MultiplyBackward": 1,
    }


def test_a_node_that_is_reached_twice_counts_once():
    x = leaf()
    y = x.exp()
    assert figures(y * y + y) == (3, BYTES, 0)


@pytest.mark.parametrize("make", [lambda: tensor.ones((N,)), leaf, lambda: leaf() > 0])
def test_a_tensor_without_recorded_ops_has_zeros(make: Callable[[], Tensor]):
    assert autograd.graph_statistics(make()) == autograd.GraphStatistics(0, 0, 0, ())


def test_an_empty_tensor_says_that_it_is_empty():
    x = leaf() * 2
    x.dispose()
    with pytest.raises(TensorDisposedError, match="dispose"):
        autograd.graph_statistics(x)


def test_an_argument_that_is_not_a_tensor_raises_an_error_that_says_what_to_pass():
    with pytest.raises(TypeError, match="not ndarray: pass the tensor"):
        autograd.graph_statistics(np.ones(3))


def test_a_buffer_that_several_nodes_and_views_save_counts_once_and_whole():
    x = leaf()
    a = x.exp()
    y = a[: N // 2] * a[N // 2 :] + a.sin()[: N // 2]
    found = autograd.graph_statistics(y)
    assert (found.bytes_saved, found.bytes_held_alone) == (BYTES, 0)
    assert {op.name: op.bytes_saved for op in found.ops if op.bytes_saved} == {
        "ExpBackward": BYTES,
        "MultiplyBackward": BYTES,
        "SinBackward": BYTES,
    }
    del a
    assert autograd.graph_statistics(y).bytes_held_alone == BYTES


def test_parameters_are_saved_and_not_held_alone():
    layer = nn.Linear(10, 20)
    x = tensor.ones((3, 10))
    y = layer(layer(x)[:, :10]).sum()
    weight, middle = 10 * 20 * 4, 3 * 20 * 4
    assert figures(y) == (4, weight + 3 * 10 * 4 + middle, middle)


HOLDERS: dict[str, Callable[[Tensor], object]] = {
    "the tensor": lambda x: x,
    "a view": lambda x: x[1:3],
    "an alias": lambda x: x.alias(),
    "a clone": lambda x: x.clone(),
    "a detached tensor": lambda x: x.detach(),
    "a handle": lambda x: x.alias().move_handle(),
    "another graph": lambda x: x * x,
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("n", [N, 100_000])
def test_values_that_others_hold_are_not_held_alone_until_these_release_them(
    n: int, hold: Callable[[Tensor], object]
):
    x = leaf(n)
    a = x.exp()
    y = a.sin().sum()
    held = [hold(a)]
    del a
    assert figures(y) == (3, 4 * n, 0)
    held.clear()
    assert figures(y) == (3, 4 * n, 4 * n)


def test_two_graphs_that_save_one_buffer_hold_it_alone_together():
    x = leaf()
    a = x.exp()
    y, z = a.sin(), a.cos()
    del a
    assert autograd.graph_statistics(y + z).bytes_held_alone == BYTES
    assert autograd.graph_statistics(y).bytes_held_alone == 0


UNARY: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.tanh(),
    lambda x: x.sin(),
    lambda x: x * 0.5,
    lambda x: x.relu(),
    lambda x: x.reshape((10, -1)).mT.reshape((-1,)),
    lambda x: tensor.flip(x),
    lambda x: x.clone(),
]
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x * y,
    lambda x, y: x + y,
    lambda x, y: x - y.sum(),
    lambda x, y: tensor.maximum(x, y),
]


@given(st.data(), st.sampled_from([10, 400, 50_000]))
def test_bytes_held_alone_are_the_bytes_that_backward_frees(data: st.DataObject, n: int):
    values = [leaf(n), leaf(n)]
    for x in values:
        x.grad = tensor.zeros((n,))
    places = st.integers(0, 5)
    for _ in range(data.draw(st.integers(1, 10))):
        x, y = (values[-1 - data.draw(places) % len(values)] for _ in range(2))
        op = data.draw(st.integers(0, len(UNARY) + len(BINARY) - 1))
        values.append(UNARY[op](x) if op < len(UNARY) else BINARY[op - len(UNARY)](x, y))
    loss = (values[0] + values[-1] * values[1]).sum()
    held = [x for x in values if x.is_leaf or data.draw(st.booleans())]
    del x, y
    values.clear()
    before = live()
    alone = autograd.graph_statistics(loss).bytes_held_alone
    assert live() == before
    loss.backward()
    assert before - live() == alone
    assert autograd.graph_statistics(loss).bytes_saved == 0
    assert held


def test_after_backward_the_nodes_are_there_without_bytes():
    x = leaf()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    assert figures(y) == (2, BYTES, 0)
    y.backward()
    assert figures(y) == (2, 0, 0)


def test_figures_keep_nothing_alive():
    x = leaf()
    before = live()
    y = x.exp().sin()
    found = autograd.graph_statistics(y), autograd.graph_statistics()
    del y
    assert live() == before
    assert found[0].bytes_saved == BYTES


def test_a_chain_of_a_hundred_thousand_nodes_is_walked_without_recursion():
    x = leaf(1)
    y = x
    for _ in range(100_000):
        y = y + 1
    assert autograd.graph_statistics(y).node_count == 100_000


def test_all_graphs_together_are_those_of_every_thread():
    gc.collect()
    before = autograd.graph_statistics()
    x = leaf()
    kept = [x.exp().sin()]
    thread = threading.Thread(target=lambda: kept.append(leaf().exp().sin()))
    thread.start()
    thread.join()
    found = autograd.graph_statistics()
    assert found.node_count - before.node_count == 4
    assert found.bytes_saved - before.bytes_saved == 2 * BYTES
    assert found.bytes_held_alone - before.bytes_held_alone == 2 * BYTES
    kept.clear()
    assert autograd.graph_statistics() == before


def test_frozen_nodes_are_found_from_their_tensor_alone():
    y = leaf().exp().sin()
    before = autograd.graph_statistics().node_count
    gc.freeze()
    try:
        assert autograd.graph_statistics().node_count <= before - 2
        assert figures(y) == (2, BYTES, BYTES)
    finally:
        gc.unfreeze()


def test_graphs_are_counted_while_other_threads_record():
    gc.collect()
    x = leaf()
    mine = x.exp().sin()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            w = leaf(10)
            y = w
            for _ in range(20):
                y = (y * w).sin()
            y.sum().backward()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert autograd.graph_statistics().node_count >= 2
            assert figures(mine) == (2, BYTES, BYTES)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_recipe_counts_the_arrays_that_it_names_once_for_all_nodes_that_share_it():
    class Recipe(Deferred):
        def __init__(self, *held: Share) -> None:
            self.held = held

        def shares(self) -> list[Share]:
            return list(self.held)

    x = leaf()
    y, z = x * 1, x * 2
    outside = tensor.ones((10,), dtype=tensor.float64)
    y.grad_fn.saved = z.grad_fn.saved = Recipe(share_of(np.ones(N)), snapshot_share(outside))
    assert figures(y + z) == (3, 8 * N + 80, 8 * N)


INDEXED = {
    "places": lambda x, i: x[i],
    "a mask": lambda x, i: x[x > 0],
    "places of NumPy's": lambda x, i: x[i.numpy() + 0],
    "gather": lambda x, i: x.gather(0, i),
    "sort": lambda x, i: x.sort().values,
    "nll_loss": lambda x, i: nn.functional.nll_loss(x[None], i[:1] * 1),
    "a write to places": lambda x, i: (x * 1).index_add(0, i, x),
    "a write to a mask": lambda x, i: x.masked_fill(x > 0, 0.0),
}


@pytest.mark.parametrize("n", [100, 50_000])
@pytest.mark.parametrize("op", INDEXED.values(), ids=INDEXED)
def test_indices_that_a_graph_keeps_are_live_memory(op, n):
    x = tensor.linspace(-1, 1, n, requires_grad=True)
    i = tensor.arange(n)
    gc.collect()
    op(x, i)
    before = memory.statistics().bytes_live
    y = op(x, i)
    kept = autograd.graph_statistics(y).bytes_held_alone
    assert memory.statistics().bytes_live - before == kept + y.nbytes
    del y
    assert memory.statistics().bytes_live == before


def test_printed_figures_are_a_table():
    x = leaf()
    y = (x * 2).exp().sum()
    assert str(autograd.graph_statistics(y)).splitlines() == [
        "op                nodes      saved  held alone",
        "ExpBackward           1  3.906 KiB   3.906 KiB",
        "MultiplyBackward      1    0 bytes     0 bytes",
        "SumBackward           1    0 bytes     0 bytes",
        "all                   3  3.906 KiB   3.906 KiB",
    ]
    assert str(autograd.graph_statistics(x)).splitlines()[1:] == ["all      0  0 bytes     0 bytes"]


def test_graph_statistics_are_frozen_and_can_be_pickled():
    found = autograd.graph_statistics(leaf().exp())
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(AttributeError, match="set"):
        found.node_count = 3
