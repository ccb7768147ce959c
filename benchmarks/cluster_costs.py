"""The costs of 1,000 workers: the traffic of figures and reports, sums of gradients, and the start.

    python -m benchmarks.cluster_costs           # measure, print, write the tables into docs/cluster.md
    python -m benchmarks.cluster_costs --quick   # fewer rounds; prints, and writes nothing

It measures 1, 2, 4 and 8 processes, and takes the least of several rounds. The costs of one process (the
board, the merging of reports) are measured for 1,000 workers, with reports of a realistic size.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import ROOT
from benchmarks.document import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DOCS = ROOT / "docs"
COUNTS = (1, 2, 4, 8)
WORKERS = (8, 80, 400, 1000)
EACH = 8  # workers on a machine, in the model
# A busy machine starts Ray's processes slowly.
_LIMITS = {
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_raylet_client_num_connect_attempts": "600",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
}
_BEGAN = time.perf_counter()
CALLS = 10  # assumed: calls of Ray Train's controller, in sequence, for each worker of a new job
#: The lines in a report of leaks, and the numbers of a large bucket.
LINES = 50
LARGE = 1_000_000
#: The assumed network: the seconds of a message, and the bytes in a second (10 Gbit/s Ethernet).
LATENCY, BANDWIDTH = 50e-6, 1.1e9

Times = dict[str, float]


class Costs(NamedTuple):
    """The measured constants of the model, in seconds and bytes."""

    row_bytes: int
    row: float
    report_bytes: int
    report: float
    read_row: float
    leak_bytes: int
    merge_line: float
    page_bytes_line: float
    cpu_start: float
    job: float
    job_worker: float
    connect_pair: float


# --- In each of several processes -----------------------------------------------------------------------


def _exchange(rank: int, count: int, token: str, rounds: int) -> Times:
    """Measure sums through shared memory: the time, and the processor time of one worker."""
    began = time.process_time(), time.perf_counter()
    from nn.parallel import group as groups
    from nn.parallel.exchange import Exchange, Size

    imported = time.process_time()
    group = groups.Group(
        groups.Place(rank, count, rank, count), token, ranks=tuple(range(count)), to_connect=300
    )
    groups.join(group)
    group.barrier()
    found = {"import": imported, "start": time.perf_counter() - began[1]}
    for name, length in (("small", 2), ("large", LARGE)):
        exchange = Exchange(group, [Size(np.dtype(np.float32), length)])
        values, average = np.ones(length, np.float32), np.empty(length, np.float32)
        times, cpu = [], []
        for _ in range(rounds):
            begin, begin_cpu = time.perf_counter(), time.process_time()
            exchange.slot(0)[...] = values
            exchange.publish(0)
            average[...] = exchange.result(0)
            times.append(time.perf_counter() - begin)
            cpu.append(time.process_time() - begin_cpu)
        found[name], found[f"{name} cpu"] = min(times), min(cpu)
    rows = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(100):
            group.write_row(False)
        rows.append((time.perf_counter() - begin) / 100)
    found["row"] = min(rows)
    return found


def _gloo(rank: int, count: int, folder: str, rounds: int) -> Times:
    """Measure gloo on loopback, a process for each machine: its connections, a small and a large sum."""
    import torch

    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", count)
    store.set(f"{rank}", "here")
    store.wait([f"{i}" for i in range(count)])
    begin = time.perf_counter()
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=count)
    found = {"connect": time.perf_counter() - begin}
    for name, length in (("small", 2), ("large", LARGE)):
        x, times = torch.zeros(length), []
        for _ in range(rounds):
            begin = time.perf_counter()
            torch.distributed.all_reduce(x)
            times.append(time.perf_counter() - begin)
        found[name] = min(times)
    return found


def _processes(kind: str, count: int, rounds: int) -> Times:
    """Run `count` processes of this program, and return the times of the slowest one."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        shared = ["--count", str(count), "--token", f"{uuid.uuid4().hex[:8]}.0", "--folder", folder]
        shared += ["--kind", kind, "--rounds", str(rounds)]
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.cluster_costs", *shared, "--rank", str(rank)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                cwd=ROOT,
            )
            for rank in range(count)
        ]
        outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"a process of {kind} has failed")
    found = [json.loads(output.splitlines()[-1]) for output in outputs]
    return {name: max(each[name] for each in found) for name in found[0]}


# --- On Ray ---------------------------------------------------------------------------------------------


def _nothing() -> None:
    """Run the loop of a worker that connects to the others and ends."""
    from nn import parallel

    parallel.barrier()


def _job(count: int) -> float:
    """Return the time of a job with this number of workers that does nothing."""
    from ray import train

    from nn import parallel

    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        parallel.Trainer(
            _nothing,
            scaling_config=train.ScalingConfig(num_workers=count),
            run_config=train.RunConfig(storage_path=folder),
        ).fit()
        return time.perf_counter() - begin


def _post(board: Any, rank: int, posts: int) -> float:
    """Send reports to the board, as a worker does after steps. Return the reports in a second."""
    import ray

    told = _told()
    begin = time.perf_counter()
    ray.get([board._actor.post.remote({rank: told}) for _ in range(posts)])
    return posts / (time.perf_counter() - begin)


def _told(leaks: dict[str, Any] | None = None) -> Any:
    from nn.parallel.figures import row_of_now
    from nn.parallel.posts import WorkerReport

    row = row_of_now(1000, 1.0, 2**30)
    return WorkerReport(row, "machine-123, process 1234567", leaks=leaks)


def _leaks(lines: int) -> dict[str, Any]:
    """Return a worker's report of `lines` lines that leak, in the form of `nn.parallel.watching`."""
    file = "/home/user/project/package/training_loop.py"
    rows = [
        {
            "lines": [{"file": file, "line": n, "function": "train", "text": "kept.append(model(x).sum())"}],
            "kinds": ["Tensor"], "count": 50, "bytes": 200_000, "is_growing": n == 0,
            "count_per_round": 1.0, "bytes_per_round": 4000.0, "scope": ["step"], "ops": 3,
            "holder": "kept[...], a local of train()", "risen": 100_000,
        }
        for n in range(lines)
    ]  # fmt: skip
    part = {"count": 50 * lines, "bytes": 200_000 * lines, "rounds": 50, "rows": rows}
    moments = [[n / 100, n * 1000] for n in range(64)]
    return {
        "highest": {"after": 1.0, **part}, "at_the_end": json.loads(json.dumps(part)),
        "leaking": [{"lines": rows[0]["lines"], "risen": 100_000}], "moments": moments,
    }  # fmt: skip


def _on_ray(rounds: int, with_jobs: bool) -> dict[str, Any]:
    """Measure with Ray: the reports that the board receives, their reading, jobs of 1 to 8 workers."""
    import ray

    from nn.parallel.board import Board

    os.environ |= {"PYTHONPATH": str(ROOT), "RAY_worker_niceness": "0", **_LIMITS}
    ray.init(
        "local",
        num_cpus=max(COUNTS),
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        logging_level="error",
        log_to_driver=False,
    )
    try:
        board = Board.start()
        post = ray.remote(num_cpus=0)(_post)
        posts: dict[int, float] = {}
        for count in COUNTS:
            found = []
            for _ in range(rounds + 1):
                begin = time.perf_counter()
                ray.get([post.remote(board, rank, 200) for rank in range(count)])
                found.append(count * 200 / (time.perf_counter() - begin))
            posts[count] = max(found)
            _say(f"{count} processes send {posts[count]:.0f} reports a second")
        reads = {}
        for count in (1, 10, 100, 1000):
            ray.get([board._actor.post.remote({rank: _told()}) for rank in range(count)])
            reads[count] = _least(board.read, 5 * rounds)
        board.stop()
        _say(f"reading reports takes {reads}")
        jobs = {}
        if with_jobs:
            _job(1)  # the processes that Ray starts once
            for count in COUNTS:
                jobs[count] = min(_job(count) for _ in range(rounds))
                _say(f"a job of {count} workers takes {jobs[count]:.1f} s")
    finally:
        ray.shutdown()
    return {"jobs": jobs, "posts": posts, "reads": reads}


def _merging(rounds: int) -> tuple[dict[int, float], int, float]:
    """Return the time of merging by workers, the bytes of a report, and the bytes of a page's line."""
    from nn.parallel.leak_reports import merged

    told = _leaks(LINES)
    times = {}
    for count in (1, 10, 100, 1000):
        reports = dict.fromkeys(range(count), told)
        times[count] = _least(partial(merged, reports, {}), rounds)
    page = merged(dict.fromkeys(range(100), told), {}).to_html()
    return times, len(pickle.dumps(_told(told))), len(page) / (100 * 2 * LINES)


def _least(call: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


# --- The model ------------------------------------------------------------------------------------------


def _slope(points: dict[int, float]) -> float:
    """Return the growth of a value per unit of its count, from the smallest count to the largest."""
    first, last = min(points), max(points)
    return (points[last] - points[first]) / (last - first)


def ring(machines: int, nbytes: float) -> float:
    """Return the time of a sum over some machines on the assumed network."""
    if machines == 1:
        return 0.0
    hops = 2 * (machines - 1)
    return hops * LATENCY + hops / machines * nbytes / BANDWIDTH


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *[f"| {' | '.join(row)} |" for row in rows]])


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def measured(exchange: dict[int, Times], gloo: dict[int, Times], ray: dict[str, Any], bus: float) -> str:
    """Return the table of the times of 1 to 8 processes, with the model's sums through shared memory."""
    rows = []
    for count in COUNTS:
        model = 0.0 if count == 1 else exchange[2]["small"] + (2 * count + 2) * 4 * LARGE / bus
        rows.append([
            f"{count}",
            _ms(exchange[count]["small"]),
            _ms(exchange[count]["large"]),
            _ms(exchange[count]["large cpu"]),
            _ms(model) if count > 1 else "",
            _ms(gloo[count]["small"]) if count > 1 else "",
            _ms(gloo[count]["large"]) if count > 1 else "",
            _ms(gloo[count]["connect"]) if count > 1 else "",
            f"{exchange[count]['start']:.2f} s",
            f"{ray['jobs'][count]:.1f} s" if ray["jobs"] else "",
            f"{ray['posts'][count]:,.0f}",
        ])  # fmt: skip
    heads = (
        "processes", "sum of 8 bytes", "of 4 MB", "processor time of one", "by the model", "gloo, 8 bytes",
        "gloo, 4 MB", "gloo connects", "start here", "a job on Ray", "reports a second",
    )  # fmt: skip
    return _table(heads, rows)


def at_scale(costs: Costs) -> str:
    """Return the table of the model's figures for more workers."""
    from nn.parallel import group

    rows = []
    for count in WORKERS:
        machines = count // EACH
        table = count * costs.row_bytes
        between = group._POST_INTERVAL * max(1.0, count / group._WORKERS_AT_FULL_RATE)
        rows.append([
            f"{count:,}",
            f"{table / 1e3:.0f} kB",
            _ms(ring(machines, table) / group._TABLE_INTERVAL),
            f"{count / between:.0f}",
            f"{count / between * costs.report:.0%}",
            _ms(count * costs.read_row),
            f"{count * costs.leak_bytes / 1e6:.1f} MB",
            f"{count * LINES * 2 * costs.merge_line:.2g} s",
            f"{count * LINES * 2 * costs.page_bytes_line / 1e6:.1f} MB",
            f"{costs.job + count * costs.job_worker + machines * costs.connect_pair:.1f} s",
        ])  # fmt: skip
    heads = (
        "workers", "table of figures", "its sum, per step", "reports a second", "of the board's time",
        "`statistics()`", "reports of leaks", "`leaks()`", "page", "start of a job",
    )  # fmt: skip
    return _table(heads, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and update the documentation."""
    parser = argparse.ArgumentParser(description="Measure and compute the costs of many workers.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; writes nothing")
    parser.add_argument("--without-jobs", action="store_true", help="no jobs on Ray, which take minutes")
    for name in ("--kind", "--token", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--rank", "--count", "--rounds"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.kind == "exchange":
        print(json.dumps(_exchange(chosen.rank, chosen.count, chosen.token, chosen.rounds)))
        return
    if chosen.kind == "gloo":
        print(json.dumps(_gloo(chosen.rank, chosen.count, chosen.folder, chosen.rounds)))
        return
    rounds = 1 if chosen.quick else 3
    exchange = {count: _best("exchange", count, rounds) for count in COUNTS}
    gloo = {count: _best("gloo", count, rounds) for count in COUNTS if count > 1}
    ray = _on_ray(rounds, not chosen.without_jobs)
    text = told(exchange, gloo, ray, _merging(rounds))
    print(f"\n{text}")
    if not chosen.quick:
        page = DOCS / "cluster.md"
        costs_filled = filled(page.read_text(encoding="utf-8"), {"costs": text}, partly=True)
        page.write_text(costs_filled, encoding="utf-8")


def told(
    exchange: dict[int, Times],
    gloo: dict[int, Times],
    ray: dict[str, Any],
    reports: tuple[dict[int, float], int, float],
) -> str:
    """Return the tables: the measurements, their constants, and the figures of the model."""
    merging, leak_bytes, page_bytes = reports
    bus = 6 * 4 * LARGE / (exchange[2]["large"] - exchange[2]["small"])
    width = len(_told().row)
    jobs, connects = ray["jobs"], {count: it["connect"] for count, it in gloo.items()}
    costs = Costs(
        row_bytes=8 * width,
        row=exchange[1]["row"],
        report_bytes=len(pickle.dumps(_told())),
        report=1 / max(ray["posts"].values()),
        read_row=_slope(ray["reads"]),
        leak_bytes=leak_bytes,
        merge_line=merging[1000] / (1000 * 2 * LINES),
        page_bytes_line=page_bytes,
        cpu_start=exchange[1]["import"],
        job=jobs.get(1, 0.0),
        job_worker=CALLS / max(ray["posts"].values()),
        connect_pair=_slope(connects),
    )
    tables = [measured(exchange, gloo, ray, bus), _constants(costs, bus, ray, merging), at_scale(costs)]
    return "\n\n".join(tables)


def _best(kind: str, count: int, rounds: int) -> Times:
    """Return the least of each time of several runs."""
    found = [_processes(kind, count, 20) for _ in range(rounds)]
    best = {name: min(each[name] for each in found) for name in found[0]}
    _say(f"{kind} of {count} processes: {best}")
    return best


def _constants(costs: Costs, bus: float, ray: dict[str, Any], merging: dict[int, float]) -> str:
    return (
        f"A worker writes its row of figures ({costs.row_bytes} bytes) in {costs.row * 1e6:.0f} us at each "
        f"step. A report to the board has {costs.report_bytes:,} bytes, and costs the board "
        f"{costs.report * 1e6:.0f} us. Reading 1,000 workers' reports took "
        f"{ray['reads'][1000] * 1e3:.0f} ms. A worker's report of {LINES} leaking lines has "
        f"{costs.leak_bytes / 1e3:.1f} kB; merging 1,000 of them took {merging[1000]:.2f} s. The import "
        f"takes {costs.cpu_start:.2f} s of processor time in each worker. Passes over shared memory ran at "
        f"{bus / 1e9:.1f} GB/s."
    )


def _say(text: str) -> None:
    print(f"{time.perf_counter() - _BEGAN:.0f} s: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
