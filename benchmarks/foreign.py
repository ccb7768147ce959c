"""What scopes cost PyTorch: ``python -m benchmarks.foreign`` prints a table, per call and per training step.

Each figure is the least of many, of the processor's time, so that other programs matter less; plain and under
scopes take turns in one process on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

import scopes.torch
from scopes import new_dispose_scope

Step = Callable[[], object]


def _seconds_of(step: Step, repeats: int) -> float:
    began = time.process_time()
    for _ in range(repeats):
        step()
    return (time.process_time() - began) / repeats


def _in_turns(step: Step, repeats: int, rounds: int) -> list[float]:
    """Return the seconds that `step` takes plain, under ``owning()``, and under ``owning(exact=True)``."""
    best = [float("inf")] * 3
    for _ in range(rounds):
        for i, exact in enumerate((None, False, True)):
            block: Any = nullcontext() if exact is None else scopes.torch.owning(exact=exact)
            with block, new_dispose_scope():
                best[i] = min(best[i], _seconds_of(step, repeats))
    return best


def _training(model: Any, x: Any, *, with_optimizer: bool = True) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        with new_dispose_scope():
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            if with_optimizer:
                optimizer.step()

    return step


def _steps() -> dict[str, Step]:
    nn = torch.nn
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    wide = nn.Sequential(
        nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
    )
    convolution = nn.Sequential(
        nn.Conv2d(3, 32, 3),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(25088, 10),
    )
    transformer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return {
        "step of an MLP 64-128-10, batch 32": _training(mlp, torch.randn(32, 64)),
        "step of an MLP 784-2048-2048-10, batch 64": _training(wide, torch.randn(64, 784)),
        "step of a convolutional network, batch 16": _training(convolution, torch.randn(16, 3, 32, 32)),
        "step of a transformer layer, 16 x 64 x 128": _training(transformer, torch.randn(16, 64, 128)),
    }


def main() -> None:
    """Print the tables."""
    torch.set_num_threads(1)
    a = torch.zeros(1)
    calls: dict[str, Step] = {
        "a + a": lambda: a + a,
        "a.add_(a)": lambda: a.add_(a),
        "a.shape": lambda: a.shape,
        "torch.zeros(1)": lambda: torch.zeros(1),
    }
    print(f"{'':45}{'plain, us':>12}{'owning':>10}{'exact':>10}")
    for name, call in calls.items():
        plain, owning, exact = (seconds * 1e6 for seconds in _in_turns(call, 300, 150))
        print(f"{name:45}{plain:12.2f}{owning - plain:+10.2f}{exact - plain:+10.2f}")
    print(f"{'':45}{'plain, ms':>12}{'owning':>10}{'exact':>10}")
    for name, step in _steps().items():
        plain, owning, exact = (seconds * 1e3 for seconds in _in_turns(step, 1, 40))
        print(f"{name:45}{plain:12.2f}{owning / plain - 1:+10.1%}{exact / plain - 1:+10.1%}")


if __name__ == "__main__":
    main()
