"""Make the record of a run (a program, a notebook's cell, or a test) from its history.

Growth is judged line by line over the whole run. So the report has up to three parts: the moment at which the
line with the largest growth held most, the run's high-water mark, and the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from scopes._shared.sizes import format_bytes, parse_size
from scopes.reports.history import FEWEST_LOOKS, MAX_LINES, Growth, History, format_lines
from scopes.reports.leak_report import LeakReport
from scopes.reports.run_record import RunRecord
from scopes.tracking.sites import Site

# The default growth from which a line is a leak, in bytes.
LEAST_GROWTH = 64 * 1024
# The report omits the high-water mark if the end holds at least this fraction of it.
_NEARLY = 0.9


def record_of(
    history: History,
    program: str,
    threshold: int | str = LEAST_GROWTH,
    *,
    arguments: Sequence[str] = (),
    latest: tuple[LeakReport, float] | None = None,
) -> RunRecord:
    """Return what a run kept, by creation line: at the end, and at earlier moments that held more.

    The first earlier moment is that at which the line with the largest growth held most, if its memory was
    freed later. The other one is the high-water mark.

    Parameters
    ----------
    history
        The history of the run. Tracking must still be on.
    program
        The name of the run, with the arguments of a program.
    threshold
        The growth from which a line is a leak: bytes, or text such as ``"1 MB"``, which the verdict repeats.
    latest
        The report of this moment and its seconds, if the run goes on. None: the run has ended, and the end is
        measured.
    """
    least = parse_size(threshold, "threshold")
    has_ended = latest is None
    highest = history.high_water_mark()
    if latest is None:
        report = history.look(with_all_holders=True)
        seconds = history.looks[-1].at / 1e9
    else:
        report, seconds = latest
    growing = {site: growth for site, growth in history.growing().items() if growth.rise.amount >= least}
    largest = next(iter(growing.values()), None)
    freed = next((growth for growth in growing.values() if not growth.is_at_the_end), None)
    grown = None if freed is None else history.at_most_of(freed)
    if highest is not None and _is_nearly_all_of(report, highest[0], growing):
        highest = None  # otherwise, the locals of functions usually held this memory
    parts = _parts(
        f"{program} has ended. " if has_ended else "",
        "At the end:" if has_ended else f"After {seconds:.3g} s:",
        grown,
        highest,
        report,
        is_latest_first=largest is not None and largest.is_at_the_end,
    )
    risen = {site: growth.rise.amount for site, growth in growing.items()}
    return RunRecord(
        program=program,
        arguments=tuple(arguments),
        parts=tuple([(title, report) for title, report, _ in parts]),
        times=tuple([at for _, _, at in parts]),
        verdict=_verdict(list(risen.items()), history, threshold, has_ended=has_ended),
        growing=tuple(risen.items()),
        moments=tuple([(look.at / 1e9, look.weight) for look in history.looks]),
        seconds=seconds,
    )


def _parts(
    state: str,
    title_of_latest: str,
    grown: tuple[LeakReport, float] | None,
    highest: tuple[LeakReport, float] | None,
    latest: LeakReport,
    *,
    is_latest_first: bool,
) -> list[tuple[str, LeakReport, float | None]]:
    """Return the reports with their titles and times. The first title begins with `state`."""
    if grown is not None and (highest is None or highest[0].weight * _NEARLY <= grown[0].weight):
        grown, highest = None, grown  # about the same moment, or about as much
    parts: list[tuple[str, LeakReport, float | None]] = []
    if grown is not None:
        parts.append((f"The line that grew held most after {grown[1]:.3g} s:", *grown))
    if highest is not None:
        parts.append((f"It held most after {highest[1]:.3g} s:", *highest))
    if state and not parts:
        return [(state.strip(), latest, None)]
    parts.insert(0 if is_latest_first else len(parts), (title_of_latest, latest, None))
    title, report, at = parts[0]
    return [(f"{state}{title}", report, at), *parts[1:]]


def _verdict(
    lines: list[tuple[Site, int]], history: History, threshold: int | str, *, has_ended: bool
) -> str:
    look_count = len(history.looks)
    found = "No line keeps more and more."
    if lines:
        count = "1 line keeps" if len(lines) == 1 else f"{len(lines)} lines keep"
        found = f"{count} more and more: {format_lines(lines)}."
    elif not history.looks or not history.looks[-1].births:
        found = "No line keeps more and more: the run created nothing that is tracked."
    elif look_count < FEWEST_LOOKS:
        found = (
            f"No line is known to keep more and more: the run was too short to judge growth, which takes "
            f"{FEWEST_LOOKS} moments."
        )
    which = "each line" if history.has_all_lines else f"the {MAX_LINES} heaviest lines"
    earlier_count = look_count - has_ended
    moments = f"at {earlier_count:,} moment{'s' * (earlier_count != 1)} of the run"
    if has_ended:
        moments = f"{moments} and at its end" if earlier_count else "at the end of the run"
    least = threshold if isinstance(threshold, str) else format_bytes(threshold)
    return (
        f"{found} The check covers the memory of {which}, with graphs, {moments}. A line leaks "
        "if its memory has grown throughout the run, or for half of the run before it was freed, by "
        f"{least} or more."
    )


def _is_nearly_all_of(end: LeakReport, highest: LeakReport, growing: dict[Site, Growth]) -> bool:
    """Return whether the end holds nearly as much as the high-water mark, and the same lines grow."""
    is_freed = any(not growth.is_at_the_end for growth in growing.values())
    return end.weight >= _NEARLY * highest.weight and not is_freed
