"""The public functions for memory statistics, settings of the pool, and reports of memory holders."""

from __future__ import annotations

from typing import NamedTuple

from scopes._shared.html import figures_to_html
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes, parse_size
from tensor._errors import shown
from tensor.memory import allocator
from tensor.memory.holders import Holding, holdings


@set_module("tensor.memory")
class MemoryStatistics(NamedTuple):
    """Memory statistics at one moment. Subtract two of them for the change.

    Examples
    --------
    >>> import tensor
    >>> before = tensor.memory.statistics()
    >>> (tensor.memory.statistics() - before).bytes_live
    0
    """

    #: Memory of tensors and of the autograd graph.
    bytes_live: int
    #: The peak of live bytes since the start, or since ``reset_peak()``.
    bytes_peak: int
    #: The total of all bytes that were ever live.
    bytes_allocated: int
    #: The total of all bytes that are no longer live or pinned.
    bytes_freed: int
    #: The memory of free blocks of the pool (with rounded sizes), and unused reserved memory.
    bytes_cached: int
    #: External memory, for example a mapped file.
    bytes_external: int
    #: Memory that only code outside the library uses, for example an array of ``x.numpy()``.
    bytes_pinned: int
    #: The number of allocations so far.
    allocation_count: int
    #: The number of allocations that reused a block of the pool, or reserved memory.
    reuse_count: int
    #: The number of allocations from the pool that needed new memory.
    reuse_miss_count: int
    #: The number of donated tensors whose memory a result uses.
    donation_reuse_count: int
    #: The number of donated tensors whose memory no result uses.
    donation_miss_count: int
    #: Memory of the objects themselves (tensors, buffers, nodes of the graph), and the bytes by which blocks
    #: of the pool exceed the requested sizes.
    bytes_overhead: int = 0

    def __sub__(self, other: MemoryStatistics) -> MemoryStatistics:
        return MemoryStatistics(*[now - before for now, before in zip(self, other, strict=True)])

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
    """Return the memory statistics of this moment.

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
    """Reset `bytes_peak` to the bytes that are live now. This does not affect ``memory.measure``.

    Examples
    --------
    >>> from tensor import memory
    >>> memory.reset_peak()
    >>> figures = memory.statistics()
    >>> figures.bytes_peak == figures.bytes_live
    True
    """
    allocator.reset_peak()


@set_module("tensor.memory")
class Configuration(NamedTuple):
    """The settings that ``configure`` changes."""

    max_cached_bytes: int
    min_pooled_bytes: int
    limit_bytes: int | None
    fill: int | None


class _Unchanged:
    """The type of ``_UNCHANGED``, the default of all settings of ``configure``."""

    def __repr__(self) -> str:
        return "unchanged"


_UNCHANGED = _Unchanged()


def configuration() -> Configuration:
    """Return the current settings. Limits of ``memory.limit`` are not included.

    Examples
    --------
    >>> import tensor
    >>> tensor.memory.configuration().max_cached_bytes
    1073741824
    """
    max_cached, min_pooled, fill = allocator.settings()
    return Configuration(max_cached, min_pooled, _limit.nbytes if _limit is not None else None, fill)


# The limit set by ``configure``.
_limit: allocator.Bound | None = None


def configure(
    *,
    max_cached_bytes: int | str | _Unchanged = _UNCHANGED,
    min_pooled_bytes: int | str | _Unchanged = _UNCHANGED,
    limit_bytes: int | str | _Unchanged | None = _UNCHANGED,
    fill: int | _Unchanged | None = _UNCHANGED,
) -> None:
    """Change settings of the process. Other settings do not change. Sizes are bytes or ``"512 MiB"``.

    Parameters
    ----------
    max_cached_bytes
        The most bytes that the pool caches, by default 1 GiB. Bytes beyond it are released at once.
    min_pooled_bytes
        The smallest size of blocks from the pool, by default 4 KiB. For smaller blocks, the C library is as
        fast. Zero uses the pool for all blocks.
    limit_bytes
        The limit for live, pinned and cached bytes together; by default None, for no limit.
    fill
        A byte, 0 to 255, to fill uninitialized memory with. It makes reads of such memory visible. By default
        None, for no fill.

    Raises
    ------
    ValueError
        If a value is not a size, or not a byte. Then no setting changes.

    Examples
    --------
    >>> from tensor import memory
    >>> memory.configure(max_cached_bytes="2 GiB", fill=0xCD)
    >>> memory.configuration().max_cached_bytes
    2147483648
    >>> memory.configure(max_cached_bytes="1 GiB", fill=None)
    """
    if not isinstance(max_cached_bytes, _Unchanged):
        max_cached_bytes = parse_size(max_cached_bytes, "max_cached_bytes")
    if not isinstance(min_pooled_bytes, _Unchanged):
        min_pooled_bytes = max(parse_size(min_pooled_bytes, "min_pooled_bytes"), 1)
    if not isinstance(limit_bytes, _Unchanged) and limit_bytes is not None:
        limit_bytes = parse_size(limit_bytes, "limit_bytes")
    if not (fill is None or isinstance(fill, _Unchanged) or (type(fill) is int and 0 <= fill <= 255)):
        raise ValueError(f"fill must be a byte, not {shown(fill)}: write an integer from 0 to 255, or None")
    if not isinstance(fill, _Unchanged):
        allocator.set_fill(-1 if fill is None else fill)
    if not isinstance(min_pooled_bytes, _Unchanged):
        allocator.set_min_pooled(min_pooled_bytes)
    if not isinstance(max_cached_bytes, _Unchanged):
        allocator.set_max_cached(max_cached_bytes)
    if not isinstance(limit_bytes, _Unchanged):
        _set_limit(limit_bytes)


def _set_limit(nbytes: int | None) -> None:
    global _limit
    new = None if nbytes is None else allocator.Bound(nbytes)
    if new is not None:
        new.set()
    # The assignment frees the old `Bound`, which removes its limit.
    _limit = new


def trim(to_bytes: int | str = 0) -> int:
    """Return the pool's free blocks to the system until at most `to_bytes` are cached.

    Release the least recently used blocks first. The C library also releases its free heap memory. Python
    keeps its free memory for small objects, such as the tensors themselves: it releases an arena of 1 MiB
    when no object in it is alive.

    Returns
    -------
    The bytes that were released.

    Raises
    ------
    ValueError
        If `to_bytes` is not a size.

    Examples
    --------
    >>> import tensor
    >>> gone = tensor.memory.trim()
    >>> tensor.memory.statistics().bytes_cached
    0
    """
    return allocator.trim(parse_size(to_bytes, "to_bytes"), heap=True)


class MemoryReport(str):
    """A report of memory as text, shown as a table in notebooks."""

    # Title, bytes, number of buffers or allocations (or None), and kind.
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
    from html import escape  # imported here, because a top-level import makes `import tensor` 1% slower

    return f"<td style='text-align: {side}'>{escape(text)}</td>"


def report() -> MemoryReport:
    """Return a memory report to print: totals, then live and pinned buffers, and cached blocks.

    Buffers are grouped by dtype and shape, blocks by size, largest group first. A notebook shows a table.

    Examples
    --------
    >>> from tensor import memory
    >>> print(memory.report())  # doctest: +ELLIPSIS
    memory: ... live, peak ...
    """
    now = statistics()
    max_live = allocator.current_limit()
    bound = "no limit" if max_live is None else f"limit {format_bytes(max_live)}"
    pinned = f"pinned {format_bytes(now.bytes_pinned)}, external {format_bytes(now.bytes_external)}"
    max_cached = configuration().max_cached_bytes
    cached = f"cached {format_bytes(now.bytes_cached)} of at most {format_bytes(max_cached)}"
    fresh = f"large ones: {now.reuse_count} from the pool, {now.reuse_miss_count} new"
    lines = [
        f"memory: {format_bytes(now.bytes_live)} live, peak {format_bytes(now.bytes_peak)}, {bound}",
        f"{pinned}, {cached}",
        f"{now.allocation_count} allocations, {format_bytes(now.bytes_allocated)} in total; {fresh}",
    ]
    rows: list[tuple[str, int, int | None, str]] = [
        ("live", now.bytes_live, None, bound),
        ("peak", now.bytes_peak, None, ""),
        ("pinned", now.bytes_pinned, None, "used only by exported arrays"),
        ("external", now.bytes_external, None, "owned by other code"),
        ("cached", now.bytes_cached, None, f"of at most {format_bytes(max_cached)}"),
        ("allocated", now.bytes_allocated, now.allocation_count, fresh),
    ]
    others = _own_bytes() - now.bytes_live - now.bytes_cached - now.bytes_pinned - now.bytes_overhead
    if others > 0:
        what = "objects and code of Python and libraries, and free memory that Python keeps for small objects"
        lines.append(f"beside these, the process has {format_bytes(others)}: {what}")
        rows.append(("rest of the process", others, None, what))
    found, count, nbytes = holdings()
    held = [(each.nbytes, each.buffer_count, _with_holders(each)) for each in found]
    lines += _listed("held", held)
    rows += [("held", *row) for row in held[:_MAX_LISTED]]
    if count:
        kind = "smaller" if found else "small"
        lines.append(f"held: {format_bytes(nbytes)} in {count} {kind} buffer{'s' * (count > 1)}")
        rows.append(("held", nbytes, count, f"{kind} buffers"))
    kept = [(n * count, count, f"{n} bytes") for n, count in allocator.cached().items()]
    lines += _listed("cached", kept)
    rows += [("cached", *row) for row in kept[:_MAX_LISTED]]
    text = MemoryReport("\n".join(lines))
    text._rows = rows
    return text


def _own_bytes() -> int:
    """Return the memory that this process shares with no file and no other process; 0 where none tells."""
    from pathlib import Path  # imported here, because a top-level import makes `import tensor` slower

    try:
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        figures = dict(line.split(":", 1) for line in text.splitlines())
        return sum(int(figures[name].split()[0]) for name in ("RssAnon", "VmSwap")) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return 0


_MAX_LISTED = 10


def _listed(title: str, rows: list[tuple[int, int, str]]) -> list[str]:
    rows.sort(reverse=True)
    lines = [
        f"{title}: {format_bytes(nbytes)} in {count} x {kind}" for nbytes, count, kind in rows[:_MAX_LISTED]
    ]
    if len(rows) > _MAX_LISTED:
        rest = sum(row[0] for row in rows[_MAX_LISTED:])
        lines.append(f"{title}: {format_bytes(rest)} in {len(rows) - _MAX_LISTED} other kinds")
    return lines


def _with_holders(holding: Holding) -> str:
    return f"{holding.kind} by {', '.join(holding.by)}" if holding.by else holding.kind
