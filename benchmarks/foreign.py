"""The cost of scopes for PyTorch, for each call and each training step.

``python -m benchmarks.foreign`` prints tables.

Each figure is the least of many processor times, which other programs disturb less. Plain runs and runs in
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


class _Empty(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Only calls the function, to measure the cost of any mode of PyTorch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


_BLOCKS: tuple[Callable[[], Any], ...] = (
    nullcontext,
    _Empty,
    scopes.torch.owning,
    lambda: scopes.torch.owning(exact=True),
)


def _seconds_of(step: Step, repeats: int) -> float:
    began = time.process_time()
    for _ in range(repeats):
        step()
    return (time.process_time() - began) / repeats


def _repeat_for(seconds: float, step: Step) -> None:
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        step()


def _in_turns(step: Step, repeats: int, rounds: int) -> list[float]:
    """Return the seconds of `step` in each of the blocks."""
    best = [float("inf")] * len(_BLOCKS)
    for _ in range(rounds):
        for i, block in enumerate(_BLOCKS):
            with block(), new_dispose_scope():
                # Entering a block replaces functions, so Python specializes the code of each step again.
                _repeat_for(0.02, step)
                best[i] = min(best[i], _seconds_of(step, repeats))
    return best


def _training(model: Any, x: Any, optimizer: Any = None) -> Step:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        with new_dispose_scope():
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()

    return step


def _training_with_names(model: Any, x: Any, optimizer: Any) -> Step:
    """Return a step whose output and loss have names, so that they are alive when the scope ends."""

    def step() -> None:
        with new_dispose_scope():
            optimizer.zero_grad()
            out = model(x)
            loss = (out**2).mean()
            loss.backward()
            optimizer.step()

    return step


class _Block(torch.nn.Module):  # type: ignore[misc]
    """A block of a small transformer, with a cache of keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        nn = torch.nn
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any, cache: list[Any]) -> Any:
        count, length, width = x.shape
        parts = self.attend(self.before(x)).chunk(3, -1)
        query, key, value = (part.view(count, length, self.heads, -1).transpose(1, 2) for part in parts)
        if cache:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        cache[:] = [key, value]
        attend = torch.nn.functional.scaled_dot_product_attention
        attended = attend(query, key, value, is_causal=length > 1)
        x = x + self.out(attended.transpose(1, 2).reshape(count, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))


class _Transformer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.tokens, self.places = nn.Embedding(256, 128), nn.Embedding(128, 128)
        self.blocks = nn.ModuleList(_Block(128, 4) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 256)

    def forward(self, tokens: Any, caches: list[list[Any]] | None = None, begin: int = 0) -> Any:
        x = self.tokens(tokens) + self.places(torch.arange(begin, begin + tokens.shape[1]))
        for i, block in enumerate(self.blocks):
            x = block(x, [] if caches is None else caches[i])
        return self.head(self.norm(x))


def _language_steps() -> dict[str, Step]:
    model = _Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 256, (3, 64))

    def train() -> None:
        with new_dispose_scope():
            optimizer.zero_grad()
            logits = model(tokens[:, :-1]).flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
            optimizer.step()

    def train_with_names() -> None:
        with new_dispose_scope():
            optimizer.zero_grad()
            logits = model(tokens[:, :-1]).flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()

    def generate_with_scopes() -> None:
        with torch.no_grad(), new_dispose_scope():
            caches: list[list[Any]] = [[] for _ in model.blocks]
            last, begin = tokens[:1, :8], 0
            for _ in range(20):
                with new_dispose_scope() as scope:
                    logits = model(last, caches, begin)
                    begin += last.shape[1]
                    last = logits[:, -1].argmax(-1, keepdim=True)
                    scope.move_to_outer(last, caches)

    def generate() -> None:
        with torch.no_grad(), new_dispose_scope():
            caches: list[list[Any]] = [[] for _ in model.blocks]
            last, begin = tokens[:1, :8], 0
            for _ in range(20):
                logits = model(last, caches, begin)
                begin += last.shape[1]
                last = logits[:, -1].argmax(-1, keepdim=True)

    return {
        "step of a transformer of 4 layers, AdamW": train,
        "the same, logits and loss named": train_with_names,
        "its generation of 20 tokens, a cache": generate,
        "the same, a scope for each token": generate_with_scopes,
    }


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
    x, adam = torch.randn(32, 64), torch.optim.Adam(mlp.parameters(), lr=0.01)
    return {
        "step of an MLP 64-128-10, batch 32": _training(mlp, x),
        "the same with Adam": _training(mlp, x, adam),
        "the same with Adam, out and loss named": _training_with_names(mlp, x, adam),
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
    print(f"{'':45}{'plain, us':>12}{'empty mode':>12}{'owning':>10}{'exact':>10}")
    for name, call in calls.items():
        plain, empty, owning, exact = (seconds * 1e6 for seconds in _in_turns(call, 300, 150))
        print(f"{name:45}{plain:12.2f}{empty - plain:+12.2f}{owning - plain:+10.2f}{exact - plain:+10.2f}")
    print(f"{'':45}{'plain, ms':>12}{'empty mode':>12}{'owning':>10}{'exact':>10}")
    for name, step in (_steps() | _language_steps()).items():
        plain, empty, owning, exact = (seconds * 1e3 for seconds in _in_turns(step, 1, 40))
        changes = empty / plain - 1, owning / plain - 1, exact / plain - 1
        print(f"{name:45}{plain:12.2f}{changes[0]:+12.1%}{changes[1]:+10.1%}{changes[2]:+10.1%}")


if __name__ == "__main__":
    main()
