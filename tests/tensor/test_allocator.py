"""The allocator behind NumPy's hook: what comes from it, what is counted, kept and refused."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

from tensor import memory
from tensor.memory import allocator
from tensor.memory.allocator import is_counted, pooled
from tensor.memory.holders import Holding, LargeBuffer, holdings, list_large_buffers_by
from tensor.memory.out_of_memory import OutOfMemoryError, out_of_memory
from tests.process import needs_process_memory
from tests.threads import NEW_THREADS_INHERIT_CONTEXT

pytestmark = pytest.mark.usefixtures("fresh_allocator")

N = 1_000_000  # bytes, mapped by the system for itself
PAGES = 20_000  # bytes that the pool's blocks may be larger
LAST_HUGE_PAGE = 2 * N // 16 + PAGES  # and those whose end would fill most of a huge page


def block(n: int = N) -> np.ndarray:
    with pooled():
        return np.empty(n, np.uint8)


def live() -> int:
    return memory.statistics().bytes_live


def test_inside_large_results_of_numpy_come_from_the_pool_and_outside_none_does() -> None:
    x = np.ones(N // 4, np.float32)
    with pooled():
        y, small = x * 2 + 1, x[:3] * 2
    assert (is_counted(x), is_counted(y), is_counted(small)) == (False, True, False)
    assert not is_counted(y[1:])
    assert not is_counted(x * 2)
    assert (y == 3).all()


def test_a_last_huge_page_is_counted_and_freed_with_its_block() -> None:
    start = memory.statistics()
    held = [
        block(4_000_000) for _ in range(5)
    ]  # with a last huge page 194,304 bytes larger, where there are any
    now = memory.statistics() - start
    assert now.bytes_live == 20_000_000
    assert 0 <= now.bytes_overhead <= 5 * (4_000_000 // 16 + PAGES)
    for each in held:
        each.fill(1)
    del held, each
    kept = memory.statistics() - start
    assert 20_000_000 <= kept.bytes_cached <= 20_000_000 + 5 * (4_000_000 // 16 + PAGES)
    again = [block(3_900_000), block(4_050_000)]
    assert (memory.statistics() - start).bytes_live == 7_950_000
    del again
    memory.trim()
    end = memory.statistics() - start
    assert (end.bytes_live, end.bytes_cached, end.bytes_overhead) == (0, 0, 0)


def test_no_other_thread_is_inside_unless_it_inherits_the_context_and_no_other_task_is() -> None:
    found = []

    def allocate() -> None:
        found.append(is_counted(np.empty(N, np.uint8)))

    async def two() -> None:
        async def inside(entered: asyncio.Event) -> None:
            with pooled():
                entered.set()
                await asyncio.sleep(0)  # which only a test of contexts may do

        entered = asyncio.Event()
        task = asyncio.create_task(inside(entered))
        await entered.wait()
        allocate()
        await task

    with pooled():
        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
    asyncio.run(two())
    assert found == [NEW_THREADS_INHERIT_CONTEXT, False]


def test_the_hook_is_as_before_after_an_error_and_after_an_inner_block() -> None:
    with pytest.raises(ZeroDivisionError), pooled():
        _ = 1 / 0
    assert not is_counted(np.empty(N, np.uint8))
    with pooled():
        with pooled():
            pass
        assert is_counted(np.empty(N, np.uint8))


def test_a_block_is_live_then_cached_then_live_again() -> None:
    start = memory.statistics()
    x = block()
    held = memory.statistics() - start
    assert (held.bytes_live, held.bytes_allocated, held.bytes_freed, held.bytes_cached) == (N, N, 0, 0)
    assert (held.allocation_count, held.reuse_count, held.reuse_miss_count) == (1, 0, 1)
    assert 0 < held.bytes_overhead < PAGES
    del x
    gone = memory.statistics() - start
    assert (gone.bytes_live, gone.bytes_allocated, gone.bytes_freed) == (0, N, N)
    assert N < gone.bytes_cached < N + PAGES
    assert gone.bytes_overhead == 0
    x = block()
    again = memory.statistics() - start
    assert (again.allocation_count, again.reuse_count, again.reuse_miss_count) == (2, 1, 1)
    assert (again.bytes_live, again.bytes_cached) == (N, 0)
    del x


def test_a_block_may_be_freed_outside_and_on_another_thread() -> None:
    start = live()
    arrays = [block()]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    assert live() == start
    assert memory.statistics().bytes_cached >= N


def test_views_keep_the_block_alive() -> None:
    start = live()
    view = block()[10:20]
    assert live() == start + N
    del view
    assert live() == start


@pytest.mark.parametrize("n", [20_000, 70_000, N, 5 * N])
def test_zeros_are_zeros_in_a_block_that_was_used_before(n: int) -> None:
    x = block(n)
    address = x.ctypes.data
    x.fill(7)
    del x
    with pooled():
        z = np.zeros(n, np.uint8)
    assert z.ctypes.data == address
    assert not z.any()


@pytest.mark.parametrize("n", [1, 100, 8191, 8192, 65_536, 2**21 - 1, 2**21, 5 * 2**20 + 3])
def test_data_of_the_pool_begin_at_a_cache_line_and_can_be_written_to_their_end(n: int) -> None:
    memory.configure(min_pooled_bytes=0)
    arrays = [block(n) for _ in range(20)]
    for i, array in enumerate(arrays):
        array.fill(i)
    assert all(array.ctypes.data % 64 == 0 for array in arrays)
    assert all((array == i).all() for i, array in enumerate(arrays))


def test_arrays_without_elements_and_scalars_work_inside() -> None:
    start = memory.statistics()
    memory.configure(min_pooled_bytes=0)
    with pooled():
        arrays = [np.empty((0, 3)), np.zeros((5, 0)), np.empty(()), np.ones(3)[:0].copy()]
    assert [array.size for array in arrays] == [0, 0, 1, 0]
    del arrays
    assert memory.statistics().bytes_live == start.bytes_live


@pytest.mark.parametrize("to", [10, N - 1, N // 2, 3 * N])
def test_a_block_that_is_resized_keeps_its_bytes_and_is_counted_as_it_is(to: int) -> None:
    start = live()
    x = block()
    x[:] = np.arange(N)
    with pooled():
        x.resize(to, refcheck=False)
    assert (x[: min(N, to)] == np.arange(min(N, to)).astype(np.uint8)).all()
    assert not x[N:].any()
    assert live() - start == (to if is_counted(x) else 0)
    del x
    assert live() == start


def test_an_array_that_grows_as_it_is_read_is_whole() -> None:
    start = live()
    with pooled():
        x = np.fromiter(iter(range(300_000)), np.int32)
    assert live() - start == x.nbytes == 1_200_000
    assert (x == np.arange(300_000)).all()


def test_repeated_allocations_take_no_fresh_memory_after_the_first_round() -> None:
    rng = np.random.default_rng(0)
    steps = [
        (int(n), int(i))
        for n, i in zip(rng.integers(8192, 3 * N, 200), rng.integers(0, 200, 200), strict=True)
    ]

    def run() -> int:
        held: list[np.ndarray] = []
        for n, i in steps:
            held.append(block(n))
            if len(held) > 20:
                del held[i % len(held)]
        del held
        return memory.statistics().reuse_miss_count

    first = run()
    assert {run() for _ in range(5)} == {first}


def test_the_least_recently_used_block_is_freed_first() -> None:
    sizes = [N, 2 * N, 3 * N]
    arrays = [block(n) for n in sizes]
    while arrays:
        arrays.pop(0)
    block(N)
    cached = memory.statistics().bytes_cached
    gone = memory.trim(cached - 1)
    assert 2 * N <= gone <= 2 * N + LAST_HUGE_PAGE
    assert memory.statistics().bytes_cached == cached - gone
    gone = memory.trim(2 * N)
    assert 3 * N <= gone <= 3 * N + PAGES
    assert N <= memory.trim() <= N + PAGES


def test_the_pool_keeps_at_most_its_limit() -> None:
    memory.configure(max_cached_bytes=2 * N)
    arrays = [block(n) for n in (N, N // 2, N, 3 * N)]
    arrays.clear()
    assert N < memory.statistics().bytes_cached <= 2 * N
    memory.configure(max_cached_bytes=0)
    assert memory.statistics().bytes_cached == 0
    block()
    assert memory.statistics().bytes_cached == 0


def test_sizes_larger_than_the_memory_of_the_machine_are_accepted() -> None:
    memory.configure(max_cached_bytes=2**80, min_pooled_bytes=2**80, limit_bytes=2**80)
    assert not is_counted(block())
    with memory.limit(2**90):
        pass


def test_a_pinned_block_is_not_live_and_leaves_when_it_is_freed() -> None:
    start = memory.statistics()
    x = block()
    for _ in range(2):
        allocator.pin(x, N)
    pinned = memory.statistics() - start
    assert (pinned.bytes_live, pinned.bytes_pinned, pinned.bytes_freed) == (0, N, 0)
    for _ in range(2):
        allocator.unpin(x, N)
    assert (memory.statistics() - start).bytes_live == N
    allocator.pin(x, N)
    del x
    gone = memory.statistics() - start
    assert (gone.bytes_live, gone.bytes_pinned, gone.bytes_freed) == (0, 0, N)
    assert not (memory.statistics() - start).allocation_count - 1


def test_external_buffers_are_counted_by_their_holders() -> None:
    start = memory.statistics()
    x = np.ones(3)
    assert allocator.count_small(24)
    allocator.pin(x, 24)
    pinned = memory.statistics() - start
    assert (pinned.bytes_live, pinned.bytes_pinned, pinned.bytes_allocated, pinned.allocation_count) == (
        0,
        24,
        24,
        1,
    )
    allocator.unpin(x, 24)
    assert (memory.statistics() - start).bytes_live == 24
    allocator.uncount_small(24, False)
    assert (memory.statistics() - start).bytes_freed == 24
    allocator.borrow(1000)
    assert (memory.statistics() - start).bytes_external == 1000
    allocator.return_borrowed(1000)
    allocator.count_donation(True)
    allocator.count_donation(False)
    end = memory.statistics() - start
    assert (end.bytes_external, end.donation_reuse_count, end.donation_miss_count) == (0, 1, 1)


def test_a_refused_block_changes_nothing_and_the_error_says_why() -> None:
    x = block()
    before = memory.statistics()
    most = before.bytes_live + N
    with memory.limit(most):
        with pytest.raises(MemoryError):
            block(N + 1)
        error = out_of_memory()
        assert memory.statistics() == before
        y = block(N)
    assert (error.asked, error.live, error.cached, error.limit) == (N + 1, before.bytes_live, 0, most)
    assert "asked for 976.6 KiB more" in str(error)
    assert isinstance(error, MemoryError)
    assert out_of_memory().asked == 0  # told once
    del x, y


def test_above_the_limit_the_pool_is_trimmed_to_fit() -> None:
    x, y = block(), block(2 * N)
    del x  # the older one, which goes first
    del y
    with memory.limit(live() + 4 * N):
        assert memory.statistics().bytes_cached >= 3 * N
        x = block(int(1.5 * N))
        assert 2 * N <= memory.statistics().bytes_cached <= int(2.5 * N)
        y = block(2 * N)  # the block that waits for it, not one beside it
        assert memory.statistics().bytes_cached == 0
    del x, y


def test_small_buffers_are_refused_by_their_own_count() -> None:
    with memory.limit(live() + 100):
        assert allocator.count_small(60)
        assert not allocator.count_small(41)
        assert out_of_memory().asked == 41
        assert allocator.count_small(40)
    allocator.uncount_small(60, False)
    allocator.uncount_small(40, False)


@pytest.mark.parametrize("is_small", [False, True])
def test_then_garbage_is_collected_even_while_the_collector_is_off(is_small: bool) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self
            self.x = block()

    start = live()
    gc.disable()
    try:
        Cycle()
        assert live() == start + N
        with memory.limit(start + N + 10):
            if is_small:
                assert allocator.count_small(100)
                allocator.uncount_small(100, False)
            else:
                block(100_000)
    finally:
        gc.enable()
    assert live() == start


def test_a_finalizer_that_allocates_while_garbage_is_collected_is_refused_too() -> None:
    refused = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            try:
                block(2 * N)
            except MemoryError:
                refused.append(True)

    Cycle()
    with memory.limit(live() + N), pytest.raises(MemoryError):
        block(2 * N)
    assert refused == [True]


def test_more_than_the_system_has_is_refused_and_the_limit_is_not_blamed() -> None:
    before = memory.statistics()
    with pytest.raises(MemoryError):
        block(2**60)
    error = out_of_memory()
    assert (error.asked, error.limit) == (2**60, None)
    assert "the system does not have enough memory for 1048576 TiB more" in str(error)
    assert memory.statistics() == before
    with pytest.raises(MemoryError), pooled():
        np.zeros(2**61, np.uint8)


def test_limits_nest_and_end_with_their_holder() -> None:
    outer, inner = allocator.Bound(1000), allocator.Bound(2000)
    outer.set(), inner.set(), inner.set()
    assert allocator.current_limit() == 1000
    outer.lift(), outer.lift()
    assert allocator.current_limit() == 2000
    del inner
    assert allocator.current_limit() is None
    assert outer.nbytes == 1000


def test_peaks_are_exact_and_each_begins_when_it_is_started() -> None:
    start = live()
    outer, inner = allocator.Watch(), allocator.Watch()
    outer.start()
    block()
    inner.start()
    allocator.count_small(10)
    allocator.uncount_small(10, False)
    assert (outer.nbytes, inner.nbytes) == (start + N, start + 10)
    inner.stop()
    block(2 * N)
    assert (outer.nbytes, inner.nbytes) == (start + 2 * N, start + 10)
    outer.start()
    assert outer.nbytes == start
    memory.reset_peak()
    x = block(100_000)
    assert memory.statistics().bytes_peak == outer.nbytes == start + x.nbytes
    del outer, inner, x
    block()
    # One that was freed while it measured leaves no trace, though the next one may lie at its address.
    again = allocator.Watch()
    again.start()
    block()
    assert again.nbytes == start + N


def test_reserved_memory_serves_one_block_of_code_at_a_time_until_it_is_closed() -> None:
    arena = allocator.Arena(1 << 16, [])
    arena.enter()
    with pytest.raises(RuntimeError, match="in use or was already released"):
        arena.enter()
    arena.leave()
    arena.enter()
    arena.close()
    with pytest.raises(RuntimeError, match="in use or was already released"):
        arena.enter()


def test_uninitialised_memory_is_filled_when_that_is_wanted_and_zeros_are_not() -> None:
    memory.configure(fill=0xCD)
    for n in (1, 100, N):
        for _ in range(2):  # fresh, then used before
            array = allocator.empty((n,), np.uint8)
            assert (array == 0xCD).all()
            array.fill(1)
            del array
            assert not allocator.zeros((n,), np.uint8).any()
    assert allocator.empty((), np.uint16)[()] == 0xCDCD
    objects = allocator.empty((3,), object)
    assert objects.tolist() == [None] * 3


def test_arrays_are_made_in_the_order_of_memory_of_another() -> None:
    fortran = np.asfortranarray(np.arange(600_000.0).reshape(600, 1000))
    copied = allocator.copy(fortran)
    assert copied.strides == fortran.strides
    assert is_counted(copied)
    assert (copied == fortran).all()
    assert allocator.empty((600, 1000), np.int16, fortran).strides == (2, 1200)
    assert allocator.empty((1000, 600), np.int16, fortran).strides == (1200, 2)
    small = allocator.copy(fortran[:3, :3])
    assert not is_counted(small)
    with pytest.raises(ValueError, match="negative"):
        allocator.empty((-1,), np.uint8)


def test_holders_of_memory_are_listed_by_kind_and_the_rest_is_counted() -> None:
    _, others, nbytes = holdings()
    x, y, z = block(), block(), block(100_000)
    allocator.count_small(100)
    rows = [LargeBuffer("uint8", (N,), N, by=("Tensor",)), LargeBuffer("uint8", (N,), N, by=("the graph",))]
    list_large_buffers_by(lambda: rows)
    try:
        found, count, rest = holdings()
        assert found == [Holding(2, f"uint8[{N}]", 2 * N, ("Tensor", "the graph"))]
        assert (count - others, rest - nbytes) == (2, 100_100)
        error = OutOfMemoryError(5, 1, 2, 3)
        assert error.holders[0] == f"2 x uint8[{N}], 1.907 MiB (held by Tensor, the graph)"
        assert error.holders[1].startswith(f"{count} smaller buffers, ")
        lines = memory.report().splitlines()
        assert f"held: 1.907 MiB in 2 x uint8[{N}] by Tensor, the graph" in lines
    finally:
        rows.clear()
        allocator.uncount_small(100, False)
    del x, y, z


def test_importing_and_using_tensors_leaves_the_process_allocator_unchanged() -> None:
    program = """
import numpy as np
from numpy._core.multiarray import get_handler_name
before = get_handler_name()
from tensor.memory.allocator import pooled
with pooled():
    x = np.ones(1_000_000)
assert get_handler_name(x) == "disposescope"
assert get_handler_name() == before == "default_allocator"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_arrays_outlive_the_interpreter() -> None:
    program = """
import sys, threading
import numpy as np
from tensor.memory.allocator import pooled
with pooled():
    kept, small = np.ones(1_000_000), np.ones(3)
class Cycle:
    pass
cycle = Cycle()
cycle.me, cycle.x = cycle, kept.copy()
sys.kept, np.kept, threading.current_thread().kept = kept, kept[1:], small
class Late:
    def __del__(self):
        self.x = None
late = Late()
with pooled():
    late.x = np.ones(500_000)
builtins = __builtins__
builtins.late = late
"""
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")


@needs_process_memory
def test_process_memory_equals_the_counters_and_trim_returns_it_to_the_system() -> None:
    program = """
import random
import numpy as np
from tensor import memory
from tensor.memory.allocator import pooled
from tests.process import own_bytes

def make(n):
    with pooled():
        return np.ones(n, np.uint8)

random.seed(1)
held = [make(int(10 ** random.uniform(4, 7))) for _ in range(50)]
held.clear()
memory.trim()
before = own_bytes()
for step in range(1500):
    held.append(make(int(10 ** random.uniform(4, 7))))
    if len(held) > 100:
        del held[random.randrange(100)]
    if step % 100 == 99:
        now = memory.statistics()
        ours = now.bytes_live + now.bytes_cached + now.bytes_overhead
        print(own_bytes() - before, ours, now.bytes_overhead)
held.clear()
memory.trim()
print(own_bytes() - before, 0, 0)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *steps, end = [[int(number) for number in line.split()] for line in run.stdout.splitlines()]
    for process, ours, overhead in steps:
        assert abs(process - ours) <= max(0.01 * ours, 2**20)
        assert overhead <= 0.02 * ours
    assert end[0] <= 2**20


def test_only_the_debugging_build_makes_allocations_fail() -> None:
    if not allocator.DEBUGGING:
        with pytest.raises(RuntimeError, match="make build DEBUG=1"):
            allocator.fail_allocation(1)
        return
    before = memory.statistics()
    for number in range(1, 4):
        allocator.fail_allocation(number)
        with pytest.raises(MemoryError), pooled():
            x = np.ones(N)
            x = x * 2
            x = x + 1
        x = None
        assert memory.statistics().bytes_live == before.bytes_live
    allocator.fail_allocation(0)
    block()
