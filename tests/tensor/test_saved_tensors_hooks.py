"""Hooks on saved tensors: what they get, when the memory of saved tensors is free, and what is an error."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, autograd, memory
from tensor.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing

SIDE = 256
BLOCK = SIDE * SIDE * 4


def block(value: float = 1.0) -> Tensor:
    return tensor.full((SIDE, SIDE), value, requires_grad=True)


class Files:
    """Hooks that keep values outside of tensors' memory, as a file does."""

    def __init__(self) -> None:
        self.arrays: dict[int, np.ndarray] = {}
        self.reads = 0

    def pack(self, x: Tensor) -> int:
        self.arrays[len(self.arrays)] = np.array(x.detach().clone().numpy())
        return len(self.arrays) - 1

    def unpack(self, key: int) -> Tensor:
        self.reads += 1
        return tensor.tensor(self.arrays[key])


class Labels:
    """Hooks that keep each tensor as it is, and write down what they get."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def pack(self, x: Tensor) -> Tensor:
        self.calls.append(("pack", x.tolist(), x.requires_grad, x.is_leaf))
        return x

    def unpack(self, x: Tensor) -> Tensor:
        self.calls.append(("unpack", x.tolist()))
        return x


def test_hooks_get_inputs_and_outputs_in_order_and_backward_gets_them_back():
    x = leaf(2.0)
    labels = Labels()
    with saved_tensors_hooks(labels.pack, labels.unpack):
        y = x * x
        z = (y * 0).exp()
    outside = z * z
    packs = [("pack", [2.0], True, True)] * 2 + [("pack", [1.0], True, False)]
    assert labels.calls == packs
    outside.backward()
    assert labels.calls[3:] == [("unpack", [1.0]), ("unpack", [2.0]), ("unpack", [2.0])]


def test_saved_memory_is_free_between_forward_and_backward():
    x = block()
    files = Files()
    (x * 2.0).exp().sum().backward()  # so that the gradient exists
    start = bytes_live()
    with saved_tensors_hooks(files.pack, files.unpack):
        loss = (x * 2.0).exp().sum()
    assert bytes_live() - start < 1024
    assert autograd.graph_statistics(loss).bytes_saved == 0
    with memory.measure() as measured:
        loss.backward(retain_graph=True)
        assert bytes_live() - start < 1024
        loss.backward()
    assert files.reads == 2
    # One saved value and one gradient on the way, besides the leaf and its gradient.
    assert measured.peak_bytes - start <= 2 * BLOCK + 1024
    assert x.grad[0, 0].item() == pytest.approx(3 * 2 * np.exp(2.0), rel=1e-6)


def test_each_backward_that_keeps_the_graph_unpacks_again_and_the_last_drops_what_was_packed():
    class Kept:
        pass

    x = leaf(2.0)
    kept: WeakSet[Kept] = WeakSet()
    reads = []

    def pack(_: Tensor) -> Kept:
        handle = Kept()
        kept.add(handle)
        return handle

    with saved_tensors_hooks(pack, lambda handle: reads.append(handle in kept) or tensor.tensor([2.0])):
        y = x * x
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert (reads, len(kept)) == ([True] * 4, 2)
    y.backward()
    assert len(kept) == 0
    with pytest.raises(RuntimeError, match="already freed"):
        y.backward()
    assert x.grad.tolist() == [12.0]


def test_an_index_and_a_mask_are_packed_and_free_too():
    x = tensor.ones((1000,), requires_grad=True)
    mask = tensor.ones((1000,), dtype=bool)
    files = Files()
    with saved_tensors_hooks(files.pack, files.unpack):
        y = x[tensor.arange(1000)]
        z = y.where(mask, 0.0)
    assert {array.dtype for array in files.arrays.values()} == {np.dtype(np.int64), np.dtype(bool)}
    assert autograd.graph_statistics(z).bytes_saved == 0
    z.sum().backward()
    assert x.grad.tolist() == [1.0] * 1000


def test_a_hook_that_returns_its_argument_makes_no_cycle_and_copies_nothing():
    def use() -> None:
        x = block()
        with saved_tensors_hooks(lambda x: x, lambda x: x):
            y = x.exp()
            before = bytes_live()
            z = y * y
        assert bytes_live() - before == BLOCK
        del z

    use()
    with leaving_nothing():
        use()


def test_writes_after_saving_do_not_change_what_a_hook_was_given():
    x = leaf(3.0)
    with saved_tensors_hooks(lambda x: x.detach(), lambda x: x):
        y = x * x
    with tensor.no_grad():
        x.fill_(100.0)
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_packed_tensors_belong_to_the_graph_and_survive_the_scope():
    x = leaf(3.0)
    stray: list[Tensor] = []

    def pack(x: Tensor) -> Any:
        stray.append(x * 1)
        return {"half": [x.half()], "whole": (x,)}

    with new_dispose_scope() as scope:
        with saved_tensors_hooks(pack, lambda kept: kept["half"][0].float() + kept["whole"][0] * 0):
            y = scope.detach(x * x)
    assert all(t.is_invalid for t in stray)
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_only_the_innermost_hooks_apply_and_save_on_cpu_is_one_of_them():
    x = leaf(2.0)
    outer, inner = Labels(), Labels()
    with saved_tensors_hooks(outer.pack, outer.unpack):
        with saved_tensors_hooks(inner.pack, inner.unpack), autograd.detect_anomaly():
            x.exp()
        with save_on_cpu():
            x.exp()
        with save_on_cpu(pin_memory=True, device_type="cuda"):
            x.exp().backward()
        assert (len(outer.calls), len(inner.calls)) == (0, 1)
        x.exp()
    assert (len(outer.calls), len(inner.calls)) == (1, 1)


def test_hooks_apply_where_recording_is_on_and_pack_records_nothing():
    x = leaf(2.0)
    seen: list[bool] = []

    def pack(x: Tensor) -> Tensor:
        seen.append((x * 2).requires_grad)
        return x

    with saved_tensors_hooks(pack, lambda x: x):
        with tensor.no_grad():
            x.exp()
            with tensor.enable_grad():
                x.exp()
        with tensor.inference_mode():
            x.exp()
    assert seen == [False]


def test_hooks_decorate_functions_and_coroutines():
    labels = Labels()

    @saved_tensors_hooks(labels.pack, labels.unpack)
    def exp(x: Tensor) -> Tensor:
        return x.exp()

    @saved_tensors_hooks(labels.pack, labels.unpack)
    async def later(x: Tensor) -> Tensor:
        await asyncio.sleep(0)
        return x.exp()

    exp(leaf(1.0)).backward()
    asyncio.run(later(leaf(1.0))).backward()
    leaf(1.0).exp()
    assert [call[0] for call in labels.calls] == ["pack", "unpack"] * 2


def test_a_function_of_ones_own_saves_through_hooks_and_each_access_unpacks():
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, None, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors[1] is None
            x, _, y = ctx.saved_tensors
            assert x.requires_grad
            return g * 3 * y

    x = leaf(2.0)
    files = Files()
    with saved_tensors_hooks(files.pack, files.unpack):
        y = Cube.apply(x)
    y.backward(retain_graph=True)
    assert files.reads == 4
    assert autograd.graph_statistics(y).bytes_saved == 0
    y.backward()
    assert x.grad.tolist() == [24.0]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_derivatives_are_the_same(order):
    def derivative(hooks: Any) -> list[float]:
        x = tensor.tensor([0.3, 0.7], dtype="float64", requires_grad=True)
        with hooks:
            y = (x.exp() * x.sin() / (x + 2)).sum()
        for _ in range(order):
            (d,) = autograd.grad(y, x, create_graph=True)
            y = d.sum()
        return d.tolist()

    files = Files()
    assert derivative(saved_tensors_hooks(files.pack, files.unpack)) == derivative(tensor.enable_grad())
    assert files.reads > 0


def test_hooks_around_a_checkpoint_get_its_arguments_only():
    x = leaf(2.0)
    labels = Labels()
    with saved_tensors_hooks(labels.pack, labels.unpack):
        y = autograd.checkpoint(lambda x: (x * x).exp(), x)
        y.backward(retain_graph=True)
    y.backward()
    assert labels.calls == [("pack", [2.0], True, True), *[("unpack", [2.0])]]
    assert x.grad.item() == pytest.approx(2 * 4 * np.exp(4.0), rel=1e-6)


def test_memory_of_a_checkpoints_arguments_is_free_too():
    x = block()
    files = Files()
    start = bytes_live()
    with saved_tensors_hooks(files.pack, files.unpack):
        y = autograd.checkpoint(lambda y: y.exp().sum(), x * 2.0)
    assert bytes_live() - start < 1024
    y.backward()
    assert x.grad[0, 0].item() == pytest.approx(2 * np.exp(2.0), rel=1e-6)


def test_hooks_inside_a_checkpoint_apply_when_it_runs_again():
    x = leaf(2.0)
    labels = Labels()

    def function(x: Tensor) -> Tensor:
        with saved_tensors_hooks(labels.pack, labels.unpack):
            return (x * x).sum()

    y = autograd.checkpoint(function, x)
    y.backward()
    assert [call[0] for call in labels.calls] == ["pack", "pack", "unpack", "unpack"]
    assert x.grad.tolist() == [4.0]


def test_hooks_and_a_budget_work_together(tmp_path):
    x = block(0.001)
    files = Files()

    def loss(x: Tensor) -> Tensor:
        y = x
        for i in range(6):
            if i % 2:
                with saved_tensors_hooks(files.pack, files.unpack):
                    y = (y * y).exp() * 0.5
            else:
                y = (y * y).sin() + 1.0
        return y.sum()

    loss(x).backward()
    expected = x.grad.numpy().copy()
    x.grad = None
    with memory.budget(12 * BLOCK, spill=tmp_path):
        loss(x).backward()
    assert np.array_equal(x.grad.numpy(), expected)


def test_a_network_trained_through_half_precision_hooks_learns():
    tensor.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 2))
    optimizer = nn.optim.Adam(net.parameters(), lr=0.01)
    x, y = tensor.randn((32, 4)), tensor.randint(0, 2, (32,))

    def pack(x: Tensor) -> Any:
        return x.half() if x.dtype == tensor.float32 and not x.is_leaf else x

    losses = []
    for _ in range(30):
        with saved_tensors_hooks(pack, lambda x: x):
            loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_a_write_to_the_argument_is_an_error_and_reading_it_as_numpy_is_not():
    def through_numpy(x: Tensor) -> None:
        x.detach().numpy()[0] = 9.0

    for write in (lambda x: x.add_(1), lambda x: x.detach().mul_(2), through_numpy):
        x = leaf(1.0, 2.0)
        with saved_tensors_hooks(write, lambda x: x), pytest.raises(RuntimeError, match="hook is modifying"):
            x * x
        assert x.tolist() == [1.0, 2.0]
    x = leaf(0.0)
    with saved_tensors_hooks(lambda x: x.detach().numpy(), tensor.from_numpy):
        x.exp().backward()
    assert x.grad.tolist() == [1.0]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (None, TypeError, "expected to be a Tensor but got result of type NoneType"),
        (np.ones(2, np.float32), TypeError, "result of type ndarray"),
        (tensor.ones((3,)), RuntimeError, r"shape \(3,\), but the saved tensor had \(2,\)"),
        (tensor.ones((2,), dtype="complex64"), RuntimeError, "complex64, but the saved tensor had float32"),
    ],
)
def test_an_unpack_hook_that_returns_something_else_is_an_error(given, kind, message):
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda x: None, lambda _: given):
        y = x.exp().sum()
    for _ in range(2):  # the graph is whole after the error
        with pytest.raises(kind, match=message):
            y.backward()
    assert x.grad is None


def test_an_error_in_a_hook_is_raised_and_leaves_nothing():
    def fail(_: Any) -> Any:
        raise KeyError("disk full")

    def use() -> None:
        x = block()
        with saved_tensors_hooks(fail, fail), pytest.raises(KeyError, match="disk full"):
            x.exp()
        with saved_tensors_hooks(lambda x: x, fail):
            y = x.exp()
        with pytest.raises(KeyError, match="disk full"):
            y.sum().backward()

    use()
    with leaving_nothing():
        use()


def test_an_in_place_op_whose_output_could_not_be_packed_says_so_in_backward():
    x = leaf(1.0)
    y = x * 1

    def fail(_: Any) -> Any:
        raise KeyError

    with saved_tensors_hooks(fail, fail), pytest.raises(KeyError):
        y.exp_()
    with pytest.raises(RuntimeError, match="its output was not saved, because the pack hook failed"):
        y.backward()


def test_only_functions_are_hooks():
    with pytest.raises(TypeError, match="pack_hook must be a function, not int"):
        saved_tensors_hooks(3, lambda x: x)
    with pytest.raises(TypeError, match="unpack_hook must be a function, not str"):
        saved_tensors_hooks(lambda x: x, "x")


def test_disabled_hooks_raise_the_given_message():
    with disable_saved_tensors_hooks("not here"):
        with disable_saved_tensors_hooks("nor here"), pytest.raises(RuntimeError, match="nor here"):
            save_on_cpu().__enter__()
        with pytest.raises(RuntimeError, match="not here"), saved_tensors_hooks(lambda x: x, lambda x: x):
            pass
    with saved_tensors_hooks(lambda x: x, lambda x: x):
        with pytest.raises(RuntimeError, match="too late"), disable_saved_tensors_hooks("too late"):
            pass
