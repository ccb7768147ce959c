"""A budget for whole steps of PyTorch: the same bits in less memory, by computing saved values again."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import scopes.torch  # noqa: E402
from scopes import SpillError  # noqa: E402
from tests.interrupts import interrupt_at_random_moments  # noqa: E402

nn = torch.nn
WIDTH = 48


@pytest.fixture(autouse=True)
def no_file_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    gc.collect()
    assert list(tmp_path.iterdir()) == []


class Residual(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, -1).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)


class Written(nn.Module):
    """Writes in place: into a part of a new tensor, and over values that nothing saves."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        y[:, 1:] = x[:, :-1] * 2
        y.add_(x).mul_(0.5)
        return y.clamp_(-3, 3)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.inner = kind(WIDTH, WIDTH, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "norm": lambda: nn.LayerNorm(WIDTH),
    "relu": nn.ReLU,
    "relu in place": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True)),
    "gelu": nn.GELU,
    "dropout": lambda: nn.Dropout(0.2),
    "softmax": lambda: nn.Softmax(-1),
    "written": Written,
    "attention": Attention,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "conv": Convolved,
    "residual": lambda: Residual(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)),
    "prelu": nn.PReLU,
    "rrelu": nn.RReLU,
    "alpha dropout": lambda: nn.AlphaDropout(0.1),
}


def network(seed: int) -> nn.Module:
    """Return a network of random layers for sequences of vectors."""
    torch.manual_seed(seed)
    choose = random.Random(seed)
    layers = [LAYERS[name]() for name in choose.choices(list(LAYERS), k=choose.randrange(5, 14))]
    if choose.random() < 0.5:  # tied weights
        tied = [nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)]
        tied[1].weight = tied[0].weight
        layers += [tied[0], nn.Tanh(), tied[1]]
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, nn.Linear(WIDTH, WIDTH))


def step(model: nn.Module, seed: int = 0, batch: int = 24) -> list[torch.Tensor]:
    """Return a loss, the gradients and the buffers after a step."""
    model.zero_grad()
    torch.manual_seed(seed)
    loss = model(torch.randn(batch, 16, WIDTH)).square().mean()
    loss.backward()
    found = [loss.detach()] + [p.grad.clone() for p in model.parameters()]
    return found + [buffer.clone() for buffer in model.buffers()] + [torch.rand(3)]


def reset(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.reset_running_stats()


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def check_parts(
    run: Callable[[], list[torch.Tensor]], folder: Path, parts: tuple[float, ...] = (0.9, 0.7, 0.5, 0.35)
) -> int:
    """Check `run` in budgets of parts of its peak, and return how many were kept."""
    plain = run()
    held = scopes.torch.budget(2**40, recompute=True)
    with held:
        assert same(run(), plain)
    peak, kept = held.statistics().peak_bytes, 0
    for part in parts:
        for spill in (None, folder):
            held = scopes.torch.budget(int(part * peak), recompute=True, spill=spill)
            try:
                with held:
                    assert same(run(), plain)
            except torch.OutOfMemoryError:
                assert part < 0.9
                continue
            figures = held.statistics()
            assert figures.peak_bytes <= part * peak
            assert figures.recompute_count + figures.spill_count > 0
            assert figures.file_bytes == 0
            kept += 1
    return kept


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(5, 100))]
)
def test_a_random_network_has_the_same_bits(seed: int, tmp_path: Path) -> None:
    model = network(seed)

    def run() -> list[torch.Tensor]:
        reset(model)
        return step(model)

    assert check_parts(run, tmp_path) >= 2
