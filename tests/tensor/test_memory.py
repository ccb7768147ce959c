"""``tensor.memory``: figures, measures, limits and settings, as a program sees them."""

from __future__ import annotations

import asyncio
import gc
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nn
import tensor
from scopes.lowlevel import format_bytes, parse_size
from tensor import memory
from tensor.memory import allocator
from tests.process import needs_process_memory

N = 80_000  # bytes, large enough for the pool


@pytest.fixture(autouse=True)
def settings_as_before() -> Iterator[None]:
    gc.collect()
    memory.trim()
    before = memory.configuration()
    memory.configure(min_pooled_bytes=2**15)  # so that large arrays can stay small
    yield
    memory.configure(**before._asdict())


def block(nbytes: int = N) -> tensor.Tensor:
    return tensor.empty((nbytes,), dtype="uint8")


def small_buffers() -> int:
    """Return how many buffers are too small to have a name in the report."""
    found = re.search(r"held: .* in (\d+) small(?:er)? buffer", memory.report())
    return 0 if found is None else int(found.group(1))


def live() -> int:
    return memory.statistics().bytes_live


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("512 MiB", 512 * 2**20),
        ("1.5 GB", 1_500_000_000),
        ("64kB", 64_000),
        ("64KB", 64_000),
        ("64 kib", 65_536),
        (" 2 TiB ", 2**41),
        ("3 tb", 3 * 10**12),
        ("7 B", 7),
        ("100 bytes", 100),
        ("1 byte", 1),
        ("0.5KiB", 512),
        ("1.00001 B", 1),
        (17, 17),
        (np.int64(17), 17),
    ],
)
def test_sizes_are_numbers_of_bytes_or_text(text: int | str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize(
    "size",
    [
        *("", "MiB", "12 MB/s", "-1", "-1 GB", "1e9", "nan", "inf", "1,5 GB", "1.GB", ".5 GB"),
        *("5 PB", "٣ MB"),
        *(-1, True, 1.5, float("nan"), None, b"1 GB", [1], np.array([1, 2])),
    ],
)
def test_an_invalid_size_is_named_in_the_error(size: object) -> None:
    with pytest.raises(ValueError, match=r"max_cached_bytes: ") as caught:
        memory.configure(max_cached_bytes=size)  # type: ignore[arg-type]
    assert repr(size) in str(caught.value)


def test_text_without_a_unit_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"limit: '10' has no unit: write '10 B', an int for bytes, or '10 MiB'"
    ):
        memory.limit("10")
    with pytest.raises(ValueError, match=r"size: '1\.5' has no unit: write '1\.5 MiB'"):
        parse_size("1.5")


@given(st.integers(0, 10**15), st.sampled_from(["KiB", "MiB", "GiB", "TiB", "kB", "MB"]))
def test_decimals_are_not_rounded(thousandths: int, unit: str) -> None:
    whole, rest = divmod(thousandths, 1000)
    assert parse_size(f"{whole}.{rest:03} {unit}") == int(
        Fraction(thousandths, 1000) * parse_size(f"1 {unit}")
    )


@given(st.integers(0, 2**55))
def test_bytes_for_people_say_the_size_to_four_digits(nbytes: int) -> None:
    text = format_bytes(nbytes)
    assert text.endswith(("bytes", "iB"))
    assert abs(parse_size(text) - nbytes) <= nbytes / 1000


def test_statistics_follow_a_block_through_its_life() -> None:
    start = memory.statistics()
    x = block()
    held = memory.statistics() - start
    assert (held.bytes_live, held.bytes_allocated, held.bytes_freed) == (N, N, 0)
    assert (held.allocation_count, held.reuse_count, held.reuse_miss_count) == (1, 0, 1)
    del x
    gone = memory.statistics() - start
    assert (gone.bytes_live, gone.bytes_allocated, gone.bytes_freed) == (0, N, N)
    assert gone.bytes_cached >= N
    x = block()
    again = memory.statistics() - start
    assert (again.allocation_count, again.reuse_count, again.reuse_miss_count) == (2, 1, 1)
    assert again.bytes_cached == 0
    del x


def test_a_snapshot_is_frozen_and_reads_as_a_line() -> None:
    snapshot = memory.statistics()
    with pytest.raises(AttributeError):
        snapshot.bytes_live = 0  # type: ignore[misc]
    line = str(memory.MemoryStatistics(3 * 2**20, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0))
    assert line.startswith("bytes_live: 3 MiB; bytes_peak: 0 bytes; ")
    assert "; allocation_count: 5; " in line


def test_the_peak_is_exact_for_small_and_large_blocks_alike() -> None:
    memory.reset_peak()
    start = live()
    small = [block(100) for _ in range(50)]
    big = block()
    del small
    small = [block(200) for _ in range(10)]
    del big
    assert memory.statistics().bytes_peak == start + N + 5_000
    memory.reset_peak()
    assert memory.statistics().bytes_peak == start + 2_000
    del small


def test_a_measure_reports_peak_allocations_and_remaining_bytes() -> None:
    start = live()
    with memory.measure() as outer:
        x = block()
        with memory.measure() as inner:
            y, z = block(), block(100)
            del y
            assert inner.live_bytes_change == 100
            block(200)
        assert (inner.peak_bytes, inner.peak_bytes_change) == (start + 2 * N + 100, N + 100)
        assert inner.allocated_bytes == N + 300
        assert inner.live_bytes_change == 100
        del x, z
        block(200)
    after = (outer.peak_bytes, outer.allocated_bytes, outer.live_bytes_change)
    assert after == (start + 2 * N + 100, 2 * N + 500, 0)
    block()
    assert (outer.peak_bytes, outer.allocated_bytes, outer.live_bytes_change) == after
    assert repr(outer).startswith("<measure: peak ")


def test_measure_ignores_peaks_before_its_start() -> None:
    block(10 * N)
    start = live()
    with memory.measure() as measured:
        block(100)
    assert measured.peak_bytes == start + 100


def test_a_peak_that_is_reset_leaves_running_measures_alone() -> None:
    with memory.measure() as measured:
        block()
        memory.reset_peak()
    assert measured.peak_bytes_change == N


def test_measures_may_overlap() -> None:
    start = live()
    first, second = memory.measure(), memory.measure()
    with first:
        x = block()
        second.__enter__()
        del x
    y = block(3 * N)
    del y
    second.__exit__(None, None, None)
    assert first.peak_bytes == start + N
    assert second.peak_bytes == start + 3 * N
    assert (second.live_bytes_change, second.allocated_bytes) == (-N, 3 * N)


def test_measures_on_several_threads_are_each_of_the_whole_process() -> None:
    start = live()
    begun, held, done = (threading.Barrier(2, timeout=300) for _ in range(3))
    peaks: list[int] = []

    def measures() -> None:
        with memory.measure() as measured:
            begun.wait()
            held.wait()
            done.wait()
        peaks.append(measured.peak_bytes)

    thread = threading.Thread(target=measures)
    thread.start()
    begun.wait()
    with memory.measure() as mine:
        x = block()
    held.wait()
    y = block()
    del x, y
    done.wait()
    thread.join()
    assert (mine.peak_bytes, peaks) == (start + N, [start + 2 * N])


def test_a_measure_can_be_read_only_once_it_began_and_entered_only_once_at_a_time() -> None:
    measured = memory.measure()
    assert repr(measured) == "<measure: not started>"
    with pytest.raises(RuntimeError, match="nothing was measured yet"):
        _ = measured.peak_bytes
    with measured:
        with pytest.raises(RuntimeError, match="already running"):
            measured.__enter__()
        block()
    assert measured.allocated_bytes == N
    with measured:
        pass
    assert measured.allocated_bytes == 0


def test_a_measure_ends_with_its_block_when_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), memory.measure() as measured:
        block()
        _ = 1 / 0
    block(5 * N)
    assert measured.peak_bytes_change == N


def test_a_decorated_function_is_measured_at_each_call_even_inside_itself() -> None:
    measured = memory.measure()

    @measured
    def step(times: int, *, nbytes: int = N) -> int:
        """Allocate."""
        block(nbytes)
        if times:
            step(times - 1)
        return times

    assert step(3, nbytes=2 * N) == 3
    assert step.__doc__ == "Allocate."
    assert (measured.allocated_bytes, measured.peak_bytes_change) == (5 * N, 2 * N)
    assert step(0) == 0
    assert measured.allocated_bytes == N


def test_an_async_function_is_measured_until_it_ends() -> None:
    measured = memory.measure()

    @measured
    async def step() -> int:
        await asyncio.sleep(0)
        block()
        return 5

    assert asyncio.run(step()) == 5
    assert measured.allocated_bytes >= N
    assert measured.peak_bytes_change >= N


@pytest.mark.parametrize("decorator", [memory.measure(), memory.limit("1 GiB")])
def test_a_generator_function_cannot_be_decorated(decorator) -> None:
    def batches() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="batches is a generator function"):
        decorator(batches)


def test_over_the_limit_the_pool_is_trimmed_first() -> None:
    block(20 * N)
    cached = memory.statistics().bytes_cached
    with memory.limit(live() + 21 * N):
        x = block(4 * N)
        assert memory.statistics().bytes_cached < cached
        y = block(4 * N)
    del x, y


def test_then_garbage_is_collected() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self
            self.x = block(8 * N)

    start = live()
    gc.disable()
    try:
        Cycle()
        assert live() == start + 8 * N
        with memory.limit(start + 10 * N):
            x = block(8 * N)
            assert live() == start + 8 * N
    finally:
        gc.enable()
    del x


def test_then_an_error_lists_the_holders_and_the_state_is_unchanged() -> None:
    start = live()
    x, y, z = block(8 * N), block(8 * N), block(100)
    before = memory.statistics()
    most = start + 17 * N
    with memory.limit(most):
        with pytest.raises(memory.OutOfMemoryError, match="the limit of memory is ") as caught:
            block(4 * N)
        error = caught.value
        assert isinstance(error, MemoryError)
        assert 4 * N <= error.asked <= 4 * N * 17 / 16
        assert (error.live, error.cached, error.limit) == (start + 16 * N + 100, 0, most)
        assert any(f"2 x uint8[{8 * N}], {format_bytes(16 * N)}" in holder for holder in error.holders)
        assert any("smaller buffer" in holder for holder in error.holders)
        assert "raise the limit" in str(error)
        assert memory.statistics() == before
        del x
        assert live() == start + 8 * N + 100  # the error keeps nothing alive
        x = block(4 * N)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.holders, copy.limit) == (str(error), error.holders, error.limit)
    del x, y, z


def test_the_error_says_whether_tensors_or_the_graph_hold_memory() -> None:
    x = tensor.ones((200, 200), requires_grad=True)
    y = (x * 2).exp()
    layer = nn.Linear(300, 200)
    view = tensor.ones((99, 1000))[5:, ::2]
    gc.collect()
    with memory.limit(live()), pytest.raises(memory.OutOfMemoryError) as caught:
        y + 1
    holders = "; ".join(caught.value.holders)
    assert "float32[200, 200], 312.5 KiB (held by Tensor, the graph)" in holders
    assert "1 x float32[200, 300], 234.4 KiB (held by Parameter)" in holders
    assert "1 x float32[99, 1000], 386.7 KiB (held by" in holders
    del x, y, layer, view


def test_small_blocks_meet_the_limit_too() -> None:
    start = live()
    held = []
    with memory.limit(start + 10_000):
        with pytest.raises(memory.OutOfMemoryError, match="asked for 100 bytes more"):
            for _ in range(200):
                held.append(block(100))  # noqa: PERF401  # it raises
        assert len(held) == 100
        with pytest.raises(memory.OutOfMemoryError):
            block(100)
        held.pop()
        block(100)
        with pytest.raises(memory.OutOfMemoryError):
            block(101)
    block(101)


def test_live_tensors_stay_where_a_lower_limit_refuses_new_ones() -> None:
    x, small = block(), block(100)
    block(100)
    with memory.limit(1000):
        for n in (100, 8, N):
            with pytest.raises(memory.OutOfMemoryError):
                block(n)
        del x
    del small
    block()


def test_of_nested_limits_the_smallest_counts() -> None:
    start = live()
    with memory.limit(start + 2 * N):
        with memory.limit(start + 100 * N):
            with pytest.raises(memory.OutOfMemoryError):
                block(3 * N)
            with memory.limit(start + N // 2), pytest.raises(memory.OutOfMemoryError):
                block()
            block()
    block(3 * N)
    memory.configure(limit_bytes=start + 2 * N)
    with memory.limit("1 TiB"), pytest.raises(memory.OutOfMemoryError):
        block(3 * N)
    memory.configure(limit_bytes=None)
    with memory.limit("1 TiB"):
        block(3 * N)


def test_a_limit_decorates_functions_and_may_be_entered_again() -> None:
    bound = memory.limit(live() + 2 * N)

    @bound
    def step(n: int, times: int = 0) -> None:
        block(n)
        if times:
            step(n, times - 1)

    step(N, 2)
    with bound, bound:
        block()
    with pytest.raises(memory.OutOfMemoryError):
        step(3 * N)
    block(3 * N)


def test_pinned_memory_counts_toward_the_limit() -> None:
    start = live()
    x = block(4 * N)
    array = x.numpy()
    del x
    assert live() == start
    with memory.limit(start + 5 * N):
        with pytest.raises(memory.OutOfMemoryError):
            block(4 * N)
        block(N // 2)
    del array


def test_uninitialised_memory_is_filled_when_that_is_wanted() -> None:
    for byte in (0, 255):
        memory.configure(fill=byte)
        assert (block() == byte).all()
    for wrong in (-1, 256, 1.0):
        with pytest.raises(ValueError, match="write an integer from 0 to 255, or None"):
            memory.configure(fill=wrong)
    memory.configure(fill=0xCD)
    for n in (1, 100, N, 20 * N):
        for _ in range(2):  # fresh, then used before
            x = block(n)
            assert (x == 0xCD).all()
            x.fill_(1)
            x.dispose()
            assert not tensor.zeros((n,), dtype="uint8").any()
    assert tensor.empty((), dtype="uint16").item() == 0xCDCD
    memory.configure(fill=None)
    x = block()
    x.fill_(5)
    x.dispose()
    if not allocator.DEBUGGING:  # which writes over what is freed, so that nobody relies on it
        assert (block() == 5).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"fill": 256},
        {"fill": -1},
        {"fill": True},
        {"fill": "a"},
        {"fill": 1.0},
        {"limit_bytes": "much"},
        {"min_pooled_bytes": -5},
    ],
)
def test_a_wrong_setting_changes_none(wrong: dict[str, object]) -> None:
    before = memory.configuration()
    with pytest.raises(ValueError, match=next(iter(wrong))):
        memory.configure(**{"max_cached_bytes": 5, "min_pooled_bytes": 7, "fill": 3, **wrong})
    assert memory.configuration() == before


def test_only_given_settings_change() -> None:
    before = memory.configuration()
    memory.configure(max_cached_bytes="3 MiB")
    assert memory.configuration() == before._replace(max_cached_bytes=3 * 2**20)
    memory.configure(limit_bytes="1 TiB", fill=0)
    assert memory.configuration() == before._replace(max_cached_bytes=3 * 2**20, limit_bytes=2**40, fill=0)
    with pytest.raises(TypeError):
        memory.configure(5)  # type: ignore[misc]


def test_trim_returns_spare_memory_and_its_size() -> None:
    for n in (N, 2 * N, 3 * N):
        block(n)
    cached = memory.statistics().bytes_cached
    assert cached >= 6 * N
    gone = memory.trim("300 kB")
    assert gone > 0
    assert memory.statistics().bytes_cached == cached - gone <= 300_000
    assert memory.trim(cached) == 0
    assert memory.trim() == cached - gone
    with pytest.raises(ValueError, match="to_bytes: 'all'"):
        memory.trim("all")


@needs_process_memory
def test_memory_that_was_trimmed_is_the_systems_again() -> None:
    program = """
import nn
import tensor
from tensor import memory
from tests.process import own_bytes

memory.trim()
start = own_bytes()
sizes = [600_000] * 35 + [5_000_000] * 10
kept = [tensor.ones((n,), dtype="uint8") for n in sizes]
full = own_bytes()
del kept
cached = memory.statistics().bytes_cached
kept = own_bytes()
memory.trim()
print(full - start, kept - start, cached, own_bytes() - start)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    full, kept, cached, rest = map(int, run.stdout.split())
    assert full >= 70_000_000
    assert kept >= 70_000_000 <= cached <= 75_000_000
    assert rest < 7_000_000


def test_the_report_names_live_and_cached_bytes() -> None:
    others = small_buffers()
    x, y = block(30 * N), block(123)
    block(2 * N)
    text = memory.report()
    lines = text.splitlines()
    assert lines[0].startswith("memory: ")
    assert lines[0].endswith("no limit")
    assert f"held: {format_bytes(30 * N)} in 1 x uint8[{30 * N}] by Tensor" in lines
    assert small_buffers() == others + 1
    assert ", external " in lines[1]
    assert any(line.startswith("cached: ") for line in lines[3:])
    assert len(lines) < 40
    with memory.limit("1 TiB"):
        assert memory.report().splitlines()[0].endswith("limit 1 TiB")
    del x, y


def test_the_peak_is_exact_before_anybody_has_looked_at_it() -> None:
    program = (
        "import tensor\n"
        "kept = [tensor.ones((25,)) for _ in range(2_000)]\n"
        "kept.clear()\n"
        "first = tensor.memory.statistics().bytes_peak\n"
        "kept = [tensor.ones((25,)) for _ in range(2_001)]\n"
        "kept.clear()\n"
        "print(first, tensor.memory.statistics().bytes_peak)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = map(int, run.stdout.split())
    assert (first, second) == (200_000, 200_100)


@needs_process_memory
def test_report_tells_the_memory_of_the_process_that_no_figure_counts() -> None:
    found = re.search(r"beside these, the process has (\d+)(?:\.\d+)? (MiB|GiB): ", memory.report())
    assert found is not None
    assert found[2] == "GiB" or int(found[1]) > 5
    assert "rest of the process" in memory.report()._repr_html_()


def test_a_notebook_shows_the_report_as_a_table() -> None:
    x = tensor.ones((100_000,))
    shown = memory.report()._repr_html_()
    assert shown.startswith("<table>")
    assert shown.count("<tr>") == shown.count("</tr>") >= 7
    assert "390.6 KiB</td>" in shown
    del x
