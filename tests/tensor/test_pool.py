"""The pool and the books: which memory an array gets, and that every byte of it is counted while it lives."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tensor import memory
from tensor.kernels import copy
from tensor.memory import accounting, leases
from tensor.memory import pool as _pool
from tensor.memory.accounting import charge, sizes
from tensor.memory.books import Block
from tensor.memory.leases import books
from tensor.memory.pool import capacity_for, empty, hold_of, pool, zeros
from tests.tensor.arrays import Array, is_pooled
from tests.threads import run_at_once

LARGE = 10_000  # float64 elements: 80,000 bytes


class Held:
    """Holds an array as a tensor does."""

    __slots__ = ("__weakref__", "array", "hold")

    def __init__(self, array: Array) -> None:
        n = array.nbytes
        try:
            hold = sizes[n]
        except KeyError:
            hold = hold_of(array)
        else:
            left = hold.left = hold.left - 1
            if left < 0:
                charge(n)
        self.hold = hold
        self.array = array


@pytest.fixture(autouse=True)
def settings_as_before() -> Iterator[None]:
    gc.collect()
    memory.trim()
    before = memory.configuration()
    memory.configure(min_pooled_bytes=2**15)  # lest large arrays have to be larger
    yield
    memory.configure(**before._asdict())


def live() -> int:
    return memory.statistics().bytes_live


def address(array: Array) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(LARGE,), (100, 100), (3, 5, 7000), (300_000,), (1_000, 2_000)])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64"])
def test_a_large_array_is_aligned_and_the_owner_of_its_memory(shape: tuple[int, ...], dtype: str) -> None:
    array = empty(shape, np.dtype(dtype))
    assert array.shape == shape
    assert array.dtype == dtype
    assert address(array) % 64 == 0
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert is_pooled(array)
    for view in (array[1:], array[1:][::2], array.T, array.reshape(-1)[3:]):
        assert view.base is array
        assert is_pooled(view)
    array[...] = 1
    assert array.sum() == array.size


@pytest.mark.parametrize("shape", [(), (0,), (5,), (64, 63), (0, LARGE)])
def test_a_small_array_is_numpys_own(shape: tuple[int, ...]) -> None:
    before = live()
    for array in (empty(shape, np.float64), zeros(shape, np.float64), copy(np.ones(shape))):
        assert array.shape == shape
        assert array.base is None
        assert not is_pooled(array)
    assert live() == before


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (20, 30, 40), (1, 100, 100)])
def test_memory_order_follows_the_array_that_it_is_like(
    axes: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    like = np.arange(np.prod(shape), dtype=np.float32).reshape(shape).transpose(axes)
    expected = np.empty_like(like, dtype=np.float64)
    out = empty(like.shape, np.dtype(np.float64), like)
    assert [s for s, n in zip(out.strides, out.shape, strict=True) if n > 1] == [
        s for s, n in zip(expected.strides, expected.shape, strict=True) if n > 1
    ]
    assert empty((LARGE,), np.float64, like).flags.c_contiguous


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::2],
        lambda a: a[:, ::-1].T,
        lambda a: np.broadcast_to(a[0], (300, 200)),
    ],
)
def test_a_copy_has_the_values_and_numpys_memory_order(make) -> None:
    source = make(np.arange(60_000.0).reshape(300, 200))
    out = copy(source)
    np.testing.assert_array_equal(out, source)
    assert out.strides == source.copy(order="K").strides
    assert is_pooled(out)
    assert not np.shares_memory(out, source)


@pytest.mark.parametrize("elements", [LARGE, 500_000])
def test_zeros_are_zero_in_fresh_and_in_used_memory(elements: int) -> None:
    first = zeros((elements,), np.float64)
    assert not first.any()
    first.fill(7)
    where = address(first)
    del first
    second = zeros((elements,), np.float64)
    assert address(second) == where
    assert not second.any()


def test_the_block_that_came_back_last_is_the_first_to_go_out() -> None:
    arrays = [empty((LARGE,), np.float64) for _ in range(3)]
    places = [address(array) for array in arrays]
    for _ in range(3):
        arrays.pop(0)
        leases.drain()
    again = [empty((LARGE,), np.float64) for _ in range(3)]
    assert [address(array) for array in again] == places[::-1]


@pytest.mark.parametrize(
    "look",
    [
        lambda a: a[5:],
        lambda a: a.reshape(100, 100).T[3],
        lambda a: memoryview(a),
        lambda a: a.view(np.uint8),
        lambda a: np.from_dlpack(a),
        lambda a: np.frombuffer(a, np.uint8),
        lambda a: iter(a),
    ],
)
def test_no_block_is_used_again_while_somebody_looks_at_it(look) -> None:
    before = live()
    array = empty((LARGE,), np.float64)
    array.fill(3)
    where = address(array)
    outsider = look(array)
    del array
    others = [empty((LARGE,), np.float64) for _ in range(5)]
    assert where not in [address(other) for other in others]
    del others
    assert live() == before + LARGE * 8
    del outsider
    assert live() == before
    assert where in [address(other) for other in [empty((LARGE,), np.float64) for _ in range(7)]]


@given(st.integers(1, 2**45))
def test_a_block_is_at_most_a_sixteenth_larger_than_what_was_asked_for(n: int) -> None:
    capacity = capacity_for(n)
    assert n <= capacity
    assert capacity - n < max(n / 16, 64)
    assert capacity % 64 == 0
    assert capacity_for(capacity) == capacity
    if n >= 2**20:
        assert capacity % 2**16 == 0


def test_what_is_cached_stays_below_its_maximum_and_the_size_unused_longest_goes_first() -> None:
    sizes_in_use = [40_000, 60_000, 80_000]
    for n in sizes_in_use:
        empty((n,), np.uint8)
    leases.drain()
    empty((40_000,), np.uint8)  # 60,000 is now the one unused longest
    leases.drain()
    capacities = {n: capacity_for(n) for n in sizes_in_use}
    assert memory.statistics().bytes_cached == sum(capacities.values())
    memory.configure(max_cached_bytes=sum(capacities.values()) - 1)
    assert _pool.cached() == {capacities[40_000]: 1, capacities[80_000]: 1}
    memory.configure(max_cached_bytes=50_000)
    assert _pool.cached() == {capacities[40_000]: 1}
    empty((80_000,), np.uint8)
    leases.drain()
    assert _pool.cached() == {capacities[40_000]: 1}


def test_the_block_that_just_came_back_is_handed_on_and_the_figures_tell() -> None:
    first, second = Held(empty((LARGE,), np.float64)), Held(empty((2 * LARGE,), np.float64))
    where = address(first.array)
    memory.reset_peak()
    before = memory.statistics()
    del second, first
    first = Held(empty((LARGE,), np.float64))
    assert address(first.array) == where
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_peak) == (-LARGE * 16, 0)
    assert (change.bytes_allocated, change.bytes_freed) == (LARGE * 8, LARGE * 24)
    assert (change.allocation_count, change.reuse_count, change.reuse_miss_count) == (1, 1, 0)
    assert change.bytes_cached == capacity_for(LARGE * 16)


def test_a_pinned_block_is_live_again_when_it_is_handed_on() -> None:
    before = memory.statistics()
    x = Held(empty((LARGE,), np.float64))
    storage = Storage(x.array)
    leases.note_export(x.array, storage)
    exported = x.array[:]
    del x, storage
    assert memory.statistics().bytes_pinned == before.bytes_pinned + LARGE * 8
    del exported
    x = Held(empty((LARGE,), np.float64))
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_pinned, change.reuse_count) == (LARGE * 8, 0, 1)
    del x


@pytest.mark.parametrize("has_just_come_back", [True, False])
def test_a_shape_that_no_array_has_takes_no_block_away(has_just_come_back: bool) -> None:
    empty((LARGE,), np.float64)
    if not has_just_come_back:
        leases.drain()
    before = live()
    with pytest.raises(ValueError, match="dimension"):
        empty((-LARGE, -1), np.float64)
    assert live() == before
    assert _pool.cached() == {capacity_for(LARGE * 8): 1}


@pytest.mark.parametrize("most", [0, 2**20])
def test_a_block_that_is_let_go_is_gone_without_a_collection(most: int) -> None:
    blocks = len(leases.blocks)
    memory.configure(max_cached_bytes=most)
    gc.disable()
    try:
        x, y = Held(empty((LARGE,), np.float64)), Held(np.ones(LARGE))
        assert len(leases.blocks) == blocks + 2
        before = sum(type(thing) is Block for thing in gc.get_objects())
        del x, y
        memory.trim()
        assert len(leases.blocks) == blocks
        assert sum(type(thing) is Block for thing in gc.get_objects()) == before - 2
    finally:
        gc.enable()


def test_an_array_that_numpy_allocated_is_counted_and_given_back_to_numpy() -> None:
    before = memory.statistics()
    held = Held(np.ones(LARGE))
    assert held.hold is None
    Held(held.array)
    hold_of(held.array[3:])
    change = memory.statistics() - before
    assert change.bytes_live == change.bytes_allocated == LARGE * 8
    assert (change.allocation_count, change.reuse_count, change.reuse_miss_count) == (1, 0, 1)
    del held
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_freed, change.bytes_cached) == (0, LARGE * 8, 0)


def test_borrowed_memory_is_not_counted() -> None:
    before = memory.statistics()
    borrowed = np.frombuffer(bytearray(LARGE * 8))
    assert hold_of(borrowed) is None
    assert hold_of(borrowed[3:]) is None
    assert memory.statistics() == before


def test_small_buffers_are_counted_by_who_holds_them() -> None:
    before = memory.statistics()
    held = [Held(np.ones(50)) for _ in range(10)] + [Held(np.ones(51))]
    change = memory.statistics() - before
    assert change.bytes_live == change.bytes_allocated == 10 * 400 + 408
    assert change.allocation_count == 11
    shared = (held[0].hold,)
    held.clear()
    assert (memory.statistics() - before).bytes_live == 400
    del shared
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_freed) == (0, 10 * 400 + 408)


def test_sizes_beyond_the_most_are_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "MOST_SIZES", 0)
    before = memory.statistics()
    held = [Held(np.ones(n, np.uint8)) for n in range(20_001, 20_301)]
    assert {h.hold for h in held} == {None}
    change = memory.statistics() - before
    assert change.bytes_live == sum(range(20_001, 20_301))
    assert change.allocation_count == 300
    assert (change.reuse_count, change.reuse_miss_count) == (0, 0)
    held.clear()
    assert live() == before.bytes_live


def test_buffers_of_sizes_beyond_the_most_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "MOST_SIZES", 0)
    room = empty((LARGE,), np.float64)
    del room
    for _ in range(100):
        Held(np.ones(20_302, np.uint8))
    assert len(leases.released) <= 1


def test_steady_loops_never_take_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    room = empty((LARGE,), np.float64)
    memory.reset_peak()
    del room
    memory.statistics()
    times = []
    monkeypatch.setattr(accounting, "take_stock", lambda: times.append(1))
    x = Held(np.ones(50))
    for n in (50, 60, 70) * 1000:
        x = Held(np.ones(n))
    assert not times
    monkeypatch.undo()
    del x


def test_a_loop_at_its_peak_seldom_takes_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.reset_peak()
    take_stock, times = accounting.take_stock, []
    monkeypatch.setattr(accounting, "take_stock", lambda: (times.append(1), take_stock())[1])
    x = Held(np.ones(50))
    before = live()
    for _ in range(10_000):
        x = Held(np.ones(50))
    assert len(times) < 10_000 / 100
    monkeypatch.undo()
    assert live() == before
    assert memory.statistics().bytes_peak == before + 400
    del x


def test_a_smaller_limit_of_the_pool_counts_no_buffer_twice() -> None:
    before = memory.statistics()
    old = Held(empty((20_000,), np.uint8))
    assert old.hold is not None
    memory.configure(min_pooled_bytes=10_000)
    new = Held(empty((20_000,), np.uint8))
    assert new.hold is None
    assert is_pooled(new.array)
    assert live() - before.bytes_live == 40_000
    memory.configure(min_pooled_bytes=30_000)
    newest = Held(empty((20_000,), np.uint8))
    assert newest.hold is not None
    assert live() - before.bytes_live == 60_000
    del old, new, newest
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_allocated, change.allocation_count) == (0, 60_000, 3)


class Storage:
    def __init__(self, block: Array) -> None:
        self.block = block


@pytest.mark.parametrize("elements", [50, LARGE])
def test_what_outsiders_alone_still_see_is_pinned(elements: int) -> None:
    before = memory.statistics()
    x = Held(empty((elements,), np.float64))
    storage = Storage(x.array)
    leases.note_export(x.array, storage)
    exported = x.array[:]
    n = elements * 8
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_pinned, change.bytes_freed) == (n, 0, 0)
    del x, storage
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_pinned, change.bytes_freed) == (0, n, 0)
    del exported
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_pinned, change.bytes_freed) == (0, 0, n)


def test_an_export_that_was_forgotten_pins_nothing() -> None:
    before = memory.statistics()
    x = Held(empty((LARGE,), np.float64))
    storage = Storage(x.array)
    leases.note_export(x.array, storage)
    leases.forget_export(x.array)
    del storage
    assert (memory.statistics() - before).bytes_pinned == 0
    assert live() - before.bytes_live == LARGE * 8


@pytest.mark.skipif(sys.maxsize < 2**32, reason="needs a large address space")
def test_what_the_system_refuses_is_an_error_that_says_so_and_changes_nothing() -> None:
    empty((LARGE,), np.float64)
    before = memory.statistics()
    with pytest.raises(memory.OutOfMemoryError, match="the system has no 128 TiB more") as caught:
        empty((2**44,), np.float64)
    assert caught.value.limit is None
    assert caught.value.asked == 2**47
    change = memory.statistics() - before
    assert change == (0,) * 4 + (-before.bytes_cached,) + (0,) * 7


@pytest.mark.parametrize("shape", [(-1,), (2**40, 2**40), (-LARGE, -LARGE)])
def test_shapes_that_no_array_has_are_numpys_errors(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"dimension|too big"):
        empty(shape, np.float64)
    with pytest.raises(ValueError, match=r"dimension|too big"):
        zeros(shape, np.float64)


def test_garbage_collection_in_the_midst_of_everything_leaves_the_figures_exact() -> None:
    class Cycle:
        """Allocates while it is finalized."""

        def __init__(self) -> None:
            self.me = self
            self.x = Held(empty((LARGE,), np.float64))
            self.y = Held(np.ones(33))

        def __del__(self) -> None:
            Held(empty((LARGE,), np.float64))
            kept.append(Held(np.ones(34)))
            del kept[:-3]
            memory.statistics()

    kept: list[Held] = []
    gc.collect()
    before = live()
    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for n in range(300):
            Cycle()
            Held(np.ones(n))
            memory.statistics()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert live() == before + 3 * 34 * 8
    kept.clear()
    assert live() == before


def test_threads_share_no_block_and_every_byte_is_counted() -> None:
    deadline = time.monotonic() + 1
    failures: list[str] = []
    made = [0] * 8

    def work(me: int) -> None:
        rng = random.Random(me)
        mine: list[tuple[Held, int]] = []
        while time.monotonic() < deadline:
            n = rng.choice([10, 100, 3_000, 5_000, 20_000, 150_000])
            make = rng.choice([empty, zeros, lambda shape, dtype: np.empty(shape, dtype)])
            x = Held(make((n,), np.float64))
            made[me] += n * 8
            mark = rng.randrange(1 << 30)
            x.array.fill(mark)
            mine.append((x, mark))
            if rng.random() < 0.01:
                memory.statistics()
            if rng.random() < 0.003:
                memory.trim(rng.randrange(1 << 20))
            while len(mine) > rng.randrange(1, 12):
                y, mark = mine.pop(rng.randrange(len(mine)))
                if y.array.min() != mark or y.array.max() != mark:
                    failures.append("overwritten")
            if memory.statistics().bytes_freed < before.bytes_freed:
                failures.append("freed less than before")
        for y, mark in mine:
            if y.array.min() != mark or y.array.max() != mark:
                failures.append("overwritten")

    gc.collect()
    before = memory.statistics()
    run_at_once(threading.Thread(target=work, args=(me,)) for me in range(8))
    change = memory.statistics() - before
    assert not failures
    assert change.bytes_live == 0
    assert change.bytes_pinned == 0
    assert change.bytes_allocated == change.bytes_freed == sum(made)
    cached = sum(capacity * count for capacity, count in _pool.cached().items())
    assert memory.statistics().bytes_cached == cached
    assert not leases.released
    # What is left of the room is what nothing is live for.
    assert books.room == books.floor - live()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_memory_of_its_own_and_goes_on_counting() -> None:
    x = empty((300_000,), np.float64)  # mapped
    y = empty((LARGE,), np.float64)
    x.fill(1)
    y.fill(1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            before = live()
            x.fill(2)
            y.fill(2)
            z = Held(zeros((300_000,), np.float64))
            grown = live() - before
            del z
            code = 0 if (grown, live() - before) == (2_400_000, 0) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (x.min(), y.min()) == (1, 1)


def test_a_lease_is_no_hindrance_to_other_weak_references() -> None:
    array = empty((LARGE,), np.float64)
    gone: list[int] = []
    weakref.finalize(array, gone.append, 1)
    other = weakref.ref(array)
    del array
    assert other() is None
    assert gone == [1]


class Memory(RuleBasedStateMachine):
    """Buffers that come and go, held against a dict of what is alive."""

    def __init__(self) -> None:
        super().__init__()
        self.settings_before = memory.configuration()
        memory.configure(min_pooled_bytes=2**15)
        gc.collect()
        self.before = memory.statistics()
        self.held: dict[int, tuple[Held | list[Array], int, int]] = {}
        self.serial = 0
        self.allocated = 0
        self.live = self.peak = 0
        memory.reset_peak()

    def _add(self, holder: Held, n: int) -> None:
        self.serial += 1
        holder.array.fill(self.serial % 251)
        self.held[self.serial] = (holder, n, self.serial % 251)
        self.allocated += n
        self.live += n
        self.peak = max(self.peak, self.live)

    @rule(n=st.sampled_from([0, 1, 8, 100, 101, 5_000, 32_767]))
    def small(self, n: int) -> None:
        self._add(Held(np.empty(n, np.uint8)), n)

    @rule(n=st.sampled_from([32_768, 40_000, 40_001, 100_000, 1_500_000]))
    def pooled(self, n: int) -> None:
        self._add(Held(empty((n,), np.dtype(np.uint8))), n)

    @rule(n=st.sampled_from([32_768, 100_000]))
    def zeroed(self, n: int) -> None:
        array = zeros((n,), np.uint8)
        assert not array.any()
        self._add(Held(array), n)

    @rule(n=st.sampled_from([32_768, 70_000]))
    def adopted(self, n: int) -> None:
        self._add(Held(np.empty(n, np.uint8)), n)

    @rule(n=st.sampled_from([100, 5_000, 40_000]), times=st.integers(1, 300))
    def come_and_go(self, n: int, times: int) -> None:
        for _ in range(times):
            Held(empty((n,), np.uint8))
        self.allocated += n * times
        self.peak = max(self.peak, self.live + n)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        holder, n, mark = self.held.pop(data.draw(st.sampled_from(sorted(self.held))))
        assert (holder.array == mark).all()
        self.live -= n

    @rule(most=st.integers(0, 1_000_000))
    def trim(self, most: int) -> None:
        memory.trim(most)
        assert memory.statistics().bytes_cached <= most

    @rule(most=st.integers(0, 3_000_000))
    def keep_at_most(self, most: int) -> None:
        memory.configure(max_cached_bytes=most)

    @rule(least=st.sampled_from([1, 50, 5_000, 32_768, 60_000]))
    def pool_from(self, least: int) -> None:
        memory.configure(min_pooled_bytes=least)

    @rule()
    def reset(self) -> None:
        memory.reset_peak()
        self.peak = self.live

    @rule(over=st.integers(0, 200_000), n=st.sampled_from([100, 5_000, 40_000, 100_000]))
    def meet_a_limit(self, over: int, n: int) -> None:
        base = memory.statistics().bytes_live + memory.statistics().bytes_pinned
        fits = (capacity_for(n) if n >= pool.min_pooled else n) <= over
        with memory.limit(base + over):
            try:
                x = Held(empty((n,), np.uint8))
            except memory.OutOfMemoryError:
                assert not fits
                if n < pool.min_pooled:  # it was there when it was found to be too much
                    self.allocated += n
                    self.peak = max(self.peak, self.live + n)
            else:
                assert n <= over
                self.allocated += n
                self.peak = max(self.peak, self.live + n)
                del x

    @invariant()
    def figures_are_exact(self) -> None:
        now = memory.statistics()
        assert now.bytes_live - self.before.bytes_live == self.live
        assert now.bytes_peak - self.before.bytes_live == self.peak
        assert now.bytes_allocated - self.before.bytes_allocated == self.allocated
        assert now.bytes_freed - self.before.bytes_freed == self.allocated - self.live
        assert now.bytes_cached == sum(c * count for c, count in _pool.cached().items())
        assert now.bytes_cached <= pool.max_cached

    def teardown(self) -> None:
        self.held.clear()
        memory.configure(**self.settings_before._asdict())


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
