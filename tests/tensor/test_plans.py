"""Plans of what functions allocate, blocks reserved for them, and memory taken ahead for the pool."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nn
import tensor
from tensor import memory
from tensor.memory.placement import Life, most_alive, place

N = 30_000


def work() -> float:
    x = tensor.ones((N,))
    y = x * 2
    del x
    z = (y + 1) * 3
    return z.sum().item()


def step_of(batch: int = 64):
    random = np.random.default_rng(0)
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-3)
    x = tensor.tensor(random.standard_normal((batch, 64), dtype=np.float32))
    targets = tensor.tensor(random.integers(0, 10, batch))

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    step()
    return step


def test_a_plan_reports_the_tensors_alive_at_the_same_time():
    plan = memory.plan(work)
    assert plan.allocation_count == 4
    assert plan.lower_bound_bytes == 3 * 4 * N  # y, y + 1 and z
    assert plan.lower_bound_bytes <= plan.arena_bytes <= 1.1 * plan.lower_bound_bytes


def test_peak_of_the_plan_is_that_of_the_next_run():
    step = step_of()
    plan = memory.plan(step)
    with memory.measure() as measured:
        step()
    assert abs(plan.peak_bytes - measured.peak_bytes) <= 0.01 * measured.peak_bytes


def test_reserved_block_serves_every_planned_allocation():
    expected = work()
    plan = memory.plan(work)
    with plan.reserved() as same:
        assert same is plan
        for _ in range(5):
            assert work() == expected
    assert (plan.served_count, plan.missed_count) == (20, 0)


def test_training_in_the_reserved_block_gives_the_same_losses():
    plain, planned = step_of(), step_of()
    expected = [plain() for _ in range(6)]
    found = []
    plan = memory.plan(lambda: found.append(planned()))
    with plan.reserved():
        found += [planned() for _ in range(5)]
    assert found == expected
    assert plan.missed_count == 0


def test_allocations_outside_the_plan_come_from_the_pool_and_count():
    plan = memory.plan(work)
    with plan.reserved():
        other = tensor.ones((N + 1,)) * 5
        assert work() == N * 9
        assert other.sum().item() == 5 * (N + 1)
    assert plan.missed_count == 2
    assert plan.served_count == 4


def test_place_that_is_taken_is_not_given_twice():
    plan = memory.plan(work)
    kept = []
    with plan.reserved():
        for i in range(6):
            kept.append(tensor.full((N,), float(i)))
            work()
    assert [x.sum().item() for x in kept] == [i * N for i in range(6)]
    assert plan.missed_count > 0


def test_array_outlives_the_block_and_keeps_its_memory():
    plan = memory.plan(work)
    before = memory.statistics().bytes_cached
    with plan.reserved():
        kept = tensor.full((N,), 7.0)
    assert plan.served_count == 1
    work()
    assert kept.sum().item() == 7 * N
    del kept
    gc.collect()
    memory.trim()
    assert memory.statistics().bytes_cached <= before


def test_plan_that_does_not_fit_the_limit_says_so_before_anything_runs():
    plan = memory.plan(work)
    ran = []
    memory.trim()
    live = memory.statistics().bytes_live
    with memory.limit(live + plan.arena_bytes // 2):
        with pytest.raises(memory.OutOfMemoryError) as caught, plan.reserved():
            ran.append(work())
    assert not ran
    assert caught.value.asked == plan.arena_bytes


def test_block_counts_within_the_limit():
    plan = memory.plan(work)
    memory.trim()
    live = memory.statistics().bytes_live + memory.statistics().bytes_pinned
    with memory.limit(live + plan.arena_bytes + 4096), plan.reserved():
        assert work() == N * 9
        with pytest.raises(memory.OutOfMemoryError):
            tensor.ones((10 * N,))


def test_other_threads_take_their_memory_from_the_pool():
    plan = memory.plan(work)
    found = []
    with plan.reserved():
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        thread.join()
        assert (plan.served_count, plan.missed_count) == (0, 0)
    assert found == [N * 9]
    assert plan.served_count == 0


def test_blocks_nest_and_the_inner_one_serves():
    outer, inner = memory.plan(work), memory.plan(work)
    with outer.reserved():
        with inner.reserved():
            work()
        work()
    assert (outer.served_count, inner.served_count) == (4, 4)


def test_error_in_the_block_gives_the_memory_back():
    plan = memory.plan(work)
    memory.trim()
    before = memory.statistics().bytes_cached
    with pytest.raises(KeyError), plan.reserved():
        raise KeyError
    assert memory.statistics().bytes_cached == before


def test_error_in_the_function_ends_the_recording():
    def fail():
        tensor.ones((N,))
        raise KeyError

    with pytest.raises(KeyError):
        memory.plan(fail)
    assert memory.plan(work).allocation_count == 4


def test_plan_inside_a_plan_is_an_error():
    with pytest.raises(RuntimeError, match="another plan is being recorded"):
        memory.plan(lambda: memory.plan(work))


def test_function_without_large_arrays_has_an_empty_plan():
    plan = memory.plan(lambda: tensor.ones((2,)) + 1)
    assert (plan.allocation_count, plan.arena_bytes) == (0, 0)
    with plan.reserved():
        pass


def test_table_names_the_lines():
    plan = memory.plan(work)
    assert "test_plans.py" in plan.table()
    assert sum(count for count, _ in plan.by_line().values()) == 4
    assert "4 large arrays" in str(plan)


def test_columns_of_the_table_are_aligned():
    head, *rows = memory.plan(work).table().splitlines()
    for column in ("arrays", "bytes"):
        end = head.index(column) + len(column)
        assert all(row[end - 1] != " " and row[end : end + 2] == "  " for row in rows)
    assert all(row[head.index("line") - 1] == " " != row[head.index("line")] for row in rows)


def test_picture_shows_bytes_over_time():
    pytest.importorskip("matplotlib")
    figure = memory.plan(work).plot()
    assert figure.axes[0].get_ylabel() == "MiB of large arrays"


# --- Memory for the pool ------------------------------------------------------------------------------------


def test_reserved_memory_serves_the_pool():
    memory.trim()
    with memory.reserve("4 MiB") as ahead:
        assert ahead.nbytes == 4 * 2**20
        before = memory.statistics().bytes_cached
        x = tensor.ones((N,))
        assert memory.statistics().bytes_cached < before
        assert x.sum().item() == N
        y = tensor.ones((4 * 2**20,))  # more than is there: from the system
        assert y.sum().item() == 4 * 2**20
    assert x.sum().item() == N


def test_reserved_memory_is_returned_with_the_last_array_in_it():
    memory.trim()
    before = memory.statistics().bytes_cached
    ahead = memory.reserve("4 MiB")
    x = tensor.ones((N,))
    ahead.release()
    ahead.release()
    del x
    memory.trim()
    assert memory.statistics().bytes_cached == before


def test_reservation_beyond_the_limit_raises():
    memory.trim()
    live = memory.statistics().bytes_live
    with memory.limit(live + 2**20), pytest.raises(memory.OutOfMemoryError):
        memory.reserve("8 MiB")


def test_reservation_needs_a_size():
    with pytest.raises(ValueError, match="much"):
        memory.reserve("much")


# --- Placement ----------------------------------------------------------------------------------------------


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    found = []
    for _ in range(draw(st.integers(1, 25))):
        begin = draw(st.integers(0, 40))
        end = draw(st.integers(begin + 1, 60))
        until = draw(st.integers(0, begin)) if end == 60 else 0
        found.append(Life(draw(st.integers(1, 1000)), begin, end, until))
    return found


def moments(life: Life) -> set[int]:
    return set(range(life.begin, life.end)) | set(range(life.until))


@given(lives())
def test_arrays_alive_at_once_never_overlap(found):
    sizes = [life.nbytes for life in found]
    offsets, total = place(found, sizes)
    assert most_alive(found, sizes, 60) <= total <= sum(sizes)
    for i, one in enumerate(found):
        assert 0 <= offsets[i] <= total - sizes[i]
        for j in range(i):
            if moments(one) & moments(found[j]):
                assert offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]


@pytest.mark.parametrize(
    ("one", "other", "are_alive_at_once"),
    [
        (Life(3, 0, 5), Life(2, 5, 9), False),
        (Life(3, 0, 6), Life(2, 5, 9), True),
        (Life(3, 10, 40), Life(2, 50, 60, until=5), False),
        (Life(3, 10, 40), Life(2, 50, 60, until=10), False),
        (Life(3, 10, 40), Life(2, 50, 60, until=11), True),
        (Life(3, 10, 12), Life(2, 50, 60, until=5), False),
        (Life(3, 40, 60, until=20), Life(2, 50, 60, until=10), True),
    ],
)
def test_two_arrays_have_one_place_unless_they_are_alive_at_once(one, other, are_alive_at_once):
    for first, second in ((one, other), (other, one)):
        for sizes in ([3, 2], [2, 3]):
            offsets, total = place([first, second], sizes)
            assert total == (5 if are_alive_at_once else 3)
            assert 0 in offsets
            assert (offsets == [0, 0]) == (not are_alive_at_once)


# A program: put a tensor of so many pages into one of five places, which lets go of what was there.
programs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=30)


def run(program: list[tuple[int, int]], places: dict[int, tuple[tensor.Tensor, float]]) -> None:
    for number, (key, pages) in enumerate(program):
        if pages:
            places[key] = tensor.full((pages * 2048,), float(number)), number
        else:
            places.pop(key, None)
        for x, value in places.values():
            assert x.min().item() == x.max().item() == value


@given(programs, programs, programs)
def test_no_program_reads_what_another_wrote_whatever_the_plan(planned, first, second):
    plan = memory.plan(run, planned, {})
    places: dict[int, tuple[tensor.Tensor, float]] = {}
    with plan.reserved():
        run(first, places)
        run(second, places)
    run(first, places)


def test_most_alive_is_the_largest_sum_of_overlapping_lives():
    found = [Life(10, 0, 5), Life(20, 3, 8), Life(40, 5, 9)]
    assert most_alive(found, [10, 20, 40], 9) == 60


def test_placement_of_no_arrays_is_empty():
    assert place([], []) == ([], 0)


def test_figures_count_inside_the_block() -> None:
    x = tensor.ones((1000, 100))
    plan = memory.plan(lambda: ((x * 2) + 1).sum())
    with plan.reserved():
        _y = ((x * 2) + 1).sum()
        assert (plan.served_count, plan.missed_count) == (2, 0)
    assert (plan.served_count, plan.missed_count) == (2, 0)


def test_allocations_in_reserved_memory_count_as_reuse() -> None:
    memory.trim()
    with memory.reserve("10 MiB"):
        before = memory.statistics()
        _x = tensor.ones((100_000,))
        change = memory.statistics() - before
    assert (change.reuse_count, change.reuse_miss_count) == (1, 0)
