"""What the exchange of gradients costs: measured by several processes, computed for up to 1,000 workers.

    python -m benchmarks.cluster             # measure, print tables, write docs/cluster_*.png
    python -m benchmarks.cluster --quick

Workers are plain processes with one thread each, as Ray Train starts them; Ray itself has no part in a step.
They take turns with PyTorch's ``DistributedDataParallel`` on gloo. A step is that of one worker: forward,
backward with the exchange, and SGD; its time is the smallest median of several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCS = Path(__file__).parents[1] / "docs"
#: Sizes of layers, and the rows of the whole batch.
MODELS = {
    "0.03 M": ([64, 128, 128, 10], 128),
    "0.4 M": ([784, 392, 196, 10], 256),
    "1.9 M": ([784, 1024, 1024, 10], 512),
    "4.7 M": ([784, 1536, 1536, 768, 10], 512),
}
COUNTS = (1, 2)
#: The numbers in a large bucket.
LARGE = 4_000_000
#: Of networks that people have: seconds a message, bytes a second.
NETWORKS = {"10 Gbit/s Ethernet": (50e-6, 1.1e9), "100 Gbit/s": (15e-6, 11e9)}


class Link(NamedTuple):
    """What a message costs: a part for each, and a part for each byte."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Costs:
    """What a step of one model takes on one worker, and its gradients."""

    name: str
    nbytes: int
    forward: float
    backward: float


def exchange_seconds(nbytes: float, machines: int, each: int, network: Link, shared: Link) -> float:
    """Return how long one bucket's average takes: shared memory in a machine, a ring between machines.

    In a machine each worker writes its bucket, sums one part of all, and reads the sum: about (2 + 2 / each)
    passes over the bucket for each, on one memory bus. A ring of m machines sends 2 (m - 1) messages one
    after the other, and each machine's link carries 2 (m - 1) / m of the bucket.
    """
    inside = 0.0
    if each > 1:
        inside = shared.latency + (2 * each + 2) * nbytes / shared.bandwidth
    between = 0.0
    if machines > 1:
        hops = 2 * (machines - 1)
        between = hops * network.latency + hops / machines * nbytes / network.bandwidth
    return inside + between


def step_seconds(costs: Costs, machines: int, each: int, network: Link, shared: Link, bucket: float) -> float:
    """Return how long a step takes whose exchange begins as buckets fill, evenly, while backward goes on."""
    count = max(1, round(costs.nbytes / bucket))
    part = costs.nbytes / count
    free_at = 0.0
    for i in range(count):
        filled = costs.backward * (i + 1) / count
        free_at = max(free_at, filled) + exchange_seconds(part, machines, each, network, shared)
    return costs.forward + max(costs.backward, free_at)


# --- Measuring --------------------------------------------------------------------------------------------


def measure(kind: str, model: str, count: int, steps: int) -> dict[str, float]:
    """Return the median times of a step in `count` processes of `kind`, of the slowest of them."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        token = f"{uuid.uuid4().hex[:8]}.0"
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "benchmarks.cluster", "--worker", kind, "--model", model),
                    *("--rank", str(rank), "--count", str(count), "--steps", str(steps)),
                    *("--token", token, "--folder", folder),
                ],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in range(count)
        ]
        found = []
        for process in processes:
            output, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"a worker of {kind} has failed")
            found.append(json.loads(output.splitlines()[-1]))
    return {name: max(each[name] for each in found) for name in found[0]}


def train(kind: str, model: str, rank: int, count: int, steps: int, token: str, folder: str) -> None:
    """Be one worker, and print its times."""
    sizes, batch = MODELS[model]
    run = {"ours": _ours, "torch": _torch, "gloo": _gloo, "shared": _shared}[kind]
    numbers = np.random.default_rng(rank)
    each = batch // count
    data = numbers.standard_normal((each, sizes[0])).astype(np.float32), numbers.integers(0, 10, each)
    print(json.dumps(run(sizes, data, rank, count, steps, token, folder)))


def _timed(forward: Any, backward: Any, update: Any, steps: int) -> dict[str, float]:
    times: dict[str, list[float]] = {"forward": [], "backward": [], "step": []}
    for _ in range(steps + 5):
        begin = time.perf_counter()
        loss = forward()
        middle = time.perf_counter()
        backward(loss)
        end = time.perf_counter()
        update()
        times["forward"].append(middle - begin)
        times["backward"].append(end - middle)
        times["step"].append(time.perf_counter() - begin)
    return {name: statistics.median(values[5:]) for name, values in times.items()}


def _ours(
    sizes: list[int], data: Any, rank: int, count: int, steps: int, token: str, folder: str
) -> dict[str, float]:
    import nn
    import tensor
    from nn import parallel
    from nn.parallel import group as groups

    del folder
    place = groups.Place(rank, count, rank, count)
    groups.join(groups.Group(place, token, ranks=tuple(range(count))))
    layers: list[Any] = []
    for i in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    model = parallel.prepare(nn.Sequential(*layers[:-1]))
    optimizer = nn.optim.SGD(model.parameters(), lr=0.01)
    x, y = tensor.tensor(data[0]), tensor.tensor(data[1])

    def forward() -> Any:
        optimizer.zero_grad()
        return nn.functional.cross_entropy(model(x), y)

    return _timed(forward, lambda loss: loss.backward(), optimizer.step, steps)


def _torch(
    sizes: list[int], data: Any, rank: int, count: int, steps: int, token: str, folder: str
) -> dict[str, float]:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    del token
    torch.set_num_threads(1)
    layers: list[Any] = []
    for i in range(len(sizes) - 1):
        layers += [torch.nn.Linear(sizes[i], sizes[i + 1]), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    if count > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count
        )
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.tensor(data[0]), torch.tensor(data[1])

    def forward() -> Any:
        optimizer.zero_grad()
        return torch.nn.functional.cross_entropy(model(x), y)

    return _timed(forward, lambda loss: loss.backward(), optimizer.step, steps)


def _gloo(
    sizes: list[int], data: Any, rank: int, count: int, steps: int, token: str, folder: str
) -> dict[str, float]:
    """Measure gloo on this machine's loopback: the time of a small and of a large sum."""
    import torch

    del sizes, data, token
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count
    )
    found = {}
    for name, length in (("small", 2), ("large", LARGE)):
        x, times = torch.zeros(length), []
        for _ in range(max(steps // 4, 5)):
            begin = time.perf_counter()
            torch.distributed.all_reduce(x)
            times.append(time.perf_counter() - begin)
        found[name] = statistics.median(times)
    return found


def _shared(
    sizes: list[int], data: Any, rank: int, count: int, steps: int, token: str, folder: str
) -> dict[str, float]:
    """Measure the exchange through shared memory alone: a small and a large bucket."""
    from nn.parallel import group as groups
    from nn.parallel.exchange import Exchange, Size

    del sizes, data, folder
    group = groups.Group(groups.Place(rank, count, rank, count), token, ranks=tuple(range(count)))
    groups.join(group)
    found = {}
    for name, length in (("small", 2), ("large", LARGE)):
        exchange = Exchange(group, [Size(np.dtype(np.float32), length)])
        values, average, times = np.ones(length, np.float32), np.empty(length, np.float32), []
        for _ in range(steps):
            begin = time.perf_counter()
            exchange.slot(0)[...] = values
            exchange.publish(0)
            average[...] = exchange.result(0)
            times.append(time.perf_counter() - begin)
        found[name] = statistics.median(times)
    return found


# --- Telling ----------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description="Measure and compute the exchange of gradients.")
    parser.add_argument("--quick", action="store_true")
    for name in ("--worker", "--model", "--token", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--rank", "--count", "--steps"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.worker:
        train(
            chosen.worker, chosen.model, chosen.rank, chosen.count, chosen.steps, chosen.token, chosen.folder
        )
        return
    runs, steps = (1, 10) if chosen.quick else (3, 40)
    best: dict[tuple[str, str, int], dict[str, float]] = {}
    for _ in range(runs):
        for model in MODELS:
            for count in COUNTS:
                for kind in ("ours", "torch"):
                    found = measure(kind, model, count, steps)
                    known = best.get((kind, model, count))
                    if known is None or found["step"] < known["step"]:
                        best[kind, model, count] = found
    some = next(iter(MODELS))
    gloo, memory = measure("gloo", some, 2, 40), measure("shared", some, 2, 40)
    nbytes = 4 * LARGE
    # Two machines' ring sends two messages, and the bytes once; two workers make six passes over them.
    loopback = Link(gloo["small"] / 2, nbytes / max(gloo["large"] - gloo["small"], 1e-9))
    shared = Link(memory["small"], 6 * nbytes / max(memory["large"] - memory["small"], 1e-9))
    print(_table(best))
    print(
        f"\nshared memory: {shared.latency * 1e6:.0f} us a bucket, {shared.bandwidth / 1e9:.1f} GB/s; "
        f"{memory['large'] * 1e3:.1f} ms for {nbytes / 1e6:.0f} MB, gloo {gloo['large'] * 1e3:.1f} ms"
    )
    print(f"gloo on loopback: {loopback.latency * 1e6:.0f} us a message, {loopback.bandwidth / 1e9:.2f} GB/s")
    _plot_steps(best)
    _plot_scaling(best, shared, loopback)


def _table(best: dict[tuple[str, str, int], dict[str, float]]) -> str:
    lines = [
        "| parameters | one process | ideal, 2 workers | 2 workers | of ideal | PyTorch, gloo | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in MODELS:
        alone, two = best["ours", model, 1]["step"], best["ours", model, 2]["step"]
        other = best["torch", model, 2]["step"]
        cells = [
            model,
            f"{alone * 1e3:.2f} ms",
            f"{alone / 2 * 1e3:.2f} ms",
            f"{two * 1e3:.2f} ms",
            f"{alone / 2 / two:.0%}",
            f"{other * 1e3:.2f} ms",
            f"{two / other:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _plot_steps(best: dict[tuple[str, str, int], dict[str, float]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    places = np.arange(len(MODELS))
    series = {
        "ideal: half of one process": [best["ours", m, 1]["step"] / 2 for m in MODELS],
        "2 workers": [best["ours", m, 2]["step"] for m in MODELS],
        "PyTorch, 2 workers on gloo": [best["torch", m, 2]["step"] for m in MODELS],
    }
    for i, (label, values) in enumerate(series.items()):
        axes.bar(places + (i - 1) * 0.27, [v * 1e3 for v in values], 0.25, label=label)
    axes.set_xticks(places, [f"{m} parameters" for m in MODELS])
    axes.set_yscale("log")
    axes.set_ylabel("step, ms")
    axes.legend(frameon=False)
    figure.savefig(DOCS / "cluster_steps.png", dpi=120)


def _plot_scaling(best: dict[tuple[str, str, int], dict[str, float]], shared: Link, loopback: Link) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
    machines = np.unique(np.geomspace(1, 125, 40).round().astype(int))
    networks = {
        f"{name} (assumed)": Link(latency, min(bandwidth, 10 * loopback.bandwidth))
        for name, (latency, bandwidth) in NETWORKS.items()
    }
    print("\n| parameters | network | 8 workers | 80 | 400 | 1,000 |\n|---|---|---|---|---|---|")
    for panel, (label, network) in zip(panels, networks.items(), strict=True):
        for model in MODELS:
            times = best["ours", model, 1]
            sizes = MODELS[model][0]
            nbytes = 4 * sum((a + 1) * b for a, b in pairwise(sizes))
            costs = Costs(model, nbytes, times["step"] - times["backward"], times["backward"])

            def share(count: int, costs: Costs = costs, network: Link = network) -> float:
                alone = costs.forward + costs.backward
                return alone / step_seconds(costs, count, 8, network, shared, 4 * 2**20)

            panel.plot(machines * 8, [share(int(m)) for m in machines], label=f"{model} parameters")
            told = " | ".join(f"{share(m):.0%}" for m in (1, 10, 50, 125))
            print(f"| {model} | {label} | {told} |")
        panel.set_xscale("log")
        panel.set_title(label)
        panel.set_xlabel("workers, 8 on each machine")
    panels[0].set_ylabel("of the ideal: a step without exchange")
    panels[0].set_ylim(0, 1.05)
    panels[1].legend(frameon=False)
    figure.savefig(DOCS / "cluster_scaling.png", dpi=120)


if __name__ == "__main__":
    main()
