"""Merge the timelines of several workers into one trace, with a process for each worker."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from nn.parallel.posts import WorkerReport


def merge(path: Path, workers: Mapping[int, WorkerReport]) -> None:
    """Write the timelines of all workers, on one clock. Compress them if the name ends in ``.gz``."""
    traces = {
        rank: json.loads(gzip.decompress(report.trace)) for rank, report in workers.items() if report.trace
    }
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
        metadata = trace["otherData"]
        about["seconds"] = max(about["seconds"], metadata["seconds"] + offset / 1e6)
        about["workers"][str(rank)] = metadata
        for key, many in metadata["dropped"].items():
            about["dropped"][key] = about["dropped"].get(key, 0) + many
        name = f"worker {rank} ({workers[rank].where})"
        for event in trace["traceEvents"]:
            event["pid"] = rank
            if event["ph"] == "M" and event["name"] == "process_name":
                event["args"] = {"name": name}
            if "ts" in event:
                event["ts"] += offset
            if "id" in event:  # ids of flow events must differ between processes
                event["id"] = f"{rank}.{event['id']}"
            events.append(event)
    for key in ("scopes", "disposables", "samples"):
        parts = [metadata["merged"][key] for metadata in about["workers"].values()]
        about["merged"][key] = {"within_us": max([part["within_us"] for part in parts], default=0.0)}
        if key != "samples":
            about["merged"][key]["count"] = sum([part["count"] for part in parts])
    text = json.dumps({"displayTimeUnit": "ns", "otherData": about, "traceEvents": events})
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
