"""The allocator against a simple model of it: every figure, every byte, every refusal."""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tensor import memory
from tensor.memory import allocator
from tensor.memory.allocator import Bound, Watch, is_counted, pooled

SIZES = st.one_of(
    st.integers(1, 5_000_000),
    st.sampled_from([1, 4095, 8191, 8192, 8193, 65_536, 2**21 - 512, 2**21, 2**22, 2**22 + 1]),
)


# Drawn by their places: Hypothesis keeps what was drawn alive.
@dataclass
class Held:
    array: np.ndarray
    mark: int
    nbytes: int
    is_counted: bool
    is_pinned: bool = False


@dataclass
class Peak:
    watch: Watch
    nbytes: int


class Allocating(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        gc.collect()
        memory.trim()
        self.settings = memory.configuration()
        self.start = memory.statistics()
        self.held: list[Held] = []
        self.small: list[int] = []
        self.bounds: list[Bound] = []
        self.peaks: list[Peak] = []
        self.min_pooled = self.settings.min_pooled_bytes
        self.max_cached = self.settings.max_cached_bytes
        self.allocated = self.count = self.marks = 0

    def teardown(self) -> None:
        self.held.clear()
        for bound in self.bounds:
            bound.lift()
        for n in self.small:
            allocator.uncount_small(n, False)
        memory.configure(**self.settings._asdict())
        assert memory.statistics().bytes_live == self.start.bytes_live

    def live(self) -> int:
        return (
            self.start.bytes_live
            + sum(self.small)
            + sum(h.nbytes for h in self.held if h.is_counted and not h.is_pinned)
        )

    def pinned(self) -> int:
        return sum(h.nbytes for h in self.held if h.is_pinned)

    def limit(self) -> int | None:
        return min([bound.nbytes for bound in self.bounds], default=None)

    def fits(self, n: int) -> bool:
        limit = self.limit()
        return limit is None or self.live() + self.start.bytes_pinned + self.pinned() + n <= limit

    def count_in(self, n: int, beside: int = 0) -> None:
        self.allocated += n
        self.count += 1
        for peak in self.peaks:
            peak.nbytes = max(peak.nbytes, self.live() + beside)

    @rule(n=SIZES, zeroed=st.booleans())
    def allocate(self, n: int, zeroed: bool) -> None:
        is_large = n >= self.min_pooled
        try:
            with pooled():
                array = np.zeros(n, np.uint8) if zeroed else np.empty(n, np.uint8)
        except MemoryError:
            assert is_large
            assert not self.fits(n)
            limit = self.limit()
            assert allocator.take_refusal() == (
                n,
                self.live() + self.start.bytes_pinned + self.pinned(),
                0,
                limit,
            )
            return
        assert is_counted(array) == is_large
        assert not (zeroed and array.any())
        if is_large:
            assert self.fits(n)
        self.marks += 1
        array.fill(self.marks % 256)
        self.held.append(Held(array, self.marks % 256, n, is_large))
        if is_large:
            self.count_in(n)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), elsewhere=st.booleans())
    def free(self, data: st.DataObject, elsewhere: bool) -> None:
        index = data.draw(st.integers(0, len(self.held) - 1))
        held = self.held.pop(index)
        assert (held.array == held.mark).all()
        if elsewhere:
            arrays = [held.array]
            del held
            thread = threading.Thread(target=arrays.clear)
            thread.start()
            thread.join()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), n=SIZES)
    def resize(self, data: st.DataObject, n: int) -> None:
        held = self.held[data.draw(st.integers(0, len(self.held) - 1))]
        if held.is_pinned:
            return  # what others look at is not resized
        address, before = held.array.ctypes.data, held.nbytes
        try:
            held.array.resize(n, refcheck=False)
        except MemoryError:
            assert not self.fits(n)
            return
        assert (held.array[: min(n, before)] == held.mark).all()
        held.array.fill(held.mark)
        beside = before if held.is_counted else 0
        held.nbytes, held.is_counted = n, is_counted(held.array)
        if held.is_counted and held.array.ctypes.data != address:
            # For a moment both were there.
            self.count_in(n, beside)

    @rule(n=st.integers(0, 10_000))
    def count_small(self, n: int) -> None:
        fits = self.fits(n)
        assert allocator.count_small(n) == fits
        if fits:
            self.small.append(n)
            self.count_in(n)

    @precondition(lambda self: self.small)
    @rule(data=st.data())
    def uncount_small(self, data: st.DataObject) -> None:
        allocator.uncount_small(self.small.pop(data.draw(st.integers(0, len(self.small) - 1))), False)

    @precondition(lambda self: any(h.is_counted for h in self.held))
    @rule(data=st.data())
    def pin_or_unpin(self, data: st.DataObject) -> None:
        counted = [h for h in self.held if h.is_counted]
        held = counted[data.draw(st.integers(0, len(counted) - 1))]
        del counted
        (allocator.unpin if held.is_pinned else allocator.pin)(held.array, held.nbytes)
        held.is_pinned = not held.is_pinned
        for peak in self.peaks:
            peak.nbytes = max(peak.nbytes, self.live())

    @rule(to=st.integers(0, 10_000_000))
    def trim(self, to: int) -> None:
        cached = memory.statistics().bytes_cached
        gone = memory.trim(to)
        left = memory.statistics().bytes_cached
        assert left == cached - gone <= to

    @rule(nbytes=st.sampled_from([0, 8192, 50_000, 65_536, 1_000_000]))
    def pool_from(self, nbytes: int) -> None:
        memory.configure(min_pooled_bytes=nbytes)
        self.min_pooled = max(nbytes, 1)

    @rule(nbytes=st.sampled_from([0, 100_000, 3_000_000, 10_000_000, 2**30]))
    def keep_at_most(self, nbytes: int) -> None:
        memory.configure(max_cached_bytes=nbytes)
        self.max_cached = nbytes

    @rule(more=st.integers(-1_000_000, 20_000_000))
    def bound(self, more: int) -> None:
        bound = Bound(max(self.live() + more, 0))
        bound.set()
        self.bounds.append(bound)

    @precondition(lambda self: self.bounds)
    @rule(data=st.data())
    def lift(self, data: st.DataObject) -> None:
        self.bounds.pop(data.draw(st.integers(0, len(self.bounds) - 1))).lift()

    @rule()
    def watch(self) -> None:
        watch = Watch()
        watch.start()
        self.peaks.append(Peak(watch, self.live()))

    @precondition(lambda self: self.peaks)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        peak = self.peaks.pop(data.draw(st.integers(0, len(self.peaks) - 1)))
        peak.watch.stop()
        assert peak.watch.nbytes == peak.nbytes

    @invariant()
    def figures_are_the_models(self) -> None:
        now = memory.statistics() - self.start
        assert now.bytes_live == self.live() - self.start.bytes_live
        assert now.bytes_pinned == self.pinned()
        assert now.bytes_allocated == self.allocated
        assert now.allocation_count == self.count
        assert now.bytes_freed == self.allocated - now.bytes_live - now.bytes_pinned
        assert now.bytes_cached <= self.max_cached
        assert [peak.watch.nbytes for peak in self.peaks] == [peak.nbytes for peak in self.peaks]

    @invariant()
    def bytes_are_as_they_were_written(self) -> None:
        for held in self.held:
            assert held.array[0] == held.array[-1] == held.array[held.nbytes // 2] == held.mark


TestAllocating = Allocating.TestCase
TestAllocating.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


class TestAllocatingLong(Allocating.TestCase):
    settings = settings(max_examples=2000, stateful_step_count=100, deadline=None)
    pytestmark = pytest.mark.soak
