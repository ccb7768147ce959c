"""Budgets: what no longer fits leaves memory and comes back, and gradients are the same to the bit."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import optim
from scopes import new_dispose_scope
from scopes._shared.spill import SpillError, SpillFile
from tensor import Tensor, autograd, memory
from tensor.autograd.evictions import Evictions

pytestmark = pytest.mark.usefixtures("fresh_allocator")

N = 256
KIB256 = N * N * 4


def values(seed: int = 0) -> Tensor:
    array = np.random.default_rng(seed).standard_normal((N, N), np.float32)
    return tensor.tensor(array, requires_grad=True)


def chain(x: Tensor, w: Tensor, depth: int = 12) -> Tensor:
    """Return a number computed from `x` and `w`; each round saves four arrays of 256 KiB or more."""
    for _ in range(depth):
        x = ((x @ w) * 0.05).tanh() + x.sin()
        x = x.exp().clip(-3.0, 3.0).reshape(N // 2, 2 * N).reshape(N, N)
    return x.mean()


def gradients(function: Callable[[Tensor, Tensor], Tensor] = chain) -> list[bytes]:
    x, w = values(0), values(1)
    loss = function(x, w)
    loss.backward()
    return [loss.detach().numpy().tobytes(), x.grad.numpy().tobytes(), w.grad.numpy().tobytes()]


def least_more(function: Callable[[], object]) -> int:
    """Return how far live bytes rise while `function` runs."""
    with memory.measure() as used:
        function()
    return used.peak_bytes_change


def budget_of(nbytes: int, **options: Any) -> memory.budget:
    """Return a budget of `nbytes` beside what is live now."""
    gc.collect()
    memory.trim()
    return memory.budget(memory.statistics().bytes_live + nbytes, **options)


WAYS = {"recompute": (False, True), "spill": (True, False), "both": (True, True)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("share", [0.8, 0.5, 0.3])
def test_gradients_within_a_budget_are_the_same_to_the_bit(way, share, tmp_path):
    wanted, most = gradients(), least_more(gradients)
    spill, recompute = WAYS[way]
    with budget_of(int(most * share), spill=tmp_path if spill else None, recompute=recompute) as budget:
        assert gradients() == wanted
    done = budget.statistics()
    assert done.peak_bytes <= budget.nbytes
    assert done.pressure_count > 0
    assert (done.recomputed_count > 0) == (way != "spill")
    assert (done.spilled_bytes > 0) or way != "spill"
    assert done.spilled_bytes == done.read_bytes
    assert list(tmp_path.iterdir()) == []


def test_budget_above_the_needed_memory_evicts_no_value():
    wanted = gradients()
    with memory.budget("1 GiB") as budget:
        assert gradients() == wanted
    done = budget.statistics()
    assert (done.pressure_count, done.recomputed_count, done.spilled_bytes) == (0, 0, 0)


def test_an_op_that_does_not_fit_alone_raises_and_leaves_all_as_it_was(tmp_path):
    x = values()
    with budget_of(5 * KIB256, spill=tmp_path):
        y = x.sin()
        with pytest.raises(memory.OutOfMemoryError, match="the limit of memory is"):
            tensor.ones((6 * N, N))
        y.sum().backward()
    assert np.array_equal(x.grad.numpy(), x.detach().cos().numpy())


def test_inference_has_nothing_to_evict():
    x = values()
    with budget_of(4 * KIB256), tensor.no_grad():
        kept = [x.sin() for _ in range(3)]
        with pytest.raises(memory.OutOfMemoryError):
            kept += [x.sin() for _ in range(3)]


# --- When memory is short -----------------------------------------------------------------------------------


def test_on_pressure_is_called_before_any_eviction():
    x, spare, asked = values(), [tensor.ones((N, N)) for _ in range(4)], []

    def drop(missing: int) -> None:
        asked.append(missing)
        while spare:
            spare.pop().dispose()

    with budget_of(2 * KIB256, on_pressure=drop) as budget:
        y = x.sin().sin().sin()
        y.sum().backward()
    assert 0 < asked[0] <= 2 * KIB256
    assert not spare
    assert budget.statistics().recomputed_count == 0


def test_what_on_pressure_raises_is_raised_by_the_op_when_nothing_else_helps():
    def fail(missing: int) -> None:
        raise ValueError("no cache to empty")

    x = values()
    with budget_of(4 * KIB256, on_pressure=fail) as budget:
        x.sin().exp().sin().exp().sum().backward()  # eviction helps
        with pytest.raises(ValueError, match="no cache to empty"):
            tensor.ones((8 * N, N))
    assert budget.statistics().pressure_count > 1


def test_a_budget_without_any_means_is_a_limit():
    x = values()
    with budget_of(3 * KIB256, recompute=False), pytest.raises(memory.OutOfMemoryError):
        x.sin().sin().sin().sin().sin()


def test_an_interrupt_while_memory_is_freed_is_raised_by_the_op_and_nothing_is_lost(tmp_path):
    interrupts = [signal.SIGINT]

    def interrupt(missing: int) -> None:
        if interrupts:
            signal.raise_signal(interrupts.pop())

    wanted = gradients()
    with budget_of(16 * KIB256, spill=tmp_path, on_pressure=interrupt):
        with pytest.raises(KeyboardInterrupt):
            gradients()
        gc.collect()
        assert gradients() == wanted


class AlarmError(Exception):
    pass


def test_what_a_signal_handler_raises_while_memory_is_freed_is_raised_and_nothing_is_lost(
    monkeypatch, tmp_path
):
    evict = Evictions.evict
    waiting = [signal.SIGINT]

    def ring(number: int, frame: object) -> None:
        raise AlarmError

    def evict_and_ring(self: Evictions, nbytes: int, more: int) -> int:
        gone = evict(self, nbytes, more)
        if waiting:
            signal.raise_signal(waiting.pop())
        return gone

    wanted = gradients()
    gc.collect()
    live = memory.statistics().bytes_live
    monkeypatch.setattr(Evictions, "evict", evict_and_ring)
    before = signal.signal(signal.SIGINT, ring)
    try:
        with budget_of(16 * KIB256, spill=tmp_path):
            with pytest.raises(AlarmError):
                gradients()
            gc.collect()
            assert memory.statistics().bytes_live == live
            assert gradients() == wanted
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_another_thread_is_made_to_raise_while_memory_is_freed_is_raised_there(monkeypatch):
    caught: list[BaseException] = []

    def fail(self: Evictions, nbytes: int, more: int) -> int:
        raise AlarmError

    def run() -> None:
        with budget_of(4 * KIB256):
            try:
                gradients()
            except AlarmError as error:
                caught.append(error)

    monkeypatch.setattr(Evictions, "evict", fail)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(caught) == 1


# --- The file -----------------------------------------------------------------------------------------------


def test_budget_with_a_missing_spill_folder_raises_before_the_block(tmp_path):
    with (
        pytest.raises(SpillError, match="no spill file can be created"),
        memory.budget("1 GiB", spill=tmp_path / "none"),
    ):
        pass
    with memory.budget("1 GiB"):
        pass  # nothing was left open


def test_a_full_disk_is_an_error_of_the_op_and_nothing_is_lost(tmp_path):
    resource = pytest.importorskip("resource")
    wanted = gradients(lambda x, w: x.sin().sin().mean() + 0 * w.sum())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with budget_of(6 * KIB256, spill=tmp_path, recompute=False):
        x, w = values(0), values(1)
        loss = x.sin().sin().mean() + 0 * w.sum()
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * KIB256, before[1]))
        try:
            with pytest.raises(SpillError, match="can't be written to the spill file"):
                y = x
                for _ in range(20):
                    y = y.sin()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        del y
        loss.backward()
    assert [loss.detach().numpy().tobytes(), x.grad.numpy().tobytes(), w.grad.numpy().tobytes()] == wanted
    assert list(tmp_path.iterdir()) == []


def test_a_read_that_fails_is_an_error_of_backward_and_leaves_gradients_as_they_were(tmp_path):
    x = values()
    with budget_of(6 * KIB256, spill=tmp_path, recompute=False) as budget:
        y = x
        for _ in range(10):
            y = y.sin()
        loss = y.sum()
        file: Any = budget._file
        file._file.truncate(0)
        with pytest.raises(SpillError, match="can't be read back"):
            loss.backward()
    assert x.grad is None


# --- Graphs -------------------------------------------------------------------------------------------------


def test_backward_after_the_block_has_what_was_evicted_in_it(tmp_path):
    wanted = gradients()
    for options in ({}, {"spill": tmp_path, "recompute": False}):
        x, w = values(0), values(1)
        with budget_of(10 * KIB256, **options):
            loss = chain(x, w)
        loss.backward()
        assert [loss.detach().numpy().tobytes(), x.grad.numpy().tobytes(), w.grad.numpy().tobytes()] == wanted


@pytest.mark.parametrize("way", WAYS)
def test_two_backwards_through_one_graph(way, tmp_path):
    def twice(x: Tensor, w: Tensor) -> Tensor:
        loss = chain(x, w, 6)
        loss.backward(retain_graph=True)
        return loss

    wanted = gradients(twice)
    spill, recompute = WAYS[way]
    with budget_of(14 * KIB256, spill=tmp_path if spill else None, recompute=recompute) as budget:
        assert gradients(twice) == wanted
    assert budget.statistics().pressure_count > 0


@pytest.mark.parametrize("way", WAYS)
def test_higher_derivatives(way, tmp_path):
    def penalty(x: Tensor, w: Tensor) -> Tensor:
        (g,) = autograd.grad(chain(x, w, 3), x, create_graph=True)
        return (g * g).sum()

    wanted = gradients(penalty)
    spill, recompute = WAYS[way]
    nbytes = int(least_more(lambda: gradients(penalty)) * 0.7)
    with budget_of(nbytes, spill=tmp_path if spill else None, recompute=recompute) as budget:
        assert gradients(penalty) == wanted
    assert budget.statistics().pressure_count > 0


def test_one_gradient_and_then_another_of_the_same_graph():
    def parts(x: Tensor, w: Tensor) -> Tensor:
        loss = chain(x, w, 6)
        (g,) = autograd.grad(loss, w, retain_graph=True)
        (h,) = autograd.grad(loss, x, retain_graph=True)
        return loss * g.sum().detach() * h.sum().detach()

    wanted = gradients(parts)
    with budget_of(14 * KIB256):
        assert gradients(parts) == wanted


def test_a_parameter_that_is_written_to_before_backward():
    def written(x: Tensor, w: Tensor) -> Tensor:
        loss = chain(x, w, 8)
        with tensor.no_grad():
            w.mul_(3)
            x.zero_()
        return loss

    wanted = gradients(written)
    with budget_of(14 * KIB256) as budget:
        assert gradients(written) == wanted
    assert budget.statistics().recomputed_count > 0


def test_writes_in_place_on_the_way(tmp_path):
    def writes(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(8):
            x = x * 1.5
            x[: N // 2].mul_(0.5)
            y = x.sin()
            x.tanh_().add_(y, alpha=0.5)
            x = x @ w * 0.05
        return x.square().mean()

    wanted = gradients(writes)
    with budget_of(int(least_more(lambda: gradients(writes)) * 0.6), spill=tmp_path) as budget:
        assert gradients(writes) == wanted
    assert budget.statistics().pressure_count > 0


def test_indices_that_change_before_backward():
    rows = np.arange(N)[::-1].copy()

    def picked(x: Tensor, w: Tensor) -> Tensor:
        places = tensor.from_numpy(rows)
        for _ in range(8):
            x = x[places].sin().exp() * 0.3
        rows[:] = 0
        loss = x.mean() + w.sum()
        loss.backward(retain_graph=True)
        rows[:] = np.arange(N)[::-1]
        return loss

    wanted = gradients(picked)
    with budget_of(9 * KIB256) as budget:
        assert gradients(picked) == wanted
    assert budget.statistics().pressure_count > 0


def test_checkpoints_inside():
    def checkpointed(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(4):
            x = autograd.checkpoint(lambda x: ((x @ w) * 0.05).sin().exp().tanh(), x)
            x = x.sin().cos()
        return x.mean()

    wanted = gradients(checkpointed)
    with budget_of(11 * KIB256) as budget:
        assert gradients(checkpointed) == wanted
    assert budget.statistics().pressure_count > 0


def test_scopes_that_end_inside_and_parameters_that_are_disposed():
    def scoped(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(8):
            with new_dispose_scope() as scope:
                factor = tensor.full((N, N), 0.5)
                x = scope.move_to_outer((x * factor).sin().exp())
        y = w.clone()
        loss = (x * y).mean()
        y.dispose()
        x.dispose()
        return loss

    wanted = gradients(scoped)
    with budget_of(18 * KIB256) as budget:
        assert gradients(scoped) == wanted
    assert budget.statistics().pressure_count > 0


def test_graph_statistics_count_what_is_in_memory():
    x = values()
    with budget_of(6 * KIB256):
        y = x
        for _ in range(20):
            y = y.sin()
        held = autograd.graph_statistics(y)
        assert held.bytes_held_alone <= 6 * KIB256
        y.sum().backward()


def test_a_graph_that_is_dropped_leaves_nothing():
    x = values()
    before = memory.statistics().bytes_live
    with budget_of(5 * KIB256):
        y = x
        for _ in range(20):
            y = y.sin()
        del y
        assert memory.statistics().bytes_live == before
    assert memory.statistics().bytes_live == before


# --- Tensors that nobody looks at ---------------------------------------------------------------------------


def test_idle_tensors_move_to_the_file_and_are_read_at_their_next_use(tmp_path):
    array = np.random.default_rng(0).standard_normal((4, N, N), np.float32)
    state = [tensor.tensor(part) for part in array]
    columns = tensor.tensor(np.asfortranarray(array[0]))
    live = memory.statistics().bytes_live
    with budget_of(0, spill=tmp_path) as budget:
        room = tensor.ones((5, N, N))
        assert memory.statistics().bytes_live <= live
        assert budget.statistics().spilled_bytes == 5 * KIB256
        assert not any(x.is_invalid for x in state)
        room.dispose()
        for x, part in zip(state, array, strict=True):
            assert (x.numpy() == part).all()
        assert (columns.numpy() == array[0]).all()
        assert columns.stride() == (1, N)
    assert budget.statistics().read_bytes == 5 * KIB256


def test_a_tensor_in_the_file_can_be_written_moved_cloned_and_disposed(tmp_path):
    with new_dispose_scope() as scope:
        x, y, z = (tensor.full((N, N), float(i)) for i in range(3))
        before = memory.statistics().bytes_live
        with budget_of(0, spill=tmp_path):
            tensor.ones((3, N, N)).dispose()
            assert memory.statistics().bytes_live == before - 3 * KIB256
            assert scope.nbytes == 0
            x.add_(1)
            assert float(x.sum()) == N * N
            taken = tensor.Tensor.from_handle(y.move_handle())
            assert (taken.clone() == 1).all()
            z.dispose()
            with pytest.raises(tensor.TensorDisposedError, match=r"float32 tensor of shape \(256, 256\)"):
                z.sum()
    assert list(tmp_path.iterdir()) == []


def test_tensors_with_views_or_exported_arrays_stay_in_memory(tmp_path):
    seen = tensor.ones((N, N))
    outside = seen.numpy()
    base = tensor.ones((N, N))
    view = base[0]
    with budget_of(KIB256, spill=tmp_path) as budget:
        with pytest.raises(memory.OutOfMemoryError):
            tensor.ones((2, N, N))
        outside[:] = 2
        view.zero_()
    assert budget.statistics().spilled_bytes == 0
    assert (seen == 2).all()
    assert (base[0] == 0).all()


def test_gradients_wait_in_the_file_until_the_optimizer_steps(tmp_path):
    def trained(budget: Any) -> list[bytes]:
        tensor.manual_seed(0)
        weights = [tensor.randn(N, N, requires_grad=True) for _ in range(6)]
        momenta = [tensor.zeros((N, N)) for _ in weights]
        x = tensor.randn(N, N)
        with budget:
            for _ in range(2):
                y = x
                for w in weights:
                    y = (y @ w).tanh()
                y.sum().backward()
                del y
                for w, momentum in zip(weights, momenta, strict=True):
                    with tensor.no_grad():
                        momentum.mul_(0.5).add_(w.grad)
                        w.sub_(momentum)
                    w.grad = None
        return [w.detach().numpy().tobytes() for w in weights]

    with memory.measure() as used:
        wanted = trained(contextlib.nullcontext())
    with budget_of(int(used.peak_bytes_change * 0.7), spill=tmp_path) as outer:
        assert trained(contextlib.nullcontext()) == wanted
    assert outer.statistics().spilled_bytes > 0


@pytest.mark.parametrize("in_backward", [True, False])
def test_optimizer_steps_fit_where_all_parameters_and_their_state_do_not(in_backward, tmp_path):
    def trained(budget: Any, in_backward: bool) -> list[bytes]:
        tensor.manual_seed(0)
        weights = [nn.Parameter(tensor.randn(N, N)) for _ in range(4)]
        groups = [[w] for w in weights] if in_backward else [weights]
        optimizers = [optim.Adam(group, lr=0.01) for group in groups]

        def update(optimizer: optim.Optimizer) -> None:
            optimizer.step()
            optimizer.zero_grad()

        if in_backward:
            for w, optimizer in zip(weights, optimizers, strict=True):
                w.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: update(optimizer))
        x = tensor.randn(2, N)
        with budget:
            for _ in range(3):
                y = x
                for w in weights:
                    y = (y @ w).tanh()
                y.sum().backward()
                if not in_backward:
                    update(*optimizers)
        return [w.detach().numpy().tobytes() for w in weights]

    wanted = trained(contextlib.nullcontext(), in_backward=False)
    # 4 weights; with their gradients and averages they are 16.
    budget = budget_of(12 * KIB256, spill=tmp_path)
    assert trained(budget, in_backward) == wanted
    assert budget.statistics().spilled_bytes > 0


def test_backward_of_a_product_needs_one_derivative_at_a_time(tmp_path):
    def trained(budget: Any) -> list[bytes]:
        tensor.manual_seed(0)
        x, w = (tensor.randn(N, N, requires_grad=True) for _ in range(2))
        gradient = tensor.randn(N, N)
        with budget:
            nn.functional.linear(x, w).backward(gradient)
        return [each.grad.numpy().tobytes() for each in (x, w)]

    wanted = trained(contextlib.nullcontext())
    # One derivative takes four arrays: the output and its gradient, one factor, and the result.
    budget = budget_of(int(4.5 * KIB256), spill=tmp_path)
    assert trained(budget) == wanted


def test_a_read_that_fails_leaves_the_tensor_in_the_file(monkeypatch, tmp_path):
    x = tensor.full((N, N), 3.0)
    with budget_of(1024, spill=tmp_path):
        room = tensor.ones((N, N))
        room.dispose()
        with monkeypatch.context() as patch:
            patch.setattr(SpillFile, "_read_at", lambda *_: 0)
            with pytest.raises(SpillError, match="still in the file"):
                x.sum()
        assert float(x.sum()) == 3 * N * N


# --- Blocks -------------------------------------------------------------------------------------------------


def test_budgets_nest_and_the_smaller_holds():
    wanted = gradients()
    with budget_of(40 * KIB256):
        with budget_of(14 * KIB256) as inner:
            assert gradients() == wanted
        assert gradients() == wanted
    assert inner.statistics().peak_bytes <= inner.nbytes
    assert inner.statistics().recomputed_count > 0


def test_a_budget_serves_many_blocks_one_after_the_other():
    wanted = gradients()
    budget = budget_of(14 * KIB256)
    for _ in range(3):
        with budget:
            assert gradients() == wanted
    with budget, pytest.raises(RuntimeError, match="open already"), budget:
        pass
    assert budget.statistics().recomputed_count > 0
    assert "not open" in repr(budget)


MIB = 2**20


def test_peak_of_reserved_bytes_includes_memory_reserved_ahead():
    with memory.budget("100 MiB") as budget:
        before = budget.statistics().peak_reserved_bytes
        with memory.reserve("50 MiB"):
            kept = tensor.zeros((MIB,))
            del kept
    assert budget.statistics().peak_reserved_bytes == before + 50 * MIB


def test_peak_of_reserved_bytes_includes_small_tensors():
    with memory.budget("100 MiB") as budget:
        before = budget.statistics().peak_reserved_bytes
        kept = [tensor.zeros((500,)) for _ in range(1000)]
        assert budget.statistics().peak_reserved_bytes == before + len(kept) * 2000


def test_peak_of_reserved_bytes_includes_free_blocks_beside_small_tensors():
    with memory.budget("100 MiB") as budget:
        large = tensor.zeros((MIB,))
        before = budget.statistics().peak_reserved_bytes
        assert before >= 4 * MIB
        del large
        kept = [tensor.zeros((500,)) for _ in range(1000)]
        figures = budget.statistics()
        assert figures.peak_reserved_bytes == before + len(kept) * 2000
        assert figures.peak_bytes < figures.peak_reserved_bytes


def test_peaks_of_a_budget_are_those_of_all_its_blocks():
    budget = memory.budget("100 MiB")
    with budget:
        tensor.zeros((4 * MIB,))
    memory.trim()
    with budget:
        tensor.zeros((MIB,))
    tensor.zeros((8 * MIB,))
    figures = budget.statistics()
    assert 16 * MIB <= figures.peak_bytes <= figures.peak_reserved_bytes < 32 * MIB


def test_threads_with_a_budget_each():
    wanted, found = gradients(), []
    start = threading.Barrier(2)
    limit = memory.statistics().bytes_live + 40 * KIB256

    def run() -> None:
        start.wait()
        with memory.budget(limit):
            found.extend(gradients() == wanted for _ in range(3))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6


def test_tasks_inherit_the_budget():
    wanted = gradients()

    async def step() -> bool:
        await asyncio.sleep(0)
        return gradients() == wanted

    async def both() -> list[bool]:
        with budget_of(16 * KIB256) as budget:
            found = await asyncio.gather(step(), step())
        assert budget.statistics().recomputed_count > 0
        return list(found)

    assert asyncio.run(both()) == [True, True]


def test_sizes_that_are_none_are_named():
    with pytest.raises(ValueError, match="size"):
        memory.budget("much")


def test_the_folder_stays_empty_while_values_are_in_the_file(tmp_path: Path):
    x = values()
    with budget_of(6 * KIB256, spill=tmp_path, recompute=False) as budget:
        y = x
        for _ in range(10):
            y = y.sin()
        assert budget.statistics().spilled_bytes > 0
        assert list(tmp_path.iterdir()) == []
        y.sum().backward()


def test_long_run_in_one_budget_keeps_no_records_of_freed_nodes():
    x = tensor.ones((4,), requires_grad=True)
    with memory.budget("1 GiB") as budget:
        for _ in range(3000):
            (x * 2).sum().backward()
        tape: Any = budget._tape
        assert len(tape.nodes) < 2000
        assert len(tape.recipes_with_memory) < 2000
