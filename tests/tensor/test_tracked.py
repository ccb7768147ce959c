"""Tensors while tracking is on: what is known of them, and that they are tensors as before."""

import copy
import gc
import inspect
import pickle
import threading
from collections.abc import Callable, Iterator

import pytest

import nn
import scopes
import tensor
from scopes import (
    DisposeScope,
    DisposeStatistics,
    LeakRow,
    leaks,
    new_dispose_scope,
    scope_tree,
    statistics,
    track,
)
from scopes.tracking.records import Record
from scopes.tracking.tracking import record_of
from tensor import Tensor, TensorDisposedError, autograd, memory
from tensor.lowlevel import TensorCore
from tests.threads import run_at_once


@pytest.fixture(autouse=True)
def tracking_is_off_afterwards() -> Iterator[None]:
    yield
    assert not scopes.is_tracking()


def known_of(x: object) -> Record:
    record = record_of(x)
    assert record is not None
    return record


def row_of(text: str) -> LeakRow:
    """Return the row of the line with this in its source."""
    rows = [row for row in leaks().rows if text in row.site.text]
    assert len(rows) == 1, leaks()
    return rows[0]


def test_a_tracked_tensor_is_a_tensor_by_every_look() -> None:
    with track():
        x = tensor.tensor([[1.0, 2.0]], requires_grad=True)
        y = x * 2
        assert isinstance(x, Tensor)
        assert isinstance(y, TensorCore)
        assert (type(x).__name__, type(x).__qualname__, type(x).__module__) == (
            "Tensor",
            "Tensor",
            "tensor",
        )
        assert type(x) is type(y)
        assert repr(y.detach()) == "tensor([[2., 4.]])"
        shown = repr(x)
    assert shown == repr(tensor.tensor([[1.0, 2.0]], requires_grad=True))


def test_copies_and_pickles_of_tracked_tensors_are_tensors() -> None:
    with track():
        x = tensor.tensor([1.0, 2.0], requires_grad=True)
        stored = pickle.dumps(x)
        for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(stored)):
            assert isinstance(other, Tensor)
            assert (other.tolist(), other.requires_grad) == ([1.0, 2.0], True)
            assert known_of(other).kind == "Tensor"
    again = pickle.loads(stored)
    assert type(again) is Tensor
    assert again.tolist() == [1.0, 2.0]


def every_road(scope: DisposeScope) -> list[object]:
    """Create, move, share, derive and dispose in all the ways there are."""
    a = tensor.ones((4, 4))
    b = tensor.tensor([[1.0] * 4] * 4, requires_grad=True)
    c = (a @ b + b).relu()
    view, alias, clone, detached = c[0], c.alias(), c.clone(), c.detach()
    c.sum().backward()
    clone += 1  # a write in place
    parameter = nn.Parameter(tensor.zeros((3,)))
    again = Tensor.from_handle(tensor.ones((2,)).move_handle())
    donated = tensor.ones((8,)).donate() + 1
    with new_dispose_scope() as inner:
        moved = inner.move_to_outer(tensor.rand(2))
        left = inner.detach(tensor.rand(2))
        inner.dispose_everything_but(tensor.rand(2))
        _ = tensor.rand(2)
    scope.attach(left)
    alias.dispose()
    view.dispose()
    return [a, b, detached, parameter, again, donated, moved]


def figures_of(run: Callable[[], object]) -> tuple[DisposeStatistics, DisposeStatistics, int]:
    gc.collect()
    before, kind, live = (
        statistics.snapshot(),
        statistics.of(Tensor).snapshot(),
        memory.statistics().bytes_live,
    )
    kept = run()
    during = statistics.snapshot() - before, statistics.of(Tensor).snapshot() - kind
    nbytes = memory.statistics().bytes_live - live
    del kept
    return *during, nbytes


def test_statistics_and_memory_are_the_same_with_tracking_on_and_off() -> None:
    def run() -> object:
        with new_dispose_scope() as scope:
            kept = every_road(scope)
            return scope.detach(kept)

    figures_of(run)
    off = figures_of(run)
    with track():
        on = figures_of(run)
    assert on == off
    assert on[0].created_in_scope_count > 15


def test_gradients_are_the_same_with_tracking_on_and_off() -> None:
    def run() -> tuple[list[object], list[object]]:
        tensor.manual_seed(3)
        x = tensor.randn(4, 3)
        w = tensor.randn(3, 2).requires_grad_()
        loss = ((x @ w).tanh() ** 2).sum()
        (first,) = autograd.grad(loss, [w], create_graph=True)
        (second,) = autograd.grad((first * first).sum(), [w])
        return first.tolist(), second.tolist()

    off = run()
    with track():
        assert run() == off


def test_tensors_made_before_tracking_work_with_those_made_under_it_and_after_it() -> None:
    before = tensor.ones((3,)).requires_grad_()
    with track():
        during = tensor.ones((3,)).requires_grad_()
        ((before + during) * before).sum().backward()
    after = tensor.ones((3,)) * during * before
    after.sum().backward()
    assert (before.grad.tolist(), during.grad.tolist()) == ([4.0] * 3, [2.0] * 3)
    assert type(tensor.ones((1,)) + during) is Tensor


def test_a_tensor_of_an_earlier_block_is_unknown_to_the_next_one_even_when_it_moves() -> None:
    with new_dispose_scope() as outer, new_dispose_scope() as inner:
        with track():
            x = tensor.ones((2,))
        with track():
            inner.move_to_outer(x)
            outer.detach(x)
            outer.attach(x)
            assert record_of(x) is None
            assert leaks().count == 0
            x.dispose()


def test_moves_between_scopes_change_no_record() -> None:
    with track(), new_dispose_scope("outer"), new_dispose_scope("inner") as inner:
        x = tensor.ones((2,))
        record = known_of(x)
        site, serial = record.site, record.serial
        inner.move_to_outer(x)
        x.detach_from_dispose_scope()
        assert known_of(x) is record
        assert (record.site, record.serial, record.scope) == (site, serial, ("outer", "inner"))


def test_record_omits_a_scope_that_another_thread_has_ended() -> None:
    with track(), new_dispose_scope("outer"):
        new_dispose_scope("ended elsewhere")
        thread = threading.Thread(target=scopes.current_dispose_scope().dispose)
        thread.start()
        thread.join()
        x = tensor.ones((2,)) + 1
        assert known_of(x).scope == ("outer",)
        assert x.owning_dispose_scope is not None


def test_a_parameter_takes_the_place_of_its_data_in_the_report() -> None:
    with track():
        data = tensor.ones((250,))
        parameter = nn.Parameter(data)
        (row,) = leaks().rows
        assert (row.kinds, row.count, row.nbytes) == (("Parameter",), 1, 1000)
        assert row.site.text == "parameter = nn.Parameter(data)"
        assert known_of(data).ended == "its handle moved into a Parameter"
        assert scope_tree().root.alive_bytes == 1000
        parameter.dispose()
        assert known_of(parameter).ended == "it was disposed by dispose()"
        assert leaks().count == 0


def test_moved_handle_is_reported_for_the_line_that_takes_it() -> None:
    with track():
        handle = tensor.ones((2,)).move_handle()
        assert leaks().count == 0
        taken = Tensor.from_handle(handle)
        assert row_of("from_handle").count == 1
        assert not taken.is_invalid


def test_parameters_are_reported_for_the_line_that_made_the_module() -> None:
    with track():
        model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))
        (row,) = leaks().rows
        assert (row.count, row.nbytes) == (4, 4 * (10 * 20 + 20 + 20 * 5 + 5))
        assert row.site.text.startswith("model = nn.Sequential(")
        assert not row.is_growing
        model.dispose()
        assert leaks().count == 0


def test_optimizer_state_is_reported_for_the_line_that_made_the_optimizer() -> None:
    with track():
        model = nn.Linear(10, 10)
        optimizer = nn.optim.Adam(model.parameters())
        model(tensor.ones((1, 10))).sum().backward()
        optimizer.step()
        row = row_of("nn.optim.Adam")
        assert row.kinds == ("Adam", "Tensor")
        assert (row.count, row.nbytes) == (5, 2 * 4 * 110)
        optimizer.dispose()
        assert "nn.optim.Adam" not in str(leaks())


def test_gradients_are_put_to_the_line_of_backward() -> None:
    with track():
        model = nn.Linear(10, 10)
        model(tensor.ones((1, 10))).sum().backward()
        row = row_of(".backward()")
        assert (row.count, row.nbytes) == (2, 4 * 110)
        model.zero_grad()
        assert ".backward()" not in str(leaks())


def test_views_aliases_and_clones_share_the_bytes_of_one_buffer() -> None:
    with track():
        x = tensor.ones((100,))
        kept = [x[:50], x.alias(), x.clone(), x.detach(), x.reshape(10, 10)]
        assert (leaks().count, leaks().nbytes) == (6, 400)
        assert scope_tree().root.alive_bytes == 400
        x.dispose()
        assert (leaks().count, leaks().nbytes) == (5, 400)
        assert scope_tree().root.alive_bytes == 400
        kept.clear()
        assert (leaks().count, leaks().nbytes) == (0, 0)
        assert scope_tree().root.alive_bytes == 0


def test_a_clone_that_was_written_counts_by_itself() -> None:
    with track():
        x = tensor.ones((100,))
        y = x.clone()
        y += 1
        assert leaks().nbytes == 800


def test_losses_with_their_graphs_keep_each_buffer_once_and_the_parameters_are_the_models() -> None:
    steps, batch, width = 10, 16, 32
    with track():
        model = nn.Linear(width, width)
        parameters = leaks().nbytes
        start = scopes.snapshot()
        live = memory.statistics().bytes_live
        losses = []
        for _ in range(steps):
            with new_dispose_scope("step") as scope:
                h = model(tensor.randn(batch, width)).tanh()
                loss = (h * h).sum()
                losses.append(scope.move_to_outer(loss))
        report = leaks()
        row = row_of("loss = (h * h)")
        assert (row.count, row.count_per_round, report.rounds) == (steps, 1.0, steps)
        # The graphs' memory is all that has come since.
        assert row.nbytes == memory.statistics().bytes_live - live
        assert report.nbytes == parameters + row.nbytes
        assert leaks(since=start).nbytes == row.nbytes
        assert row.bytes_per_round == row.nbytes / steps
        losses.clear()
        del loss, h
        assert leaks().nbytes == parameters


def test_an_empty_tensor_names_the_lines_that_created_and_disposed_it() -> None:
    here = inspect.currentframe()
    assert here is not None
    with track():
        x = tensor.ones((2,))
        created = here.f_lineno - 1
        x.dispose()
        ended = here.f_lineno - 1
        with pytest.raises(TensorDisposedError) as raised:
            x + 1
    text = str(raised.value)
    assert f"test_tracked.py:{created} in " in text.partition("It was created by ")[2]
    assert f"test_tracked.py:{ended} in " in text.partition("and ended by ")[2]


def test_a_tensor_that_its_scope_ended_names_the_line_of_the_scope() -> None:
    with track():
        with new_dispose_scope("step"):
            x = tensor.ones((2,))
        with pytest.raises(
            TensorDisposedError, match=r"its dispose scope 'step' ended\. It was created by .* and "
        ):
            x + 1
        where = known_of(x).ended_at
        assert where is not None
        assert where.text == 'with new_dispose_scope("step"):'


def test_a_parameter_names_both_lines_too() -> None:
    with track():
        parameter = nn.Parameter(tensor.ones((2,)))
        parameter.dispose()
        with pytest.raises(
            TensorDisposedError, match=r"It was created by .*test_tracked.* and ended by .*test_tr"
        ):
            parameter + 1


def test_without_tracking_the_error_names_no_lines() -> None:
    with track():
        x = tensor.ones((2,))
        x.dispose()
    with pytest.raises(TensorDisposedError) as raised:
        x + 1
    assert "created by" not in str(raised.value)


def test_survivors_are_the_members_of_the_scope_by_line() -> None:
    with track(), new_dispose_scope() as outer:
        outside = tensor.ones((10,))
        with new_dispose_scope("step") as scope:
            kept = [tensor.ones((10,)) for _ in range(3)]
            gone = tensor.ones((10,))
            del gone
            rows = scope.survivors().rows
            assert [(row.count, row.nbytes) for row in rows] == [(3, 120)]
            scope.move_to_outer(kept)
            assert scope.survivors().rows == ()
            assert outer.survivors().count == 4
        del outside


def test_eight_threads_of_tensors_leave_exact_records_and_statistics() -> None:
    rounds, threads = 200, 8
    kept: list[Tensor] = []

    def work() -> None:
        for _ in range(rounds):
            with new_dispose_scope("step") as scope:
                x = tensor.ones((25,))
                y = (x * 2)[:5]
                kept.append(scope.detach(y))
                x.dispose()

    with track():
        before = statistics.snapshot()
        # Memory that one thread frees another one gets before the first goes on.
        run_at_once([threading.Thread(target=work) for _ in range(threads)], switch_after=1e-6)
        all_of_them = rounds * threads
        report = leaks()
        assert (report.count, report.nbytes) == (all_of_them, 100 * all_of_them)
        assert (statistics.snapshot() - before).live_count == all_of_them
        row = scope_tree()["step"]
        assert (row.rounds, row.created_count, row.alive_count) == (all_of_them, 3 * all_of_them, all_of_them)
        assert row.alive_bytes == 100 * all_of_them
        kept.clear()
        assert scope_tree().root.alive_bytes == 0


def test_a_tracked_tensor_is_gone_with_its_last_reference() -> None:
    gc.collect()
    gc.disable()
    try:
        with track(), new_dispose_scope():
            live = memory.statistics().bytes_live
            x = tensor.ones((1000,))
            x = x * 2 + 1
            del x
            assert memory.statistics().bytes_live == live
            assert leaks().count == 0
    finally:
        gc.enable()


def test_growing_lines_come_first_then_those_with_the_most_bytes() -> None:
    with track():
        large = tensor.ones((5000,))
        larger = tensor.ones((9000,))
        small, few = [], []
        for _ in range(12):
            with new_dispose_scope("step") as scope:
                few.append(scope.detach(tensor.ones((10,))))
                small.append(scope.detach(tensor.ones((20,))))
        assert [(row.nbytes, row.is_growing) for row in leaks().rows] == [
            (12 * 80, True),
            (36000, False),
            (20000, False),
            (12 * 40, True),  # less than a hundredth of all
        ]
        del large, larger


def test_the_weights_of_a_model_made_before_tracking_are_not_the_losses() -> None:
    model = nn.Linear(100, 1)
    x = tensor.ones((2, 100), requires_grad=True)
    with track():
        loss = model(x).sum()
        (row,) = leaks().rows
        assert (row.count, row.nbytes) == (1, loss.nbytes)
