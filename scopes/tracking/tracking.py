"""Tracking: the line and scope in which each disposable was created, and how and where it ended.

While it is off, it takes no time. While it is on, `scopes.core` reports creations, ends and scopes to the
tracker. The tracker has a `Record` of each new disposable, a weak reference to it. ``note_created`` and
``note_ended`` are for objects that are not a `Disposable`, and for ends without a disposal.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from scopes._shared.guard import Guard
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.core.scope import set_observer, settle
from scopes.tracking import following
from scopes.tracking.records import LAST_REFERENCE as LAST_REFERENCE
from scopes.tracking.records import Record, Tracker
from scopes.tracking.shortage import is_out_of_memory, reserve
from scopes.tracking.sites import Site

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope


class _Current:
    """The tracker while tracking is on."""

    __slots__ = ("open_blocks", "tracker")

    def __init__(self) -> None:
        self.tracker: Tracker | None = None
        self.open_blocks: int = 0


current: Final = _Current()
# Returns a listener that prints a report every so many seconds, and writes its latest record to a file.
_history_of: Callable[[float | None, str | os.PathLike[str] | None], Any]
# Held while a thread starts or ends tracking, or a timeline changes the listeners.
guard: Final = Guard()


def report_by(history_of: Callable[[float | None, str | os.PathLike[str] | None], Any]) -> None:
    """Make ``track(every=seconds, survive=path)`` begin the listener ``history_of(seconds, path)``."""
    global _history_of
    _history_of = history_of


# Adds the owners of memory to an error for a lack of memory, as a note.
_add_note: Callable[[BaseException], None]


def explain_shortage_by(add_note: Callable[[BaseException], None]) -> None:
    """Call ``add_note(error)`` when an error for a lack of memory leaves a block ``with track():``."""
    global _add_note
    _add_note = add_note


def note_created(x: object, scope: DisposeScope | None) -> None:
    """Begin a record of the new disposable `x`, if tracking is on and has no record of it."""
    tracker = current.tracker
    if tracker is not None and id(x) not in tracker.records:
        tracker.created(x, scope)


def note_ended(x: object, how: str) -> None:
    """Record that `x` is empty now, if tracking is on."""
    tracker = current.tracker
    if tracker is not None:
        tracker.ended(x, how)


def note_memory(x: object, buffer: int, nbytes: int) -> None:
    """Record memory that `x` got after its creation, if tracking is on."""
    tracker = current.tracker
    if tracker is not None:
        tracker.given_memory(x, buffer, nbytes)


def note_written(x: object) -> None:
    """Record that an in-place operation gave `x` a graph, such as ``total += loss``, if tracking is on."""
    tracker = current.tracker
    if tracker is not None:
        tracker.written(x)


def note_made_for(owner: object, x: object) -> None:
    """Assign the new `x` to the creation line of `owner`: an optimizer's state to that of the optimizer."""
    of_owner, record = record_of(owner), record_of(x)
    if of_owner is not None and record is not None:
        record.site = of_owner.site


def record_of(x: object) -> Record | None:
    """Return the record of `x`, or None."""
    tracker = current.tracker
    record = None if tracker is None else tracker.records.get(id(x))
    return record if record is not None and record() is x else None


def newest_serial(tracker: Tracker) -> int:
    """Return the serial number of the newest disposable, also if nothing has read its creation yet."""
    settle()
    return tracker.serial


def largest_lines(most: int) -> list[str]:
    """Return the lines that created most of the living memory, with its size; none if tracking is off."""
    tracker = current.tracker
    sizes: Counter[Site] = Counter()
    seen: set[int] = set()
    for record, _ in [] if tracker is None else tracker.alive():
        if record.buffer not in seen:
            seen.add(record.buffer)
            sizes[record.site] += record.nbytes
    return [f"{site} ({format_bytes(nbytes)})" for site, nbytes in sizes.most_common(most) if nbytes]


@set_module("scopes")
class track:  # noqa: N801  # used as a function: `with track():`
    """Record the line and scope in which each new disposable is created, and how and where it ends.

    Tracking is on inside the ``with`` block; blocks nest. The environment variable ``DISPOSESCOPE_TRACK=1``
    turns it on for the whole program. See ``leaks`` for reports. While it is on, an op takes about a
    microsecond longer. While it is off, it takes no time.

    Tensors of PyTorch, JAX and CuPy are tracked as soon as the program has imported the library. With the
    environment variable ``DISPOSESCOPE_NO_TORCH=1``, those of PyTorch are not.

    If an error for a lack of memory leaves the block, such as ``tensor.OutOfMemoryError``, MemoryError or
    PyTorch's errors, it gets a note: what owns the memory (see ``owners``).

    Parameters
    ----------
    depth
        The number of user lines to record for each disposable: the innermost, its caller, and so on.
    every
        Print a report to the standard error stream every so many seconds: living disposables, their holders,
        and growing lines. The thread of the next creation prints it. None: never.
    survive
        Write the latest report to this file, such as ``"run.dspool"``. It outlives SIGKILL, the out-of-memory
        killer, ``os._exit()`` and a crash. ``disposescope report run.dspool`` shows it. The record of an
        earlier run is replaced. None: no file.

    Raises
    ------
    FileExistsError
        If `survive` names a file that is not a record of a run, or that another run writes now.
    OSError
        If the file can't be written when the block begins. Later, a message says so, and the program goes on.

    Examples
    --------
    >>> import os, scopes, tempfile, tensor
    >>> with scopes.track():
    ...     kept = [tensor.ones((250,)) for _ in range(4)]
    ...     row = scopes.leaks().rows[0]
    >>> row.count, row.nbytes
    (4, 4000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with scopes.track(survive=os.path.join(folder, "run.dspool")):
    ...         kept = tensor.ones((250,))
    ...     os.listdir(folder)
    ['run.dspool']
    """

    def __init__(
        self, depth: int = 1, *, every: float | None = None, survive: str | os.PathLike[str] | None = None
    ) -> None:
        if depth < 1:
            raise ValueError(f"track() records 1 line or more, not {depth!r}: write track(depth=3)")
        if every is not None and not every > 0:
            raise ValueError(
                f"every must be a number of seconds above 0, not {every!r}: write track(every=60)"
            )
        self.every = every
        self.survive = survive
        self._history: Any = None
        self.depth = depth

    def __enter__(self) -> Self:
        begin(self.depth)
        if self.every is not None or self.survive is not None:
            try:
                self._history = _history_of(self.every, self.survive)
            except OSError:
                end()
                raise
            self._history.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        history, self._history = self._history, None
        try:
            if error is not None and is_out_of_memory(error):
                _add_note(error)
        finally:
            if history is not None:
                history.end()
            end()


def begin(depth: int = 1, *, is_following: bool = True) -> Tracker:
    """Turn tracking on, or open another block of it. The largest depth of all blocks applies.

    With `is_following`, the tensors of other libraries are tracked too: see `following`.
    """
    if is_following:
        following.begin()
    return guard.run(_begin, depth)


def _begin(depth: int) -> Tracker:
    tracker = current.tracker
    if tracker is None:
        reserve()
        settle()  # what was created before is not tracked
        tracker = current.tracker = Tracker(depth)
        set_observer(tracker)
    tracker.depth = max(tracker.depth, depth)
    current.open_blocks += 1
    return tracker


def end(*, is_following: bool = True) -> None:
    """Close one block of tracking, which began with this `is_following`. The last one removes the records."""
    guard.run(_end)
    if is_following:
        following.end()


def _end() -> None:
    current.open_blocks -= 1
    tracker = current.tracker
    if current.open_blocks == 0 and tracker is not None:
        current.tracker = None
        set_observer(None)
        tracker.close()


@set_module("scopes")
def is_tracking() -> bool:
    """Return whether tracking is on.

    Examples
    --------
    >>> import scopes
    >>> with scopes.track():
    ...     scopes.is_tracking()
    True
    """
    return current.tracker is not None


def _begin_by_environment() -> None:
    if os.environ.get("DISPOSESCOPE_TRACK", "") in ("", "0"):
        return
    depth = os.environ.get("DISPOSESCOPE_TRACK_DEPTH", "1")
    if not depth.isdecimal() or int(depth) < 1:
        raise ValueError(
            f"DISPOSESCOPE_TRACK_DEPTH={depth} is not a number of lines to record for each tensor: write "
            "DISPOSESCOPE_TRACK_DEPTH=3, or leave it out"
        )
    begin(int(depth))


# The environment variable with the depth of tracking and the folder for reports of child processes.
CHILDREN = "DISPOSESCOPE_CHILDREN"


_begin_by_environment()
