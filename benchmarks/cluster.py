"""The cost of the exchange of gradients: measured in jobs of Ray Train, computed for up to 1,000 workers.

    python -m benchmarks.cluster             # measure, print, write tables and plots into docs/cluster.md
    python -m benchmarks.cluster --quick     # once and fewer steps; prints, and writes nothing

Two workers with one thread each, started by `nn.parallel.Trainer`, take turns with two of Ray's
``TorchTrainer``, whose ``DistributedDataParallel`` exchanges by gloo. A step is that of one worker: forward,
backward with the exchange, and SGD; its time is the smallest median of all rounds. It is also compared with
one process with the whole batch, half of which is the ideal, and with two processes that exchange nothing.
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

from benchmarks import ROOT
from benchmarks.document import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DOCS = ROOT / "docs"


class Model(NamedTuple):
    """A multilayer perceptron and its training."""

    sizes: tuple[int, ...]
    #: The rows of the whole batch.
    batch: int
    #: How many steps are measured in a round.
    steps: int


MODELS = {
    "0.03 M": Model((64, 128, 128, 10), 128, 400),
    "0.4 M": Model((784, 392, 196, 10), 256, 100),
    "1.9 M": Model((784, 1024, 1024, 10), 512, 30),
    "4.7 M": Model((784, 1536, 1536, 768, 10), 512, 15),
}
WORKERS = 2
#: The numbers in a large bucket.
LARGE = 4_000_000
#: Assumed networks: the seconds of a message, and the bytes in a second.
NETWORKS = {"10 Gbit/s Ethernet": (50e-6, 1.1e9), "100 Gbit/s": (15e-6, 11e9)}

#: The times of one model's parts of a step, in seconds, by name; those of all models, by name.
Times = dict[str, float]
All = dict[str, Times]


class Link(NamedTuple):
    """The cost of a message: a constant part, and a part for each byte."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Costs:
    """The times of a step of one model on one worker, and the bytes of its gradients."""

    name: str
    nbytes: int
    forward: float
    backward: float


def exchange_seconds(nbytes: float, machines: int, each: int, network: Link, shared: Link) -> float:
    """Return the time of one bucket's average: by shared memory in a machine, by a ring between machines.

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
    """Return the time of a step that exchanges buckets, which fill at equal intervals during backward."""
    count = max(1, round(costs.nbytes / bucket))
    part = costs.nbytes / count
    free_at = 0.0
    for i in range(count):
        filled = costs.backward * (i + 1) / count
        free_at = max(free_at, filled) + exchange_seconds(part, machines, each, network, shared)
    return costs.forward + max(costs.backward, free_at)


# --- Measuring --------------------------------------------------------------------------------------------


def _ours(model: Model, rank: int, count: int, is_connected: bool, steps: int) -> Times:
    import nn
    import tensor
    from nn import parallel

    layers: list[Any] = []
    for many, few in pairwise(model.sizes):
        layers += [nn.Linear(many, few), nn.ReLU()]
    network: Any = nn.Sequential(*layers[:-1])
    if is_connected:
        network = parallel.prepare(network)
    optimizer = nn.optim.SGD(network.parameters(), lr=0.01)
    inputs, targets = _data(model, rank, count)
    x, y = tensor.tensor(inputs), tensor.tensor(targets)

    def forward() -> Any:
        optimizer.zero_grad()
        return nn.functional.cross_entropy(network(x), y)

    return _timed(forward, optimizer.step, steps)


def _torch(model: Model, rank: int, count: int, is_connected: bool, steps: int) -> Times:
    import torch

    torch.set_num_threads(1)
    layers: list[Any] = []
    for many, few in pairwise(model.sizes):
        layers += [torch.nn.Linear(many, few), torch.nn.ReLU()]
    network: Any = torch.nn.Sequential(*layers[:-1])
    if is_connected:
        from ray.train.torch import prepare_model

        network = prepare_model(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    inputs, targets = _data(model, rank, count)
    x, y = torch.tensor(inputs), torch.tensor(targets)

    def forward() -> Any:
        optimizer.zero_grad()
        return torch.nn.functional.cross_entropy(network(x), y)

    return _timed(forward, optimizer.step, steps)


LIBRARIES: dict[str, Callable[..., Times]] = {"ours": _ours, "torch": _torch}


def _data(model: Model, rank: int, count: int) -> tuple[Any, Any]:
    numbers = np.random.default_rng(rank)
    rows = model.batch // count
    return numbers.standard_normal((rows, model.sizes[0])).astype(np.float32), numbers.integers(0, 10, rows)


def _timed(forward: Callable[[], Any], update: Callable[[], Any], steps: int) -> Times:
    times: dict[str, list[float]] = {"forward": [], "backward": [], "step": []}
    for _ in range(steps + 5):
        begin = time.perf_counter()
        loss = forward()
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        update()
        times["forward"].append(middle - begin)
        times["backward"].append(end - middle)
        times["step"].append(time.perf_counter() - begin)
    return {name: statistics.median(values[5:]) for name, values in times.items()}


def _all_models(library: str, rank: int, count: int, is_connected: bool, share: float) -> All:
    return {
        name: LIBRARIES[library](model, rank, count, is_connected, max(5, round(model.steps * share)))
        for name, model in MODELS.items()
    }


def _slowest(found: Sequence[All]) -> All:
    return {
        name: {part: max(each[name][part] for each in found) for part in times}
        for name, times in found[0].items()
    }


def without_exchange(library: str, count: int, share: float) -> All:
    """Return the times of `count` processes that each train on their part of the batch, without exchange."""
    return _slowest(_processes(["--kind", library, "--share", str(share)], count))


def _processes(arguments: Sequence[str], count: int) -> list[Any]:
    """Return the JSON that each of `count` processes of this program prints at its end."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        own = ["--count", str(count), "--token", f"{uuid.uuid4().hex[:8]}.0", "--folder", folder]
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.cluster", *arguments, *own, "--rank", str(rank)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                cwd=ROOT,
            )
            for rank in range(count)
        ]
        outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"a process of {' '.join(arguments)} has failed")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def on_ray(library: str, share: float) -> All:
    """Return the times of a job's workers. The cluster is running."""
    from ray import train

    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {
            "train_loop_config": {"library": library, "share": share, "folder": folder},
            "scaling_config": train.ScalingConfig(num_workers=WORKERS),
            "run_config": train.RunConfig(storage_path=folder),
        }
        if library == "torch":
            from ray.train.torch import TorchConfig, TorchTrainer

            TorchTrainer(_work_on_ray, torch_config=TorchConfig(backend="gloo"), **options).fit()
        else:
            from nn import parallel

            parallel.Trainer(_work_on_ray, **options).fit()
        return _slowest(
            [json.loads(Path(folder, f"{rank}.json").read_text(encoding="utf-8")) for rank in range(WORKERS)]
        )


def _work_on_ray(config: dict[str, Any]) -> None:
    from ray import train

    rank = train.get_context().get_world_rank()
    found = _all_models(config["library"], rank, WORKERS, True, config["share"])
    Path(config["folder"], f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")


def _gloo(rank: int, count: int, folder: str) -> Times:
    """Measure gloo on this machine's loopback: the time of a small and of a large sum."""
    import torch

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count
    )
    found = {}
    for name, length in (("small", 2), ("large", LARGE)):
        x, times = torch.zeros(length), []
        for _ in range(10):
            begin = time.perf_counter()
            torch.distributed.all_reduce(x)
            times.append(time.perf_counter() - begin)
        found[name] = min(times)
    return found


def _shared(rank: int, count: int, token: str) -> Times:
    """Measure the exchange through shared memory alone: a small and a large bucket."""
    from nn.parallel import group as groups
    from nn.parallel.exchange import Exchange, Size

    group = groups.Group(groups.Place(rank, count, rank, count), token, ranks=tuple(range(count)))
    groups.join(group)
    found = {}
    for name, length in (("small", 2), ("large", LARGE)):
        exchange = Exchange(group, [Size(np.dtype(np.float32), length)])
        values, average, times = np.ones(length, np.float32), np.empty(length, np.float32), []
        for _ in range(40):
            begin = time.perf_counter()
            exchange.slot(0)[...] = values
            exchange.publish(0)
            average[...] = exchange.result(0)
            times.append(time.perf_counter() - begin)
        found[name] = min(times)
    return found


# --- Telling ----------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and update the documentation."""
    parser = argparse.ArgumentParser(description="Measure and compute the exchange of gradients.")
    parser.add_argument("--quick", action="store_true", help="one round of fewer steps; writes nothing")
    for name in ("--kind", "--token", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--rank", "--count"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.kind:
        print(json.dumps(_work(chosen)))
        return
    best = measure(1 if chosen.quick else 5, 0.2 if chosen.quick else 1.0)
    gloo, memory = (_slowest_of(_processes(["--kind", kind], WORKERS)) for kind in ("gloo", "shared"))
    nbytes = 4 * LARGE
    # A ring of two machines sends two messages, and the bytes once. Two workers pass over bytes six times.
    loopback = Link(gloo["small"] / 2, nbytes / max(gloo["large"] - gloo["small"], 1e-9))
    shared = Link(memory["small"], 6 * nbytes / max(memory["large"] - memory["small"], 1e-9))
    networks = {
        f"{name} (assumed)": Link(latency, min(bandwidth, 10 * loopback.bandwidth))
        for name, (latency, bandwidth) in NETWORKS.items()
    }
    costs = (
        f"A bucket of two workers takes {shared.latency * 1e6:.0f} us, and passes over its bytes at "
        f"{shared.bandwidth / 1e9:.1f} GB/s; {nbytes / 1e6:.0f} MB take {memory['large'] * 1e3:.1f} ms, "
        f"by gloo {gloo['large'] * 1e3:.1f} ms. Gloo on loopback takes {loopback.latency * 1e6:.0f} us a "
        f"message and moves {loopback.bandwidth / 1e9:.2f} GB/s."
    )
    texts = {
        "steps": f"{_table(best)}\n\n{costs}",
        "scaling": _scaling_table(best, shared, networks),
    }
    for text in texts.values():
        print(f"\n{text}")
    if not chosen.quick:
        page = DOCS / "cluster.md"
        page.write_text(filled(page.read_text(encoding="utf-8"), texts, partly=True), encoding="utf-8")
        _plot_steps(best)
        _plot_scaling(best, shared, networks)


def _work(chosen: argparse.Namespace) -> Any:
    """Run one of several processes, and return its measurements."""
    if chosen.kind == "gloo":
        return _gloo(chosen.rank, chosen.count, chosen.folder)
    if chosen.kind == "shared":
        return _shared(chosen.rank, chosen.count, chosen.token)
    return _all_models(chosen.kind, chosen.rank, chosen.count, False, chosen.share)


def measure(rounds: int, share: float) -> dict[str, All]:
    """Return the best times of all contenders, which take turns."""
    import ray

    # Ray's workers import this program by it. The other processes start in its folder.
    os.environ |= {"PYTHONPATH": str(ROOT), "RAY_worker_niceness": "0"}
    ray.init("local", num_cpus=WORKERS, include_dashboard=False, logging_level="error", log_to_driver=False)
    turns: dict[str, Callable[[], All]] = {
        "one": lambda: without_exchange("ours", 1, share),
        "torch, one": lambda: without_exchange("torch", 1, share),
        "apart": lambda: without_exchange("ours", WORKERS, share),
        "ours": lambda: on_ray("ours", share),
        "torch": lambda: on_ray("torch", share),
    }
    best: dict[str, All] = {}
    for i in range(rounds):
        for who, turn in turns.items():
            found = turn()
            known = best.setdefault(who, found)
            for model, times in found.items():
                if times["step"] < known[model]["step"]:
                    known[model] = times
        print(f"round {i + 1} of {rounds}", file=sys.stderr)
    ray.shutdown()
    return best


def _slowest_of(found: Sequence[Times]) -> Times:
    return {name: max(each[name] for each in found) for name in found[0]}


def _table(best: dict[str, All]) -> str:
    heads = (
        "parameters", "one process", "ideal: half", "2 workers", "of ideal", "2 that exchange nothing",
        "PyTorch on gloo", "of its ideal", "ours / PyTorch",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for model in MODELS:
        one, two, apart = (best[who][model]["step"] for who in ("one", "ours", "apart"))
        theirs, their_one = best["torch"][model]["step"], best["torch, one"][model]["step"]
        times = [one, one / 2, two, apart, theirs]
        one_cell, ideal, two_cell, apart_cell, their_cell = (f"{it * 1e3:.2f} ms" for it in times)
        cells = [
            model, one_cell, ideal, two_cell, f"{one / 2 / two:.0%}", apart_cell, their_cell,
            f"{their_one / 2 / theirs:.0%}", f"{two / theirs:.2f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _plot_steps(best: dict[str, All]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    places = np.arange(len(MODELS))
    series = {
        "ideal: half of one process": [best["one"][m]["step"] / 2 for m in MODELS],
        "2 that exchange nothing": [best["apart"][m]["step"] for m in MODELS],
        "2 workers on Ray": [best["ours"][m]["step"] for m in MODELS],
        "Ray Train with PyTorch on gloo": [best["torch"][m]["step"] for m in MODELS],
    }
    for i, (label, values) in enumerate(series.items()):
        axes.bar(places + (i - 1.5) * 0.2, [v * 1e3 for v in values], 0.19, label=label)
    axes.set_xticks(places, [f"{m} parameters" for m in MODELS])
    axes.set_yscale("log")
    axes.set_ylabel("step, ms")
    axes.legend(frameon=False)
    figure.savefig(DOCS / "cluster_steps.png", dpi=120, metadata={"Software": None})


def _share_of_ideal(best: dict[str, All], model: str, machines: int, network: Link, shared: Link) -> float:
    """Return the ratio of a step without exchange to one with eight workers on each of the machines."""
    times = best["one"][model]
    nbytes = 4 * sum((a + 1) * b for a, b in pairwise(MODELS[model].sizes))
    costs = Costs(model, nbytes, times["step"] - times["backward"], times["backward"])
    return times["step"] / step_seconds(costs, machines, 8, network, shared, 4 * 2**20)


def _scaling_table(best: dict[str, All], shared: Link, networks: dict[str, Link]) -> str:
    lines = ["| parameters | network | 8 workers | 80 | 400 | 1,000 |", "|---|---|---|---|---|---|"]
    for label, network in networks.items():
        for model in MODELS:
            shares = [_share_of_ideal(best, model, m, network, shared) for m in (1, 10, 50, 125)]
            lines.append(f"| {model} | {label} | {' | '.join(f'{it:.0%}' for it in shares)} |")
    return "\n".join(lines)


def _plot_scaling(best: dict[str, All], shared: Link, networks: dict[str, Link]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 2, sharey=True)
    machines = np.unique(np.geomspace(1, 125, 40).round().astype(int)).tolist()
    for panel, (label, network) in zip(panels, networks.items(), strict=True):
        for model in MODELS:
            shares = [_share_of_ideal(best, model, m, network, shared) for m in machines]
            panel.plot([m * 8 for m in machines], shares, label=f"{model} parameters")
        panel.set_xscale("log")
        panel.set_title(label)
        panel.set_xlabel("workers, 8 on each machine")
    panels[0].set_ylabel("of the ideal: a step without exchange")
    panels[0].set_ylim(0, 1.05)
    panels[1].legend(frameon=False)
    figure.savefig(DOCS / "cluster_scaling.png", dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    main()
