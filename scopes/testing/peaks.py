"""Pytest plugin, third part: the peak of memory of each test, compared with that of a file.

The file is TOML, sorted by test, so that a change of a peak is one line of a diff. It has the bytes of the
peak and the lines that held most at that moment.
"""

from __future__ import annotations

import gc
import json
import re
import threading
import tomllib
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from scopes._shared.sizes import format_bytes, parse_size
from scopes.core.scope import DisposeScope
from scopes.tracking import following, tracking
from scopes.tracking.memory_owners import TensorClass, tensor_class_of
from scopes.tracking.meters import Meter
from scopes.tracking.records import Record
from scopes.tracking.sites import Site

# The attribute of a test's report that has its peak.
ATTRIBUTE = "disposescope_peak"
# The key of a worker's output that has the tests that it collected.
COLLECTED = "disposescope_collected"
_DEFAULT_TOLERANCE = "2%"
# A growth below this does not count, unless the tolerance is a size.
_LEAST = 256
_MAX_LINES = 5
# Lines that hold less than this part of the peak are not written.
_LEAST_PART = 1 / 100
_SIMILAR = 0.6
# Memory that only graphs hold is looked for when the peak may have grown by this part.
_STEP = 1 / 1000
# The name of this library's tensors in the file.
_OWN = "tensor"


class _Buffer:
    """Memory of tensors: how many live ones, and a watch for what a graph may hold after them."""

    __slots__ = ("count", "kind", "library", "nbytes", "site", "watch")

    def __init__(self, record: Record, kind: TensorClass | None, watch: Any) -> None:
        self.nbytes = record.nbytes
        self.site = record.site
        self.library = _OWN if record.foreign is None else record.kind.partition(".")[0]
        self.count = 1
        self.kind = kind
        self.watch = watch


class PeakLines:
    """Listener that finds the peak of the bytes of each library's tensors, and the lines that held them.

    Memory that a graph holds after its tensor counts too, if the library tells. Then a peak is at most a
    thousandth too low.
    """

    def __init__(self) -> None:
        self.is_paused = False
        # The records of new tensors, and the serial numbers of those that have ended, in order. The garbage
        # collector may end and create tensors at any point of this class's own code, and other threads too:
        # whichever call has the lock counts all events.
        self._events: deque[Record | int] = deque()
        self._lock = threading.Lock()
        self._buffers: dict[object, _Buffer] = {}
        # By the serial number of a record: its buffer, and the buffer's key.
        self._of: dict[int, tuple[object, _Buffer]] = {}
        # The buffers without tensors that a graph may hold.
        self._left: dict[object, _Buffer] = {}
        self._bytes: Counter[str] = Counter()
        self._lines: Counter[Site] = Counter()
        self._total = self._peak = 0
        self._is_at_peak = False
        self._at_peak: dict[Site, int] = {}
        self._peaks: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin to listen. Tracking must be on."""
        tracker = tracking.current.tracker
        if tracker is not None:
            tracker.listeners += (self,)

    def end(self) -> None:
        """Stop listening."""
        tracker = tracking.current.tracker
        if tracker is not None:
            tracker.listeners = tuple([each for each in tracker.listeners if each is not self])
        self._note_peak()

    def created(self, record: Record) -> None:
        """Count the memory of a new tensor."""
        if not self.is_paused and record.nbytes:
            self._events.append(record)
            self._count_events()

    def ended(self, record: Record, _how: str) -> None:
        """Note the end of a tensor. It is counted at the next creation: until then, memory only shrinks."""
        self._events.append(record.serial)

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Ignore a new scope."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Ignore the end of a scope."""

    def peaks(self) -> dict[str, int]:
        """Return the peak of each library's bytes."""
        return dict(self._peaks)

    def lines(self) -> dict[Site, int]:
        """Return what each line held at the peak of all bytes, largest first."""
        self._note_peak()
        return dict(sorted(self._at_peak.items(), key=lambda item: -item[1]))

    def _count_events(self) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, int):
                    self._count_end(event)
                else:
                    self._count(event)
        finally:
            self._lock.release()

    def _count(self, record: Record) -> None:
        """Add the memory of a new tensor."""
        key = record.buffer
        known = self._buffers.get(key)
        if known is not None and known.nbytes == record.nbytes:
            left = self._left.pop(key, None)
            if left is None or (left.kind is not None and not left.kind.reuses_keys):
                known.count += 1
                self._of[record.serial] = key, known
                return
            self._forget(key, known)  # freed: the new memory has its place
        elif known is not None:
            self._left.pop(key, None)
            self._forget(key, known)
        x = record()
        kind = None if x is None else tensor_class_of(x)
        buffer = _Buffer(record, kind, None if kind is None else kind.watch(x))
        del x
        if self._left:
            self._note_peak()  # the new memory may make no peak
        self._buffers[key] = buffer
        self._of[record.serial] = key, buffer
        self._bytes[buffer.library] += buffer.nbytes
        self._lines[buffer.site] += buffer.nbytes
        self._total += buffer.nbytes
        self._look(buffer.library)

    def _count_end(self, serial: int) -> None:
        """Subtract the memory of a tensor that has ended, or look later whether a graph holds it."""
        key, buffer = self._of.pop(serial, (None, None))
        if buffer is None:
            return
        buffer.count -= 1
        if buffer.count == 0 and self._buffers.get(key) is buffer:
            if buffer.watch is None:
                self._forget(key, buffer)
            else:
                self._left[key] = buffer

    def _look(self, library: str) -> None:
        """Update the peaks after a creation."""
        nbytes = self._bytes[library]
        if nbytes <= self._peaks[library] and self._total <= self._peak:
            return
        if self._left:
            most = 1 + _STEP
            if nbytes <= self._peaks[library] * most and self._total <= self._peak * most:
                return
            self._drop_freed()
        self._peaks[library] = max(self._peaks[library], self._bytes[library])
        if self._total > self._peak:
            self._peak = self._total
            self._is_at_peak = True

    def _drop_freed(self) -> None:
        by_kind: dict[int, list[tuple[object, _Buffer]]] = {}
        for key, buffer in list(self._left.items()):
            by_kind.setdefault(id(buffer.kind), []).append((key, buffer))
        for items in by_kind.values():
            kind = items[0][1].kind
            if kind is None:
                continue
            alive = kind.are_alive([buffer.watch for _, buffer in items])
            for (key, buffer), is_alive in zip(items, alive, strict=True):
                if not is_alive and self._left.pop(key, None) is not None:
                    self._forget(key, buffer)

    def _forget(self, key: object, buffer: _Buffer) -> None:
        self._note_peak()
        if self._buffers.get(key) is buffer:
            del self._buffers[key]
        self._bytes[buffer.library] -= buffer.nbytes
        self._total -= buffer.nbytes
        self._lines[buffer.site] -= buffer.nbytes
        if not self._lines[buffer.site]:
            del self._lines[buffer.site]

    def _note_peak(self) -> None:
        """Copy the lines of the peak before they change. While memory only grows, nothing is copied."""
        if self._is_at_peak:
            self._is_at_peak = False
            self._at_peak = dict(self._lines)


@dataclass(frozen=True, slots=True)
class PeakLine:
    """What one line held at the peak. Its number is not written to the file, because it changes often."""

    nbytes: int
    file: str
    function: str
    text: str
    number: int = field(default=0, compare=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """The line without its number."""
        return self.file, self.function, self.text

    def __str__(self) -> str:
        return f"{self.file}:{self.number} in {self.function}"


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of a test: the bytes of each library's tensors, and the lines that held most."""

    figures: dict[str, int]
    lines: tuple[PeakLine, ...]

    @property
    def nbytes(self) -> int:
        """The sum of the libraries' peaks."""
        return sum(self.figures.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the peak as plain data."""
        lines = [[line.nbytes, line.file, line.function, line.text, line.number] for line in self.lines]
        return {"figures": self.figures, "lines": lines}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Peak:
        """Return the peak of which ``to_dict()`` returned `data`."""
        return cls(dict(data["figures"]), tuple([PeakLine(*line) for line in data["lines"]]))


# --- The file ---------------------------------------------------------------------------------------------

_HEAD = """\
# The peak of memory of each test, in bytes above its start, and the lines that held most at that moment.
# `pytest --tensor-peaks=FILE --update-peaks` writes this file.
"""


class NoPeaksError(ValueError):
    """The file is no file of peaks. The message says why."""


def dump(peaks: Mapping[str, Peak]) -> str:
    """Return the text of a file, sorted by test."""
    parts = [_HEAD]
    for test in sorted(peaks):
        peak = peaks[test]
        rows = [f"[{_quoted(test)}]"]
        rows += [f"{library} = {peak.figures[library]:_}" for library in sorted(peak.figures)]
        if peak.lines:
            rows.append("lines = [")
            rows += [
                f"    {{ bytes = {line.nbytes:_}, text = {_quoted(line.text)}, "
                f"function = {_quoted(line.function)}, file = {_quoted(line.file)} }},"
                for line in peak.lines
            ]
            rows.append("]")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def load(text: str) -> dict[str, Peak]:
    """Return the peaks in the text of a file.

    Raises
    ------
    NoPeaksError
        If it is not such a text.
    """
    try:
        return {test: _peak_of(table) for test, table in tomllib.loads(text).items()}
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoPeaksError(str(error) or type(error).__name__) from error


def _peak_of(table: Mapping[str, Any]) -> Peak:
    lines = [
        PeakLine(each["bytes"], each["file"], each["function"], each["text"])
        for each in table.get("lines", ())
    ]
    figures = {name: value for name, value in table.items() if name != "lines"}
    if not all(type(value) is int for value in figures.values()):
        raise ValueError(f"{figures} are not numbers of bytes")
    return Peak(figures, tuple(lines))


def _quoted(text: str) -> str:
    """Return `text` as a string of TOML, which has the escapes of JSON."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007F")


# --- Comparing --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much a peak may grow: a part of it, at least some bytes; or a size."""

    part: float
    nbytes: int
    text: str

    @classmethod
    def read(cls, text: str) -> Tolerance:
        """Return the tolerance of ``"2%"`` or ``"10 kB"``."""
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
        if match is not None:
            return cls(float(match[1]) / 100, _LEAST, text.strip())
        try:
            return cls(0.0, parse_size(text), text.strip())
        except ValueError:
            raise ValueError(
                f"{text!r} is no tolerance: write a percentage such as '2%', or a size such as '10 kB'"
            ) from None

    def most(self, nbytes: int) -> int:
        """Return the most bytes that are allowed for a peak of `nbytes`."""
        return nbytes + max(int(nbytes * self.part), self.nbytes)


def growth_of(before: Peak, after: Peak, tolerance: Tolerance) -> str | None:
    """Return words for a growth beyond the tolerance, and the lines that grew, or None."""
    grown = [
        (library, before.figures.get(library, 0), nbytes)
        for library, nbytes in sorted(after.figures.items())
        if nbytes > tolerance.most(before.figures.get(library, 0))
    ]
    if not grown:
        return None
    texts = [f"{library} {old:,} -> {new:,} bytes ({_percent(old, new)})" for library, old, new in grown]
    rows = [f"the peak of memory grew beyond {tolerance.text}: {', '.join(texts)}"]
    lines = grown_lines(before, after)
    if lines:
        rows.append("The lines that held more at the peak:")
        for line, old in lines:
            known = f"{old:,} -> {line.nbytes:,} bytes" if old is not None else f"{line.nbytes:,} bytes, new"
            rows += [f"  {line}: +{format_bytes(line.nbytes - (old or 0))} ({known})", f"      {line.text}"]
    else:
        rows.append("No line held more at the peak: the rest is memory of a running operation.")
    return "\n".join(rows)


def _percent(old: int, new: int) -> str:
    return f"{(new - old) / old:+.1%}" if old else "new"


def grown_lines(before: Peak, after: Peak) -> list[tuple[PeakLine, int | None]]:
    """Return the lines of `after` that hold more, with what they held before (None: unknown), most first.

    Lines are matched by function and text, then by the most similar text of the function.
    """
    old: Counter[tuple[str, str, str]] = Counter()
    for line in before.lines:
        old[line.key] += line.nbytes
    partners: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    new = _summed(after.lines)
    left = [key for key in old if key not in new]
    for key in [key for key in new if key not in old]:
        ratios = [
            (SequenceMatcher(None, key[2], other[2], autojunk=False).ratio(), other)
            for other in left
            if other[:2] == key[:2] and other not in partners.values()
        ]
        ratio, other = max(ratios, default=(0.0, key))
        if ratio >= _SIMILAR:
            partners[key] = other
    # A line that the file does not have may have held as much as the smallest one in it.
    unknown = min(old.values()) if len(before.lines) >= _MAX_LINES else 0
    found: list[tuple[PeakLine, int | None]] = []
    for key, line in new.items():
        known = old.get(partners.get(key, key))
        if line.nbytes > (unknown if known is None else known):
            found.append((line, known))
    found.sort(key=lambda item: -(item[0].nbytes - (item[1] or 0)))
    return found


def _summed(lines: Iterable[PeakLine]) -> dict[tuple[str, str, str], PeakLine]:
    """Return `lines` by their keys. Equal lines of a function are one."""
    found: dict[tuple[str, str, str], PeakLine] = {}
    for line in lines:
        other = found.get(line.key)
        if other is not None:
            line = PeakLine(line.nbytes + other.nbytes, *line.key, other.number)
        found[line.key] = line
    return found


# --- The plugin -------------------------------------------------------------------------------------------


def begin(config: pytest.Config, given: str, base: Path) -> None:
    """Measure the peak of each test of this run, and compare it with the file `given`, relative to `base`."""
    config.pluginmanager.register(_Peaks(config, base / given, given), "disposescope-peaks")
    following.begin()
    config.add_cleanup(following.end)


class _Measure:
    """The measurement of one test, from its setup to the end of its own code."""

    def __init__(self) -> None:
        if gc.isenabled():
            gc.collect()  # garbage of earlier tests must not be freed inside this one
        tracking.begin()
        self._lines = PeakLines()
        self._lines.begin()
        self._meter = Meter()
        self._meter.begin()
        self._is_open = True
        self._pauses = 0

    def pause(self) -> None:
        """Do not count what is created, until ``resume``."""
        self._pauses += 1
        self._lines.is_paused = True
        self._meter.pause()

    def resume(self) -> None:
        """Continue after ``pause``; after several, the last call continues."""
        self._pauses -= 1
        if self._is_open and not self._pauses:
            self._lines.is_paused = False
            self._meter.begin()

    def close(self) -> None:
        """Stop measuring."""
        if self._is_open:
            self._is_open = False
            self._meter.pause()
            self._lines.end()
            tracking.end()

    def peak(self, root: Path) -> Peak:
        """Return the peak. Names of files are relative to `root`."""
        figures = {name: nbytes for name, nbytes in self._lines.peaks().items() if name != _OWN and nbytes}
        if self._meter.peak_bytes > 0:
            figures[_OWN] = self._meter.peak_bytes
        held = self._lines.lines()
        least = sum(held.values()) * _LEAST_PART
        lines = _summed([_line_of(site, nbytes, root) for site, nbytes in held.items()]).values()
        largest = sorted(
            [line for line in lines if line.nbytes > least], key=lambda line: (-line.nbytes, line.key)
        )
        return Peak(figures, tuple(largest))


def _line_of(site: Site, nbytes: int, root: Path) -> PeakLine:
    path = Path(site.file)
    # The place of a file outside the project differs between machines.
    file = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return PeakLine(nbytes, file, site.function, site.text, site.line)


class _Peaks:
    """Plugin that measures tests, and reads and writes the file."""

    def __init__(self, config: pytest.Config, path: Path, shown: str) -> None:
        self._config = config
        self._path = path
        self._shown = shown
        self._is_updating = bool(config.getoption("--update-peaks"))
        given: Any = config.getoption("--peaks-tolerance") or config.getini("tensor_peaks_tolerance")
        try:
            self._tolerance = Tolerance.read(str(given or _DEFAULT_TOLERANCE))
        except ValueError as error:
            raise pytest.UsageError(f"--peaks-tolerance: {error}") from None
        self._before = self._read()
        self._measure: _Measure | None = None
        # The peaks of the tests of this run, and the tests that were collected.
        self._found: dict[str, Peak] = {}
        self._collected: set[str] = set()
        self._written = ""

    def _read(self) -> dict[str, Peak]:
        try:
            return load(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if self._is_updating:
                return {}
            raise pytest.UsageError(
                f"--tensor-peaks: there is no file {self._shown}: add --update-peaks to write it"
            ) from None
        except (OSError, UnicodeError) as error:
            raise pytest.UsageError(f"--tensor-peaks: can't read {self._shown}: {error}") from None
        except NoPeaksError as error:
            raise pytest.UsageError(
                f"--tensor-peaks: {self._shown} is not a file of peaks: {error}. Name another one"
            ) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note all tests, before some are deselected."""
        self._collected.update([_name_of(item) for item in items])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Begin to measure."""
        self._close()
        self._measure = _Measure()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Compare the peak after the test's code, if it passed."""
        result = yield
        measure = self._measure
        if measure is not None:
            measure.close()
            peak = measure.peak(self._config.rootpath)
            item.stash[_PEAK] = peak
            before = self._before.get(_name_of(item))
            if before is not None and not self._is_updating:
                text = growth_of(before, peak, self._tolerance)
                if text is not None:
                    advice = f"If it should: pytest --tensor-peaks={self._shown} --update-peaks"
                    pytest.fail(f"{item.name}: {text}\n{advice}", pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Stop measuring, if the test has not come to its end."""
        self._close()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        """Do not count what a fixture of wider scope creates: it belongs to several tests."""
        measure = self._measure
        if measure is None or fixturedef.scope == "function":
            return (yield)
        measure.pause()
        try:
            return (yield)
        finally:
            measure.resume()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the peak to the report of a test that passed, for the process that writes the file."""
        report = yield
        peak = item.stash.get(_PEAK, None)
        if call.when == "call" and report.passed and peak is not None:
            report.__dict__[ATTRIBUTE] = {"test": _name_of(item), **peak.to_dict()}
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the peaks of this process, or of the workers of xdist."""
        data = vars(report).get(ATTRIBUTE)
        if data is not None:
            peak, test = Peak.from_dict(data), data["test"]
            known = self._found.get(test)
            if known is None or peak.nbytes > known.nbytes:  # a test may run several times
                self._found[test] = peak

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Gather the tests that a worker of xdist has collected."""
        self._collected.update(getattr(node, "workeroutput", {}).get(COLLECTED, ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, in the process that has all peaks."""
        self._close()  # an interrupted test has no teardown
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[COLLECTED] = sorted(self._collected)
        elif self._is_updating:
            is_whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
            self._write(self._gone() if is_whole else set())

    def _gone(self) -> set[str]:
        """Return the tests of the file that no longer exist, as far as this run has collected their files."""
        if any("::" in str(argument) for argument in self._config.args):
            return set()
        files = {test.partition("::")[0] for test in self._collected}
        root = self._config.rootpath
        return {
            test
            for test in self._before
            if test not in self._collected
            and (test.partition("::")[0] in files or not (root / test.partition("::")[0]).exists())
        }

    def _write(self, gone: set[str]) -> None:
        kept = {test: peak for test, peak in self._before.items() if test not in gone}
        found = {test: _shortened(peak) for test, peak in self._found.items()}
        for test, peak in found.items():
            if not peak.figures:
                kept.pop(test, None)
        found = {test: peak for test, peak in found.items() if peak.figures}
        peaks = {**kept, **found}
        new = len(found.keys() - self._before.keys())
        changed = sum([self._before[test] != peak for test, peak in found.items() if test in self._before])
        try:
            self._path.write_text(dump(peaks), encoding="utf-8")
        except OSError as error:
            self._written = f"can't write {self._shown}: {error}"
            return
        self._written = (
            f"{self._shown}: {len(peaks)} tests, {new} new, {changed} changed, "
            f"{len(self._before) - len(self._before.keys() & peaks.keys())} removed"
        )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """List what was written, or the tests that the file does not have, or that use less."""
        rows = [self._written] if self._written else []
        if not self._is_updating:
            new = sorted(
                [test for test, peak in self._found.items() if test not in self._before and peak.figures]
            )
            if new:
                rows.append(f"not in {self._shown} (--update-peaks adds them):")
                rows += [f"  {test}: {_figures(self._found[test])}" for test in new]
            less = [
                f"  {test}: {_figures(self._before[test])} -> {_figures(peak)}"
                for test, peak in sorted(self._found.items())
                if test in self._before and growth_of(peak, self._before[test], self._tolerance) is not None
            ]
            if less:
                rows += [f"less than in {self._shown} (--update-peaks writes it):", *less]
        if rows:
            terminalreporter.section("tensor peaks")
            for row in rows:
                terminalreporter.write_line(row)

    def _close(self) -> None:
        measure, self._measure = self._measure, None
        if measure is not None:
            measure.close()


_PEAK: pytest.StashKey[Peak] = pytest.StashKey()


def _shortened(peak: Peak) -> Peak:
    return Peak(peak.figures, peak.lines[:_MAX_LINES])


def _figures(peak: Peak) -> str:
    return (
        ", ".join([f"{library} {nbytes:,}" for library, nbytes in sorted(peak.figures.items())]) or "nothing"
    )


def _name_of(item: pytest.Item) -> str:
    """Return the id of a test without the group that xdist adds."""
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return item.nodeid
    name = mark.args[0] if mark.args else mark.kwargs.get("name", "default")
    return item.nodeid.removesuffix(f"@{name}")
