"""Merge the timelines of several workers into one trace, with a process for each worker."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nn.parallel.board import Told


def merge(path: Path, workers: Mapping[int, Told]) -> None:
    """Write the timelines of the workers with one clock; compressed if the name ends in ``.gz``."""
    traces = {rank: json.loads(gzip.decompress(told.trace)) for rank, told in workers.items() if told.trace}
    first = min([workers[rank].trace_began_at for rank in traces], default=0)
    events: list[dict[str, Any]] = []
    about: dict[str, Any] = {
        "recorder": "disposescope",
        "seconds": 0.0,
        "merged": {},
        "dropped": {},
        "workers": {},
    }
    for rank, trace in traces.items():
        offset = (workers[rank].trace_began_at - first) / 1000
        its = trace["otherData"]
        about["seconds"] = max(about["seconds"], its["seconds"] + offset / 1e6)
        about["workers"][str(rank)] = its
        for what, many in its["dropped"].items():
            about["dropped"][what] = about["dropped"].get(what, 0) + many
        name = f"worker {rank} ({workers[rank].where})"
        for event in trace["traceEvents"]:
            event["pid"] = rank
            if event["ph"] == "M" and event["name"] == "process_name":
                event["args"] = {"name": name}
            if "ts" in event:
                event["ts"] += offset
            if "id" in event:  # arrows need different ids in different processes
                event["id"] = f"{rank}.{event['id']}"
            events.append(event)
    for what in ("scopes", "disposables", "samples"):
        parts = [its["merged"][what] for its in about["workers"].values()]
        about["merged"][what] = {"within_us": max([part["within_us"] for part in parts], default=0.0)}
        if what != "samples":
            about["merged"][what]["count"] = sum([part["count"] for part in parts])
    text = json.dumps({"displayTimeUnit": "ns", "otherData": about, "traceEvents": events})
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
