"""Reported memory against the process's: a training, many small tensors, views, clones, exports, files.

A program, for tests: ``python -m tests.process_memory small_tensors 1000000``. It prints the bytes that the
process took, those reported, and both again when all is gone and trimmed, the process's relative to what it
had after the same work before. Last, what that first work left: Python and NumPy keep some memory.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nn
import tensor
from scopes import new_dispose_scope
from tensor import memory
from tests.process import own_bytes


def told() -> int:
    now = memory.statistics()
    return now.bytes_live + now.bytes_cached + now.bytes_pinned + now.bytes_overhead


class Works:
    """The kinds of work. Each fills a list that was there before; `count` says how much of it is done."""

    def __init__(self, count: int) -> None:
        self.held: list[Any] = [None] * count
        self.most = count
        self.small = tensor.ones((4,))
        self.large = tensor.rand(1000, 1000)

    def fill(self, count: int, make: Callable[[int], Any]) -> None:
        for i in range(min(count, self.most)):
            self.held[i] = make(i)

    def small_tensors(self, count: int) -> None:
        self.fill(count, lambda _: tensor.ones((4,)))

    def small_results(self, count: int) -> None:
        self.fill(count, lambda _: self.small + self.small)

    def medium_tensors(self, count: int) -> None:
        self.fill(count // 5, lambda _: tensor.ones((28,)))

    def mixed_sizes(self, count: int) -> None:
        sizes = random.Random(1)
        self.fill(count // 100, lambda _: tensor.ones((int(10 ** sizes.uniform(1, 4.5)),)))

    def views(self, count: int) -> None:
        self.fill(count // 5, lambda i: self.large[i % 1000])

    def clones(self, count: int) -> None:
        self.fill(count // 5, lambda _: self.large.clone())

    def written_clones(self, count: int) -> None:
        self.fill(count // 10_000, lambda _: self.large.clone().add_(1))

    def small_exports(self, count: int) -> None:
        self.fill(count // 5, lambda _: tensor.ones((4,)).numpy())

    def large_exports(self, count: int) -> None:
        self.fill(count // 10_000, lambda _: tensor.ones((500_000,)).numpy())

    def recorded(self, count: int) -> None:
        weight = tensor.ones((4,), requires_grad=True)
        self.fill(count // 10, lambda _: weight * 2)

    def training(self, count: int) -> None:
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
        optimizer = nn.optim.Adam(model.parameters())
        x, y = tensor.rand(2048, 784), tensor.zeros((2048,), dtype="int64")
        for i in range(count // 5_000):
            with new_dispose_scope():
                optimizer.zero_grad()
                batch = slice(i % 16 * 128, i % 16 * 128 + 128)
                nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
        self.held[:4] = model, optimizer, x, y

    def files(self, count: int) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "saved.safetensors"
            saved = {str(i): tensor.full((250_000,), i) for i in range(min(count // 20_000, self.most))}
            tensor.save_file(saved, path)
            saved.clear()
            for i, x in enumerate(tensor.load_file(path).values()):
                self.held[i] = x.add_(1) if i % 2 else x

    def let_go(self) -> None:
        for i in range(len(self.held)):
            self.held[i] = None
        gc.collect()
        memory.trim()


KINDS = [name for name in vars(Works) if name[0] != "_" and name not in ("fill", "let_go")]


def main(kind: str, count: int) -> None:
    works = Works(count)
    work = getattr(works, kind)
    works.most = 50
    work(count)  # what is loaded and made once is there
    works.let_go()
    works.most = count
    start, start_told = own_bytes(), told()
    work(count)
    process, ours = own_bytes() - start, told() - start_told
    works.let_go()
    left = own_bytes()
    work(count)
    works.let_go()
    sys.stdout.write(f"{process} {ours} {own_bytes() - left} {told() - start_told} {left - start}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
