"""What workers run in the tests of `nn.parallel`: small trainings, whose results are compared."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import nn
import scopes
import tensor
from nn import parallel
from nn.parallel import regions

BATCH = 24
ROUNDS = 8


@cache
def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(0)
    inputs = numbers.standard_normal((BATCH * ROUNDS, 20))
    return inputs, numbers.integers(0, 10, BATCH * ROUNDS)


def perceptron(dtype: np.dtype[Any] = tensor.float64) -> nn.Module:
    """Return a model of float64: rounding, which differs from processor to processor, stays tiny."""
    layers = nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)
    return nn.Sequential(*layers).to(dtype)


def train(
    steps: int, name: str, dtype: np.dtype[Any] = tensor.float64, bucket_bytes: int = 1000
) -> tuple[Any, dict[str, Any]]:
    """Return this worker's losses, and the parameters in the end; each worker has its part of each batch."""
    tensor.manual_seed(parallel.rank())  # replicas become equal nevertheless
    model = parallel.prepare(perceptron(dtype), bucket_bytes=bucket_bytes)
    options = {"lr": 0.003} if name == "Adam" else {"lr": 0.05, "momentum": 0.9}
    optimizer = getattr(nn.optim, name)(model.parameters(), **options)
    losses = []
    for step in range(steps):
        x, y = part_of_batch(step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(dtype)), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses), values_of(model)


def part_of_batch(step: int) -> tuple[tensor.Tensor, tensor.Tensor]:
    inputs, targets = data()
    each = BATCH // parallel.world_size()
    begin = step % ROUNDS * BATCH + parallel.rank() * each
    return tensor.tensor(inputs[begin : begin + each]), tensor.tensor(targets[begin : begin + each])


def values_of(model: nn.Module) -> dict[str, Any]:
    return {name: x.numpy().copy() for name, x in model.state_dict().items()}


def train_with_batch_norm(steps: int) -> tuple[Any, dict[str, Any]]:
    tensor.manual_seed(0)
    layers = nn.Linear(20, 16), nn.BatchNorm1d(16), nn.Linear(16, 10)
    model = parallel.prepare(nn.Sequential(*layers).double())
    optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    means = []
    for step in range(steps):
        x, y = part_of_batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        with tensor.no_grad():
            means.append(model[0](x).mean(dim=0).numpy().copy())
    return means, values_of(model)


def gather_then_average() -> tuple[list[float], list[float]]:
    """Return the gradient after a backward by itself, and after one more that averages both."""
    model = parallel.prepare(nn.Linear(1, 1, bias=False))
    x = tensor.tensor([[parallel.rank() + 1.0]])
    with parallel.no_sync():
        model(x).sum().backward()
    alone = model.weight.grad.tolist()[0]
    model(x * 10).sum().backward()
    return alone, model.weight.grad.tolist()[0]


class Branches(nn.Module):
    """Of two branches each forward takes one."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

    def forward(self, x: tensor.Tensor, side: str) -> tensor.Tensor:
        return (self.left if side == "left" else self.right)(x)


def leave_one_out(find: bool) -> list[Any]:
    model = parallel.prepare(Branches(), find_unused_parameters=find)
    x = tensor.tensor([[parallel.rank() + 1.0]])
    model(x, "left" if parallel.rank() == 0 else "right").sum().backward()
    found = [None if p.grad is None else p.grad.item() for p in model.parameters()]
    if not find:
        model(x, "left")
    return found


def different_models() -> None:
    parallel.prepare(nn.Linear(2, 2 + parallel.rank()))


def first_values() -> list[dict[str, Any]]:
    tensor.manual_seed(parallel.rank())
    model = perceptron()
    before = values_of(model)
    return [before, values_of(parallel.prepare(model))]


def die_in_mid_step(at: int) -> list[Any]:
    """Train until worker 1 kills itself while the others wait for it; return what they see of it."""
    model = parallel.prepare(perceptron())
    try:
        for step in range(at + 1):
            x, y = part_of_batch(step)
            loss = nn.functional.cross_entropy(model(x), y)
            if step == at and parallel.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            loss.backward()
    except parallel.WorkerLostError as error:
        seen = parallel.statistics().workers[1]
        return [str(error), seen.step, seen.is_last_seen, seen.disposables.live_count]
    return []


def look_again_and_again(count: int) -> int:
    """Kill worker 1 while the others wait; return how often these saw that it is gone, of so many looks."""
    try:
        parallel.barrier()
        if parallel.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        parallel.barrier()
    except parallel.WorkerLostError:
        pass
    return sum(parallel.statistics().workers[1].is_last_seen for _ in range(count))


def die_before_prepare(killed: int) -> None:
    """Kill one worker while the others prepare a model; they wait for each other to map its memory."""
    if parallel.rank() == killed:
        os.kill(os.getpid(), signal.SIGKILL)
    parallel.prepare(perceptron())


def prepare_when_another_has_left(killed: int) -> None:
    """Kill one worker while the others prepare a model; worker 2 starts after worker 0 has given up."""
    region = parallel.group.current()._region
    assert region is not None
    if parallel.rank() == killed:
        os.kill(os.getpid(), signal.SIGKILL)
    while parallel.rank() == 2 and not region.has_ended(0):
        time.sleep(0.01)
    parallel.prepare(perceptron())


def map_again_and_again(count: int) -> int:
    """Make so many regions; return how many of them are mapped or open after their last reference went."""
    for _ in range(count):
        parallel.exchange.agree(parallel.group.current(), 1)
    models = [parallel.prepare(perceptron()) for _ in range(3)]
    parallel.barrier()
    before = mapped()
    del models
    return before - mapped()


def mapped() -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(regions.PREFIX)


def alone() -> list[Any]:
    """Return what a program that is no part of a job hears of itself."""
    model = nn.Linear(2, 1)
    assert parallel.prepare(model) is model
    parallel.barrier()
    before = parallel.statistics()
    with scopes.track():
        kept = tensor.ones((1000,))
        leaks = parallel.leaks()
    after = parallel.statistics()
    found = [
        parallel.rank(),
        parallel.world_size(),
        list(after.workers),
        after.live_count - before.live_count,
    ]
    del kept
    return [*found, parallel.memory().total.bytes_peak >= 4000, leaks.workers, leaks.rows[0].nbytes]


def come_too_late(over: Path) -> str:
    """Let worker 1 wait at a barrier until it has an error, and worker 0 sleep for so long."""
    if parallel.rank() == 1:
        try:
            parallel.barrier()
        except parallel.ExchangeTimeoutError as error:
            return str(error)
        finally:
            over.touch()
        return "came"
    while not over.exists():
        time.sleep(0.01)
    return "slept"


def barriers(count: int) -> int:
    for _ in range(count):
        parallel.barrier()
    return count


def orders(epochs: int) -> list[list[int]]:
    loader = parallel.prepare_data_loader(
        nn.data.DataLoader(list(range(10)), batch_size=2, shuffle=True, generator=parallel.rank())
    )
    return [[int(i) for batch in loader for i in batch.tolist()] for _ in range(epochs)]


def figures() -> dict[int, tuple[int, int]]:
    """Return what each worker is seen to have alive, and its step."""
    model = parallel.prepare(nn.Linear(2, 1))
    kept = [tensor.ones((2,)) for _ in range(parallel.rank() * 10)]
    model(tensor.ones((3, 2))).sum().backward()
    parallel.barrier()
    workers = parallel.statistics().workers
    parallel.barrier()
    del kept
    return {rank: (it.disposables.live_count, it.step) for rank, it in workers.items()}


LEAKING = "kept.append(scope.move_to_outer(tensor.ones((2000,)) * step))"


def keep_in_the_loop(config: dict[str, Any]) -> None:
    """Train; in one worker a list keeps a tensor of each step, and goes with this function."""
    kept = []
    model = parallel.prepare(perceptron())
    for step in range(config["steps"]):
        with scopes.new_dispose_scope("step") as scope:
            x, y = part_of_batch(step)
            nn.functional.cross_entropy(model(x), y).backward()
            if parallel.rank() == config["worker"]:
                kept.append(scope.move_to_outer(tensor.ones((2000,)) * step))


def train_unevenly(samples: int, options: dict[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """Train for three epochs, whose last batch can't be shared evenly; return its sizes and the values."""
    tensor.manual_seed(0)
    model = parallel.prepare(perceptron(), bucket_bytes=1000)
    optimizer = nn.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs, targets = data()
    dataset = nn.data.TensorDataset(tensor.tensor(inputs[:samples]), tensor.tensor(targets[:samples]))
    loader = nn.data.DataLoader(dataset, BATCH // parallel.world_size(), shuffle=True, generator=7, **options)
    loader = parallel.prepare_data_loader(loader, even_batches=False)
    sizes = []
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        sizes.append(len(x))
    return sizes, values_of(model)


def gather_unevenly() -> None:
    """Gather the gradients of two batches, of which the second can't be shared evenly."""
    model = parallel.prepare(nn.Linear(1, 1))
    loader = nn.data.DataLoader(tensor.ones((5, 1)), 2)
    loader = parallel.prepare_data_loader(loader, even_batches=False)
    for x in loader:
        with parallel.no_sync():
            model(x).sum().backward()
