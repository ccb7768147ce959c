"""What workers train with PyTorch in the tests of `nn.parallel`, alone, by replicas, and under our scopes."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from typing import Any

import torch

import scopes.torch
from nn import parallel
from nn.parallel.torch_models import lost_worker
from tests.nn import parallel_training as training

LEAKING = "kept.append(scope.move_to_outer(loss.detach() * torch.ones(2000)))"


def train(config: dict[str, Any]) -> tuple[list[float], dict[str, Any]]:
    """Return this worker's losses, and the parameters; with scopes if asked to."""
    torch.manual_seed(parallel.rank())  # replicas become equal nevertheless
    linear, activations = torch.nn.Linear, (torch.nn.ReLU(), torch.nn.Tanh())
    layers = linear(20, 64), activations[0], linear(64, 32), activations[1], linear(32, 10)
    model = parallel.prepare(torch.nn.Sequential(*layers).double(), bucket_bytes=8000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses, kept = [], []
    with ExitStack() as blocks:
        if config.get("scopes"):
            blocks.enter_context(scopes.torch.owning())
        for step in range(config["steps"]):
            with scopes.new_dispose_scope("step") as scope:
                x, y = part_of_batch(step)
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x), y)
                if step == config.get("killed_at") and parallel.rank() == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if parallel.rank() == config.get("leaks_in"):
                    kept.append(scope.move_to_outer(loss.detach() * torch.ones(2000)))
    return losses, {name.removeprefix("module."): x.numpy().copy() for name, x in model.state_dict().items()}


def part_of_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = training.part_of_batch(step)
    return torch.tensor(x.numpy()), torch.tensor(y.numpy())


def report(config: dict[str, Any]) -> None:
    """Train, and report the losses of the whole batch: the means of the workers' losses."""
    losses, _ = train(config)
    total = torch.tensor(losses, dtype=torch.float64)
    torch.distributed.all_reduce(total)
    parallel.report({"losses": (total / parallel.world_size()).tolist()}, "done")


def train_until_one_is_killed() -> str:
    try:
        train({"steps": 20, "killed_at": 7})
    except RuntimeError as error:
        return str(lost_worker(error, parallel.group.current()))
    return ""


def accumulate() -> tuple[list[float], list[float]]:
    """Return the gradients after two backward passes in ``no_sync()``, and after a third one."""
    torch.manual_seed(0)
    model = parallel.prepare(torch.nn.Linear(2, 1, bias=False))
    with parallel.no_sync():
        for _ in range(2):
            model(torch.full((1, 2), 1.0 + parallel.rank())).sum().backward()
    own = model.module.weight.grad.flatten().tolist()
    model(torch.zeros(1, 2)).sum().backward()
    return own, model.module.weight.grad.flatten().tolist()
