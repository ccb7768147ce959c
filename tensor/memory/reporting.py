"""What users read and set: the figures of memory, the pool's settings, and a report of who holds what."""

from __future__ import annotations

from typing import NamedTuple

from scopes.lowlevel import figures_to_html, format_bytes, parse_size
from tensor._errors import shown
from tensor.memory import allocator, watches
from tensor.memory.holders import Holding, holdings


class MemoryStatistics(NamedTuple):
    """The figures at one moment. Two subtract.

    Examples
    --------
    >>> from tensor import memory
    >>> before = memory.statistics()
    >>> (memory.statistics() - before).bytes_live
    0
    """

    #: Under tensors and under the graph.
    bytes_live: int
    #: The most that was live at once since the start, or since ``reset_peak()``.
    bytes_peak: int
    #: All that ever was live.
    bytes_allocated: int
    #: All that is neither live nor pinned any more.
    bytes_freed: int
    #: Kept by the pool for the next tensors, in the memory that this really takes.
    bytes_cached: int
    #: Borrowed from others, a file that is mapped for example.
    bytes_external: int
    #: No tensor's any more, but still seen from outside, by an array of ``x.numpy()`` for example.
    bytes_pinned: int
    #: How many blocks were allocated.
    allocation_count: int
    #: How many of those the pool had.
    reuse_count: int
    #: How many of those were large enough for the pool and yet needed fresh memory.
    reuse_miss_count: int
    #: How many operations put their result into the memory of a donated tensor.
    donation_reuse_count: int
    #: How many could not.
    donation_miss_count: int
    #: What is taken beside: by the objects themselves (tensors, buffers, the graph's nodes), and by blocks of
    #: the pool beyond what was asked for.
    bytes_overhead: int = 0

    def __sub__(self, other: MemoryStatistics) -> MemoryStatistics:
        return MemoryStatistics(*[mine - its for mine, its in zip(self, other, strict=True)])

    def __str__(self) -> str:
        return "; ".join(f"{name}: {figure}" for name, figure in self._shown().items())

    def _repr_html_(self) -> str:
        return figures_to_html(self._shown())

    def _shown(self) -> dict[str, str]:
        return {
            name: format_bytes(value) if name.startswith("bytes") else str(value)
            for name, value in self._asdict().items()
        }


def statistics() -> MemoryStatistics:
    """Return the figures of this moment, frozen.

    Examples
    --------
    >>> import tensor
    >>> from tensor import memory
    >>> x = tensor.ones((100, 100))
    >>> figures = memory.statistics()
    >>> figures.bytes_peak >= figures.bytes_live
    True
    """
    return MemoryStatistics(*allocator.figures())


def reset_peak() -> None:
    """Let `bytes_peak` start again at what is live now. Running measures go on as before.

    Examples
    --------
    >>> from tensor import memory
    >>> memory.reset_peak()
    >>> figures = memory.statistics()
    >>> figures.bytes_peak == figures.bytes_live
    True
    """
    allocator.reset_peak()


class Configuration(NamedTuple):
    """The settings that ``configure`` changes."""

    max_cached_bytes: int
    min_pooled_bytes: int
    limit_bytes: int | None
    fill: int | None


class _Given:
    """What is not given does not change."""

    def __repr__(self) -> str:
        return "as it is"


_AS_IT_IS = _Given()


def configuration() -> Configuration:
    """Return the settings, frozen. Limits of ``memory.limit`` are not among them.

    Examples
    --------
    >>> from tensor import memory
    >>> memory.configuration().max_cached_bytes
    1073741824
    """
    max_cached, min_pooled, fill = allocator.settings()
    return Configuration(max_cached, min_pooled, _bound.nbytes if _bound is not None else None, fill)


# The limit that ``configure`` has set.
_bound: watches.Bound | None = None


def configure(
    *,
    max_cached_bytes: int | str | _Given = _AS_IT_IS,
    min_pooled_bytes: int | str | _Given = _AS_IT_IS,
    limit_bytes: int | str | _Given | None = _AS_IT_IS,
    fill: int | _Given | None = _AS_IT_IS,
) -> None:
    """Change settings of the process; those that are not given stay. Sizes are bytes or ``"512 MiB"``.

    Parameters
    ----------
    max_cached_bytes
        How much the pool keeps at most; 1 GiB at the start. What is too much goes at once.
    min_pooled_bytes
        From which size on blocks come from the pool; 4 KiB at the start, for below the C library's own cache
        is as quick. Zero pools everything.
    limit_bytes
        How much may be live, pinned and cached together; None, as at the start, for no limit.
    fill
        A byte, 0 to 255, that uninitialised memory is filled with, so that reading what was never written
        shows; None, as at the start, leaves it as it is.

    Raises
    ------
    ValueError
        When a value says no size, or no byte. No setting has changed then.

    Examples
    --------
    >>> from tensor import memory
    >>> memory.configure(max_cached_bytes="2 GiB", fill=0xCD)
    >>> memory.configuration().max_cached_bytes
    2147483648
    >>> memory.configure(max_cached_bytes="1 GiB", fill=None)
    """
    if not isinstance(max_cached_bytes, _Given):
        max_cached_bytes = parse_size(max_cached_bytes, "max_cached_bytes")
    if not isinstance(min_pooled_bytes, _Given):
        min_pooled_bytes = max(parse_size(min_pooled_bytes, "min_pooled_bytes"), 1)
    if not isinstance(limit_bytes, _Given) and limit_bytes is not None:
        limit_bytes = parse_size(limit_bytes, "limit_bytes")
    if not (fill is None or isinstance(fill, _Given) or (type(fill) is int and 0 <= fill <= 255)):
        raise ValueError(
            f"fill is {shown(fill)}, which is no byte: write a whole number from 0 to 255, or None"
        )
    if not isinstance(fill, _Given):
        allocator.set_fill(-1 if fill is None else fill)
    if not isinstance(min_pooled_bytes, _Given):
        allocator.set_min_pooled(min_pooled_bytes)
    if not isinstance(max_cached_bytes, _Given):
        allocator.set_max_cached(max_cached_bytes)
    if not isinstance(limit_bytes, _Given):
        _set_bound(limit_bytes)


def _set_bound(nbytes: int | None) -> None:
    global _bound
    new = None if nbytes is None else watches.Bound(nbytes)
    if new is not None:
        new.set()
    # The one before is lifted when it goes.
    _bound = new


def trim(to_bytes: int | str = 0) -> int:
    """Give the pool's memory back to the system until at most `to_bytes` are cached.

    Those go first that nobody has used for the longest time. The C library gives back what it can spare, too.

    Returns
    -------
    The bytes that were given back.

    Raises
    ------
    ValueError
        When `to_bytes` says no size.

    Examples
    --------
    >>> from tensor import memory
    >>> gone = memory.trim()
    >>> memory.statistics().bytes_cached
    0
    """
    return allocator.trim(parse_size(to_bytes, "to_bytes"), heap=True)


class MemoryReport(str):
    """What the memory is doing, in words; a notebook shows it as a table."""

    # What, its bytes, how many, and of what kind.
    _rows: list[tuple[str, int, int | None, str]]

    def _repr_html_(self) -> str:
        head = "".join([f"<th style='text-align: {side}'>{name}</th>" for name, side in _COLUMNS])
        rows = [
            (what, format_bytes(nbytes), "" if count is None else f"{count:,}", kind)
            for what, nbytes, count, kind in self._rows
        ]
        body = "".join(
            [
                "<tr>"
                + "".join([_cell(text, side) for text, (_, side) in zip(row, _COLUMNS, strict=True)])
                + "</tr>"
                for row in rows
            ]
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_COLUMNS = (("memory", "left"), ("bytes", "right"), ("buffers", "right"), ("kind", "left"))


def _cell(text: str, side: str) -> str:
    from html import escape  # here: `import tensor` is 1% quicker without

    return f"<td style='text-align: {side}'>{escape(text)}</td>"


def report() -> MemoryReport:
    """Return what the memory is doing, to be printed: the totals, and what is live, largest first.

    A notebook shows it as a table.

    Examples
    --------
    >>> from tensor import memory
    >>> print(memory.report())  # doctest: +ELLIPSIS
    memory: ... live, peak ...
    """
    now = statistics()
    most = allocator.current_limit()
    bound = "no limit" if most is None else f"limit {format_bytes(most)}"
    pinned = f"pinned {format_bytes(now.bytes_pinned)}, borrowed {format_bytes(now.bytes_external)}"
    max_cached = configuration().max_cached_bytes
    cached = f"cached {format_bytes(now.bytes_cached)} of at most {format_bytes(max_cached)}"
    fresh = f"{now.reuse_count} from the pool, {now.reuse_miss_count} fresh"
    lines = [
        f"memory: {format_bytes(now.bytes_live)} live, peak {format_bytes(now.bytes_peak)}, {bound}",
        f"{pinned}, {cached}",
        f"{now.allocation_count} allocations of {format_bytes(now.bytes_allocated)}; of large ones {fresh}",
    ]
    rows: list[tuple[str, int, int | None, str]] = [
        ("live", now.bytes_live, None, bound),
        ("peak", now.bytes_peak, None, ""),
        ("pinned", now.bytes_pinned, None, "no tensor's, and seen from outside"),
        ("borrowed", now.bytes_external, None, "of others"),
        ("cached", now.bytes_cached, None, f"of at most {format_bytes(max_cached)}"),
        ("allocated", now.bytes_allocated, now.allocation_count, f"of large ones {fresh}"),
    ]
    found, count, nbytes = holdings()
    held = [(each.nbytes, each.buffer_count, _with_holders(each)) for each in found]
    lines += _listed("held", held)
    rows += [("held", *row) for row in held[:_LISTED]]
    if count:
        lines.append(f"held: {format_bytes(nbytes)} in {count} smaller buffer{'s' * (count > 1)}")
        rows.append(("held", nbytes, count, "smaller buffers"))
    kept = [(n * count, count, f"{n} bytes") for n, count in allocator.cached().items()]
    lines += _listed("cached", kept)
    rows += [("cached", *row) for row in kept[:_LISTED]]
    told = MemoryReport("\n".join(lines))
    told._rows = rows
    return told


_LISTED = 10


def _listed(title: str, rows: list[tuple[int, int, str]]) -> list[str]:
    rows.sort(reverse=True)
    lines = [f"{title}: {format_bytes(nbytes)} in {count} x {kind}" for nbytes, count, kind in rows[:_LISTED]]
    if len(rows) > _LISTED:
        rest = sum(row[0] for row in rows[_LISTED:])
        lines.append(f"{title}: {format_bytes(rest)} in {len(rows) - _LISTED} other kinds")
    return lines


def _with_holders(holding: Holding) -> str:
    return f"{holding.kind} by {', '.join(holding.by)}" if holding.by else holding.kind
