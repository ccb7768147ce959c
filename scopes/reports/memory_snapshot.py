"""Write allocations as a memory snapshot, the file that PyTorch's memory viewer opens.

The format is that of ``torch.cuda.memory._snapshot()``, a pickled dict. Its ``segments`` are the memory at
the end; its ``device_traces`` are all allocations and frees. https://pytorch.org/memory_viz shows it.
"""

from __future__ import annotations

import pickle
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from scopes._shared.files import require_ours

if TYPE_CHECKING:
    from os import PathLike

    from scopes.tracking.records import Record
    from scopes.tracking.sites import Site

    Event = dict[str, Any]

# The viewer reads protocols 2 to 4.
_PROTOCOL = 4
# Real addresses are not used, because they are far apart, and the viewer draws blocks by address.
_FIRST_ADDRESS = 0x10_0000_0000


class Allocation(NamedTuple):
    """The memory of one disposable. Those that share memory have the same `buffer` and `nbytes`."""

    serial: int
    buffer: object
    nbytes: int
    site: Site
    #: The time, by ``time.perf_counter_ns``.
    at: int


class Allocations:
    """Records the last `most` allocations and frees. Call `created` and `ended` while tracking is on."""

    def __init__(self, most: int) -> None:
        self._alive: dict[int, Allocation] = {}
        # Pairs of an allocation and its time of free; None for the allocation event.
        self._events: deque[tuple[Allocation, int | None]] = deque(maxlen=most)
        self._epoch = time.time_ns() - time.perf_counter_ns()

    def __len__(self) -> int:
        return len(self._events)

    def created(self, record: Record) -> None:
        """Record the memory of a new disposable."""
        if record.nbytes:
            new = Allocation(record.serial, record.buffer, record.nbytes, record.site, record.created_at)
            self._alive[record.serial] = new
            self._events.append((new, None))

    def ended(self, record: Record, at: int) -> None:
        """Record the end of a disposable. This may run in a finalizer: it takes no lock."""
        found = self._alive.pop(record.serial, None)
        if found is not None:
            self._events.append((found, at))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the snapshot to `path`."""
        target = require_ours(path)
        snapshot = self.snapshot()
        with target.open("wb") as file:
            pickle.dump(snapshot, file, protocol=_PROTOCOL)

    def snapshot(self) -> dict[str, Any]:
        """Return the snapshot as dicts, lists, strings and numbers."""
        alive, events = list(self._alive.values()), list(self._events)
        recorded = {allocation.serial for allocation, freed in events if freed is None}
        # Allocations from before the first kept event.
        freed_later = [allocation for allocation, freed in events if freed is not None]
        before = {x.serial: x for x in [*freed_later, *alive] if x.serial not in recorded}
        memory = _Memory(self._epoch)
        for allocation in before.values():
            memory.allocate(allocation)
        trace: list[Event] = []
        for allocation, freed in events:
            trace += memory.allocate(allocation) if freed is None else memory.free(allocation, freed)
        return {
            "recorder": "disposescope",
            "segments": memory.segments(),
            "device_traces": [trace],
            "allocator_settings": {},
            "external_annotations": [],
        }


class _Memory:
    """First-fit allocator of addresses for the viewer."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._sharers: Counter[tuple[object, int]] = Counter()
        self._blocks: dict[tuple[object, int], tuple[int, Allocation]] = {}
        # The gaps below the end, as starts and sizes, sorted by start.
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._end = 0
        self._frames: dict[Site, list[Event]] = {}

    def allocate(self, allocation: Allocation) -> Iterable[Event]:
        """Return the event of the allocation; none if another disposable shares the memory."""
        key = allocation.buffer, allocation.nbytes
        self._sharers[key] += 1
        if self._sharers[key] > 1:
            return ()
        start = self._take(allocation.nbytes)
        self._blocks[key] = start, allocation
        return (self._event("alloc", start, allocation, allocation.at),)

    def free(self, allocation: Allocation, at: int) -> Iterable[Event]:
        """Return the events of a free; none while others share the memory."""
        key = allocation.buffer, allocation.nbytes
        self._sharers[key] -= 1
        if self._sharers[key] > 0:
            return ()
        start, first = self._blocks.pop(key)
        self._give_back(start, allocation.nbytes)
        return [self._event(action, start, first, at) for action in ("free_requested", "free_completed")]

    def _take(self, size: int) -> int:
        for n, gap in enumerate(self._sizes):
            if gap >= size:
                start = self._starts[n]
                if gap == size:
                    del self._starts[n], self._sizes[n]
                else:
                    self._starts[n] += size
                    self._sizes[n] -= size
                return start
        start = self._end
        self._end += size
        return start

    def _give_back(self, start: int, size: int) -> None:
        n = bisect_left(self._starts, start)
        if n < len(self._starts) and start + size == self._starts[n]:
            size += self._sizes[n]
            del self._starts[n], self._sizes[n]
        if n and self._starts[n - 1] + self._sizes[n - 1] == start:
            self._sizes[n - 1] += size
        else:
            self._starts.insert(n, start)
            self._sizes.insert(n, size)

    def segments(self) -> list[dict[str, Any]]:
        """Return one segment with all blocks in it, used and unused."""
        if not self._end:
            return []
        active = sum([allocation.nbytes for _, allocation in self._blocks.values()])
        return [
            {
                "device": 0,
                "address": _FIRST_ADDRESS,
                "total_size": self._end,
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "allocated_size": active,
                "active_size": active,
                "requested_size": active,
                "frames": [],
                "blocks": list(self._all_blocks()),
            }
        ]

    def _all_blocks(self) -> Iterator[dict[str, Any]]:
        used = [(start, x.nbytes, self._frames_of(x.site)) for start, x in self._blocks.values()]
        unused = [(start, size, None) for start, size in zip(self._starts, self._sizes, strict=True)]
        for start, size, frames in sorted([*used, *unused], key=lambda block: block[0]):
            yield {
                "address": _FIRST_ADDRESS + start,
                "size": size,
                "requested_size": size,
                "state": "inactive" if frames is None else "active_allocated",
                "frames": frames or [],
            }

    def _event(self, action: str, start: int, allocation: Allocation, at: int) -> Event:
        return {
            "action": action,
            "addr": _FIRST_ADDRESS + start,
            "size": allocation.nbytes,
            "stream": 0,
            "time_us": (self._epoch + at) // 1000,
            "frames": self._frames_of(allocation.site),
        }

    def _frames_of(self, site: Site) -> list[Event]:
        frames = self._frames.get(site)
        if frames is None:
            frames = self._frames[site] = [
                {"filename": line.file, "line": line.number, "name": line.function} for line in site.lines
            ]
        return frames
