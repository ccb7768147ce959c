"""Programs whose memory `scopes.torch.memory` and an allocator below PyTorch count.

``python -m tests.scopes.foreign.torch_figures`` runs all, and prints the figures of both as JSON. The
variable LD_PRELOAD must have the library of ``interposed_allocator.c``.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import torch
from torch import nn

from scopes.torch import memory

Program = Callable[[], Any]
_kept: dict[str, Any] = {}


def create() -> Any:
    made = [torch.empty(0), torch.empty(1), torch.ones(1000), torch.arange(77), torch.rand(33, 5).half()]
    made += [
        torch.tensor([1.0, 2.0]),
        torch.zeros(10, dtype=torch.bool),
        torch.eye(12, dtype=torch.complex64),
    ]
    made += [torch.eye(9).to_sparse(), torch.quantize_per_tensor(torch.ones(20), 0.1, 0, torch.qint8)]
    return made


def view() -> Any:
    x = torch.ones(1000)
    return x[3:], x.view(10, 100).T, x.expand(5, 1000), x.detach(), x.reshape(10, 100), x[::2].contiguous()


def write_in_place() -> Any:
    x = torch.ones(1000)
    x.add_(1).mul_(x)
    x[:5] = 3
    x += torch.ones(1000)
    return x


def resize() -> Any:
    x = torch.ones(1000)
    x.untyped_storage().resize_(80_000)
    x.resize_(300, 300)
    x.untyped_storage().resize_(400)
    y = torch.empty(0)
    torch.add(torch.ones(500), 1, out=y)
    z = torch.ones(100)
    z.set_(torch.ones(2000))
    z.data = torch.ones(5)
    return x, y, z


def copy() -> Any:
    x = torch.ones(1000)
    lazy = torch._lazy_clone(x)
    lazy.add_(1)
    shared = torch.ones(3000).share_memory_()
    pickled = torch.load(saved(x), weights_only=True)
    return x.clone(), x.double(), x.to(torch.float32), lazy, shared, pickled, x.numpy().copy(), x.tolist()


def saved(x: Any) -> Any:
    file = BytesIO()
    torch.save(x, file)
    file.seek(0)
    return file


def delete() -> Any:
    xs = [torch.ones(1000) for _ in range(50)]
    del xs[10:40]
    x = xs.pop()[5:]
    del xs
    return x


def free_what_is_older() -> Any:
    _kept.pop("of create")


def train_mlp() -> Any:
    model = nn.Sequential(nn.Linear(50, 100), nn.Tanh(), nn.Linear(100, 10))
    return _trained(model, torch.optim.Adam(model.parameters()), torch.ones(64, 50))


def train_convolutions() -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1800, 10)
    )
    return _trained(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), torch.ones(4, 3, 32, 32))


def train_lstm() -> Any:
    class Last(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(20, 30, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0][:, -1]

    model = Last()
    return _trained(model, torch.optim.RMSprop(model.parameters()), torch.ones(8, 12, 20))


def train_attention() -> Any:
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return _trained(model, torch.optim.AdamW(model.parameters()), torch.ones(4, 16, 32))


def _trained(model: Any, optimizer: Any, x: Any) -> Any:
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", enabled=isinstance(model, nn.Sequential)):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    for _ in range(2):  # gradients add up
        model(x).square().mean().backward()
    weight = next(iter(model.parameters()))
    (gradient,) = torch.autograd.grad(model(x).pow(3).mean(), weight, create_graph=True)
    gradient.sum().backward()
    return model, optimizer


def use_workspaces() -> Any:
    x = torch.rand(300, 300)
    found = [torch.linalg.svd(x), torch.linalg.solve(x + 300 * torch.eye(300), x), torch.fft.fft2(x)]
    found += [x.sort(), x.topk(5), x.unique(), x.cumsum(0), torch.einsum("ij,kj->ik", x, x), x.median()]
    found += [torch.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bicubic"), x.nonzero()]
    return found


def fail() -> Any:
    x = torch.ones(1000)
    wrong: list[Program] = [lambda: x @ x[:5], lambda: torch.cat([x, x.view(10, 100)]), lambda: x.view(7, 7)]
    wrong += [_fail_inside, lambda: torch.empty(2**58)]  # the last one is more than the system has
    for each in wrong:
        with suppress(RuntimeError):
            each()
    return x


def _fail_inside() -> Any:
    class Wrong(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise RuntimeError("wrong")

    Wrong.apply(torch.ones(500, requires_grad=True)).exp().sum().backward()


def refuse() -> Any:
    kept = torch.ones(1000)
    model = nn.Sequential(nn.Linear(100, 100), nn.Tanh(), nn.Linear(100, 100), nn.Tanh())
    # Not Adam, which can't continue if it was refused between two tensors of its state.
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    x = torch.ones(50, 100)
    for more in range(0, 400_000, 5_000):  # each limit refuses at a later place
        try:
            with memory.limit(memory.statistics().bytes_live + more):
                _trained(model, optimizer, x)
        except memory.OutOfMemoryError:
            optimizer.zero_grad()
    return kept, model, optimizer


def use_threads() -> Any:
    found: list[Any] = []

    def run(n: int) -> None:
        for i in range(200):
            x = torch.ones(100 + n + i)
            y = (x * 2).sin()
            if i % 50 == n:
                found.append(y)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def load_with_workers() -> Any:
    data = torch.utils.data.TensorDataset(torch.ones(40, 100))
    return list(torch.utils.data.DataLoader(data, batch_size=8, num_workers=2))


PROGRAMS: tuple[Program, ...] = (
    create,
    view,
    write_in_place,
    resize,
    copy,
    delete,
    free_what_is_older,
    train_mlp,
    train_convolutions,
    train_lstm,
    train_attention,
    use_workspaces,
    fail,
    refuse,
    use_threads,
    load_with_workers,
)


def _counts(library: Any) -> list[int]:
    found = (ctypes.c_size_t * 8)()
    library.interposed_figures(found)
    return list(found)


def figures_of(program: Program, library: Any) -> Iterator[tuple[str, list[int]]]:
    """Yield what `scopes.torch.memory` and the library counted: the change, peak, sum and number."""
    gc.collect()
    before = memory.statistics()
    memory.reset_peak()
    library.interposed_reset_peak()
    first = _counts(library)
    with memory.measure() as used:
        result = program()
    after = memory.statistics()
    last = _counts(library)
    _kept[f"of {program.__name__}"] = result
    yield (
        "counted",
        [
            after.bytes_live - before.bytes_live,
            after.bytes_peak - before.bytes_live,
            after.bytes_allocated - before.bytes_allocated,
            after.allocation_count - before.allocation_count,
        ],
    )
    yield "measured", [used.live_bytes_change, used.peak_bytes_change, used.allocated_bytes]
    yield "interposed", [last[0] - first[0], last[1] - first[0], last[2] - first[2], last[3] - first[3]]
    yield "others", [last[4] - first[4], last[5] - first[4], last[6] - first[6], last[7] - first[7]]


def main() -> None:
    torch.manual_seed(0)
    library = ctypes.CDLL(None)
    json.dump({each.__name__: dict(figures_of(each, library)) for each in PROGRAMS}, sys.stdout)


if __name__ == "__main__":
    main()
