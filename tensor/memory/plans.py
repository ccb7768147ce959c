"""Plans: the allocations of a function, and one reserved block for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from scopes._shared.extras import how_to_install
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes, parse_size
from tensor.memory.allocator import (
    HEAD,
    SLOT,
    Arena,
    Recording,
    Watch,
    cached_bytes,
    current_limit,
    live_or_pinned,
)
from tensor.memory.out_of_memory import OutOfMemoryError
from tensor.memory.placement import Life, most_alive, place

if TYPE_CHECKING:
    from scopes import Site

    # A class of matplotlib, an optional dependency.
    Figure = Any

_NO_MATPLOTLIB = (
    f"plotting a plan needs matplotlib, which is not installed: {how_to_install('plot')}. "
    "print(plan.table()) works without it"
)
_UNKNOWN = "(unknown line)"
_MAX_LINES = 8


@set_module("tensor.memory")
class Plan:
    """The allocations of large blocks by a function, in order, and their places in one block.

    Create it with ``memory.plan(function, *arguments)``.

    Attributes
    ----------
    peak_bytes : int
        The peak of live bytes while the function ran, as in ``memory.measure()``, including memory that was
        live before.
    lower_bound_bytes : int
        The peak of bytes of the function's own large arrays.
    arena_bytes : int
        The size of a block with places for all these arrays.
    allocation_count : int
        The number of arrays with a place in the plan.
    """

    def __init__(
        self, peak: int, events: Sequence[tuple[int, int, bool, int]], sites: Sequence[Site | None]
    ) -> None:
        self.peak_bytes: int = peak
        self._lines = [_UNKNOWN if site is None else str(site) for site in sites]
        self._events = list(events)
        self._lives = _lives_in(events)
        count = len(events)
        self.lower_bound_bytes: int = most_alive(self._lives, [life.nbytes for life in self._lives], count)
        slots = [-(-(HEAD + life.nbytes) // SLOT) * SLOT for life in self._lives]
        offsets, self.arena_bytes = place(self._lives, slots)
        self._places = [
            (life.nbytes, offset, offset + slot)
            for life, offset, slot in zip(self._lives, offsets, slots, strict=True)
        ]
        self._served = self._missed = 0
        # The arenas of the open `reserved()` blocks.
        self._open: list[Arena] = []

    @property
    def allocation_count(self) -> int:
        """The number of arrays with a place in the plan."""
        return len(self._places)

    @property
    def served_count(self) -> int:
        """The number of arrays that got their planned place, in all ``reserved()`` blocks so far."""
        return self._served + sum([arena.figures()[0] for arena in self._open])

    @property
    def missed_count(self) -> int:
        """The number of other arrays in these blocks: not planned, or with a place that was in use."""
        return self._missed + sum([arena.figures()[1] for arena in self._open])

    @contextmanager
    def reserved(self) -> Iterator[Self]:
        """Reserve one block, and give this thread's allocations their places in it.

        The function may run several times in the ``with`` block. An array that is not in the plan comes from
        the pool, and counts in ``missed_count``. An array that is still alive at the end keeps the whole
        block alive.

        Raises
        ------
        OutOfMemoryError
            At the start, if the limit or the system refuses ``arena_bytes``.
        """
        if not self._places:
            yield self
            return
        arena = _reserve_arena(self.arena_bytes, self._places)
        self._open.append(arena)
        try:
            arena.enter()
            yield self
        finally:
            self._open.remove(arena)
            served, missed = arena.figures()
            self._served += served
            self._missed += missed
            arena.close()

    def by_line(self) -> Mapping[str, tuple[int, int]]:
        """Return the number and bytes of large arrays for each source line; most bytes first."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for line, life in zip(self._lines, self._lives, strict=True):
            found[line][0] += 1
            found[line][1] += life.nbytes
        ordered = sorted(found.items(), key=lambda item: -item[1][1])
        return {line: (count, nbytes) for line, (count, nbytes) in ordered}

    def table(self) -> str:
        """Return a table of the source lines that allocate most."""
        rows = [("arrays", "bytes", "line")]
        found = list(self.by_line().items())
        rows += [(f"{count:,}", format_bytes(nbytes), line) for line, (count, nbytes) in found[:_MAX_LINES]]
        rest = found[_MAX_LINES:]
        if rest:
            count, nbytes = (sum(row[1][i] for row in rest) for i in (0, 1))
            rows.append((f"{count:,}", format_bytes(nbytes), f"{len(rest)} other lines"))
        widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
        return "\n".join(f"{a:>{widths[0]}}  {b:>{widths[1]}}  {line}" for a, b, line in rows)

    def __str__(self) -> str:
        return (
            f"{self.allocation_count:,} large arrays use {format_bytes(self.lower_bound_bytes)} of the peak "
            f"of {format_bytes(self.peak_bytes)}, and fit in one block of {format_bytes(self.arena_bytes)}"
            f"\n{self.table()}"
        )

    def __repr__(self) -> str:
        return (
            f"<Plan: {self.allocation_count} arrays, peak_bytes={self.peak_bytes}, "
            f"lower_bound_bytes={self.lower_bound_bytes}, arena_bytes={self.arena_bytes}>"
        )

    def plot(self) -> Figure:
        """Return a matplotlib figure of bytes over time, with a colour for each source line.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as missing:
            raise ModuleNotFoundError(_NO_MATPLOTLIB, name="matplotlib") from missing
        lines = list(self.by_line())[:_MAX_LINES]
        heights = {line: [0] * (len(self._events) + 1) for line in [*lines, "other lines"]}
        for line, life in zip(self._lines, self._lives, strict=True):
            height = heights[line if line in heights else "other lines"]
            for at in range(life.begin, life.end):
                height[at] += life.nbytes
        figure = Figure(figsize=(9, 5), layout="constrained")
        axes = figure.subplots()
        scaled = [[nbytes / 2**20 for nbytes in height] for height in heights.values()]
        axes.stackplot(range(len(self._events) + 1), scaled, labels=list(heights), step="post")
        axes.axhline(self.lower_bound_bytes / 2**20, color="black", linewidth=1, label="most alive at once")
        axes.axhline(self.arena_bytes / 2**20, color="black", linewidth=1, linestyle="--", label="one block")
        axes.set(xlabel="allocations and releases", ylabel="MiB of large arrays")
        axes.legend(fontsize=7, loc="upper left")
        return figure


def plan(function: Callable[..., object], /, *arguments: Any, **options: Any) -> Plan:
    """Run ``function(*arguments, **options)`` once, and return the plan of its allocations.

    A plan has the large arrays that this thread allocates from the pool (``min_pooled_bytes``). Run a
    training step once before you plan it: the first step creates the optimizer's state and gradients, which
    later steps use again.

    Raises
    ------
    RuntimeError
        If another plan is being recorded.

    Examples
    --------
    >>> import tensor
    >>> from tensor import memory
    >>> x = tensor.ones((1000, 100))
    >>> plan = memory.plan(lambda: ((x * 2) + 1).sum())
    >>> plan.allocation_count, plan.lower_bound_bytes
    (2, 800000)
    >>> with plan.reserved():
    ...     y = ((x * 2) + 1).sum()
    >>> plan.served_count, plan.missed_count
    (2, 0)
    """
    recording, watch = Recording(), Watch()
    watch.start()
    recording.start()
    result = None
    try:
        result = function(*arguments, **options)
    finally:
        events, sites = recording.stop()
        watch.stop()
        del result
    return Plan(watch.nbytes, events, sites)


@set_module("tensor.memory")
class Reservation:
    """Memory that ``memory.reserve`` took for the pool, until ``release()`` or a ``with`` block ends."""

    def __init__(self, arena: Arena, nbytes: int) -> None:
        self._arena: Arena | None = arena
        self.nbytes: int = nbytes

    def release(self) -> None:
        """Release the memory: at once, or when the last array in it is freed. A second call does nothing."""
        arena, self._arena = self._arena, None
        if arena is not None:
            arena.close()
            _reservations.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Reservation: {format_bytes(self.nbytes)}{'' if self._arena else ', released'}>"


# All reservations that are not released. They stay even if the user keeps no reference.
_reservations: set[Reservation] = set()


def reserve(size: int | str) -> Reservation:
    """Reserve memory from the system, from which the pool takes its blocks.

    All its pages are available when this returns, so later allocations do not wait for the system. The
    reservation lasts until ``release()``, or the end of a ``with`` block. Its free memory counts as cached.

    Parameters
    ----------
    size
        Bytes, or text such as ``"1 GiB"``.

    Raises
    ------
    OutOfMemoryError
        If the limit or the system refuses it.

    Examples
    --------
    >>> import tensor
    >>> from tensor import memory
    >>> with memory.reserve("1 MiB") as ahead:
    ...     ahead.nbytes
    1048576
    """
    nbytes = parse_size(size)
    found = Reservation(_reserve_arena(nbytes, []), nbytes)
    _reservations.add(found)
    return found


def _reserve_arena(nbytes: int, places: list[tuple[int, int, int]]) -> Arena:
    try:
        return Arena(nbytes, places)
    except MemoryError:
        _, live = live_or_pinned()
        raise OutOfMemoryError(nbytes, live, cached_bytes(), current_limit()) from None


def _lives_in(events: Sequence[tuple[int, int, bool, int]]) -> list[Life]:
    """Return the lifetime of each allocated array, in the order of allocation."""
    count = len(events)
    begins: list[tuple[int, int]] = []
    ends: dict[int, int] = {}
    # The events that free a block allocated before the recording, by size. In a loop, such blocks are those
    # of the previous iteration.
    freed: dict[int, list[int]] = defaultdict(list)
    for at, (number, nbytes, is_free, _) in enumerate(events):
        if not is_free:
            begins.append((at, nbytes))
        elif number >= 0:
            ends[number] = at
        else:
            freed[nbytes].append(at)
    lives = []
    for number, (begin, nbytes) in enumerate(begins):
        until = 0
        if number not in ends and freed[nbytes] and freed[nbytes][0] <= begin:
            until = freed[nbytes].pop(0)
        lives.append(Life(nbytes, begin, ends.get(number, count), until))
    return lives
