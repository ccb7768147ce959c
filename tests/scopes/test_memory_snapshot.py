"""Timelines as memory snapshots of PyTorch."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path
from typing import Any

import pytest

import scopes
import tensor
from scopes import new_dispose_scope

# What the viewer's reader of pickles knows (torch/utils/viz/MemoryViz.js).
KNOWN = (
    "APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPUT BINUNICODE DICT EMPTY_DICT EMPTY_LIST "
    "EMPTY_TUPLE FRAME LIST LONG1 LONG_BINGET LONG_BINPUT MARK MEMOIZE NEWFALSE NEWTRUE NONE PROTO SETITEM "
    "SETITEMS SHORT_BINUNICODE STOP TUPLE TUPLE1 TUPLE2 TUPLE3"
)


def snapshot_of(timeline: scopes.Timeline, path: Path) -> dict[str, Any]:
    timeline.save_snapshot(path)
    return pickle.loads(path.read_bytes())


def run(max_events: int = 1000) -> scopes.Timeline:
    kept = []
    with scopes.Timeline(max_events=max_events) as timeline:
        for n in range(1, 40):
            with new_dispose_scope("step") as scope:
                x = tensor.ones((100 * n,))
                view = x[5:]
                kept.append(scope.detach(view * 2))
    return timeline


def live(trace: list[dict[str, Any]]) -> dict[int, int]:
    """Replay a trace: the size of each block at the end, by address. No block lies over another one."""
    blocks: dict[int, int] = {}
    for event in trace:
        address, size = event["addr"], event["size"]
        if event["action"] == "alloc":
            assert all(address >= a + n or a >= address + size for a, n in blocks.items())
            blocks[address] = size
        elif event["action"] == "free_completed":
            assert blocks.pop(address) == size
    return blocks


def test_the_trace_ends_with_the_blocks_that_are_allocated(tmp_path: Path) -> None:
    snapshot = snapshot_of(run(), tmp_path / "snapshot.pickle")
    (trace,) = snapshot["device_traces"]
    (segment,) = snapshot["segments"]
    active = {b["address"]: b["size"] for b in segment["blocks"] if b["state"] == "active_allocated"}
    assert live(trace) == active
    assert sum(active.values()) == segment["allocated_size"] == 4 * sum(100 * n - 5 for n in range(1, 40))


def test_blocks_fill_the_segment_without_a_gap(tmp_path: Path) -> None:
    (segment,) = snapshot_of(run(), tmp_path / "snapshot.pickle")["segments"]
    end = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == end
        end += block["size"]
    assert end == segment["address"] + segment["total_size"]


@pytest.mark.parametrize("order", ["cd", "dc"])
def test_a_block_lies_where_two_neighbours_were_freed(tmp_path: Path, order: str) -> None:
    with scopes.Timeline() as timeline:
        a, b, c, d, e = (tensor.ones((size,)) for size in (1000, 1000, 2000, 1000, 1000))
        for x in (a, *({"c": c, "d": d}[name] for name in order)):
            x.dispose()
        f = tensor.ones((3000,))
    snapshot = snapshot_of(timeline, tmp_path / "snapshot.pickle")
    (trace,) = snapshot["device_traces"]
    allocated = [event["addr"] for event in trace if event["action"] == "alloc"]
    assert allocated[5] == allocated[2]
    assert sorted(live(trace).values()) == [b.nbytes, e.nbytes, f.nbytes]


def test_a_view_is_no_allocation_of_its_own(tmp_path: Path) -> None:
    with scopes.Timeline() as timeline:
        x = tensor.ones((1000,))
        view = x[10:]
        x.dispose()
        view.dispose()
    (trace,) = snapshot_of(timeline, tmp_path / "snapshot.pickle")["device_traces"]
    assert [event["action"] for event in trace] == ["alloc", "free_requested", "free_completed"]


def test_frames_are_the_lines_of_the_user(tmp_path: Path) -> None:
    (trace,) = snapshot_of(run(), tmp_path / "snapshot.pickle")["device_traces"]
    (frame,) = trace[0]["frames"]
    assert frame["filename"] == __file__
    assert frame["name"] == "run"
    assert (
        Path(__file__).read_text(encoding="utf-8").splitlines()[frame["line"] - 1].strip()
        == "x = tensor.ones((100 * n,))"
    )


def test_the_last_events_are_kept_and_older_ones_count_as_allocated_before(tmp_path: Path) -> None:
    snapshot = snapshot_of(run(max_events=100), tmp_path / "snapshot.pickle")
    (trace,) = snapshot["device_traces"]
    (segment,) = snapshot["segments"]
    assert len([event for event in trace if event["action"] != "free_requested"]) <= 100
    assert segment["allocated_size"] == 4 * sum(100 * n - 5 for n in range(1, 40))


def test_snapshot_uses_only_opcodes_that_the_viewer_supports(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    run().save_snapshot(path)
    assert {opcode.name for opcode, _, _ in pickletools.genops(path.read_bytes())} <= set(KNOWN.split())


def test_a_snapshot_overwrites_one_and_no_file_of_the_user(tmp_path: Path) -> None:
    timeline = run()
    timeline.save_snapshot(tmp_path / "snapshot.pickle")
    timeline.save_snapshot(tmp_path / "snapshot.pickle")
    (tmp_path / "weights.pickle").write_bytes(pickle.dumps({"weights": [1.0]}))
    with pytest.raises(FileExistsError, match=r"weights\.pickle exists and is not a report"):
        timeline.save_snapshot(tmp_path / "weights.pickle")


def test_the_tools_of_pytorch_read_it(tmp_path: Path) -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz")
    snapshot = snapshot_of(run(), tmp_path / "snapshot.pickle")
    assert "total_allocated: 303.9KiB" in viz.segsum(snapshot)
    assert viz.trace(snapshot).startswith("Device 0 ----")
    assert "run" in viz.memory(snapshot, format_flamegraph=lambda lines: lines)
    assert "snapshot.pickle" in viz.trace_plot(snapshot)
