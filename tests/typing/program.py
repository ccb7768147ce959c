"""A user's program of some length, annotated throughout: checkers find nothing in it, and it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import nn
import nn.functional as F
import tensor
from nn.data import DataLoader, Dataset, TensorDataset, random_split
from scopes import DisposeScope, dispose, disposing, new_dispose_scope, statistics
from tensor import Tensor, memory


@dataclass(frozen=True)
class Settings:
    """What a run is made of."""

    features: int = 6
    hidden: Sequence[int] = (16, 8)
    classes: int = 3
    samples: int = 96
    batch_size: int = 16
    epochs: int = 2
    lr: float = 1e-2
    activation: Callable[[], nn.Module] = nn.ReLU


@dataclass
class History:
    """What a run has shown, one entry an epoch."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return max(self.accuracies, default=math.nan)


class Blobs(Dataset[tuple[Tensor, Tensor]]):
    """Points around a center for each class."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        centers = generator.normal(size=(settings.classes, settings.features)) * 3
        labels = generator.integers(settings.classes, size=settings.samples)
        points = centers[labels] + generator.normal(size=(settings.samples, settings.features))
        self.points = tensor.tensor(points, dtype=tensor.float32)
        self.labels = tensor.tensor(labels)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.points[index], self.labels[index]


class Residual(nn.Module):
    """A layer and what it was given."""

    def __init__(self, size: int, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.activation = activation()
        self.scale = nn.Parameter(tensor.ones((1,)))

    def forward(self, x: Tensor) -> Tensor:
        change: Tensor = self.activation(self.linear(x))
        return x + self.scale * change


class Classifier(nn.Module):
    """Layers, residual ones between, and logits."""

    mean: Tensor

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        size = settings.features
        for wide in settings.hidden:
            layers += [nn.Linear(size, wide), settings.activation(), Residual(wide, settings.activation)]
            size = wide
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(size, settings.classes)
        self.register_buffer("mean", tensor.zeros((settings.features,)))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x - self.mean))
        return logits


class Clipped(tensor.autograd.Function):
    """The identity, with a gradient of at most 1."""

    @staticmethod
    def forward(ctx: tensor.autograd.FunctionCtx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: tensor.autograd.FunctionCtx, gradient: Tensor) -> Tensor:
        return gradient.clamp(-1.0, 1.0)


@disposing
def accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    return (logits.argmax(dim=1) == labels).float().mean()


@tensor.no_grad()
def evaluate(model: nn.Module, batches: DataLoader[tuple[Tensor, Tensor]]) -> float:
    rates: list[float] = []
    model.eval()
    for points, labels in batches:
        with new_dispose_scope("evaluation"):
            rates.append(accuracy(model(points), labels).item())
    model.train()
    return float(np.mean(rates))


def groups_of(model: Classifier) -> Iterator[dict[str, object]]:
    decayed = [p for name, p in model.named_parameters() if name.endswith("weight")]
    others = [p for name, p in model.named_parameters() if not name.endswith("weight")]
    yield {"params": decayed, "weight_decay": 1e-4}
    yield {"params": others}


def train(model: Classifier, settings: Settings, data: Blobs) -> History:
    training, testing = random_split(data, [0.75, 0.25], generator=tensor.Generator().manual_seed(0))
    batches = DataLoader(training, batch_size=settings.batch_size, shuffle=True, generator=1)
    optimizer = nn.optim.AdamW(groups_of(model), lr=settings.lr)
    scheduler = nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.epochs)
    history = History()
    for _ in range(settings.epochs):
        total = 0.0
        for points, labels in batches:
            with new_dispose_scope("step") as scope:
                total += step(model, optimizer, points, labels, scope)
        scheduler.step()
        history.losses.append(total / len(batches))
        history.accuracies.append(evaluate(model, DataLoader(testing, batch_size=8)))
    return history


def step(
    model: Classifier, optimizer: nn.optim.Optimizer, points: Tensor, labels: Tensor, scope: DisposeScope
) -> float:
    optimizer.zero_grad()
    logits: Tensor = Clipped.apply(model(points))
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
    optimizer.step()
    largest, where = logits.max(dim=1)
    assert largest.shape == where.shape == labels.shape
    assert loss in scope
    return float(loss.item())


def confusion(model: Classifier, data: TensorDataset, classes: int) -> list[list[int]]:
    points, labels = data.tensors
    with new_dispose_scope(), tensor.no_grad():
        found = model.valid()(points).argmax(dim=1)
        table = tensor.zeros((classes, classes), dtype=tensor.int64)
        for row, column in zip(labels.tolist(), found.tolist(), strict=True):
            table[row, column] += 1
        counts: list[list[int]] = table.tolist()
    return counts


def round_trip(model: Classifier, settings: Settings) -> Classifier:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        tensor.save_file(model.state_dict(), path)
        other = Classifier(settings)
        missing, unexpected = other.load_state_dict(tensor.load_file(path))
    assert not missing
    assert not unexpected
    return other


def main() -> History:
    tensor.manual_seed(0)
    settings = Settings()
    before = statistics.snapshot()
    with new_dispose_scope("run"), memory.measure() as measured:
        data = Blobs(settings)
        with Classifier(settings) as model:
            history = train(model, settings, data)
            with round_trip(model, settings) as same:
                pairs = TensorDataset(data.points, data.labels)
                table = confusion(same, pairs, settings.classes)
        dispose(pairs)
    assert sum(map(sum, table)) == settings.samples
    assert measured.peak_bytes > 0
    assert (statistics.snapshot() - before).live_count == 0
    return history


if __name__ == "__main__":
    print(f"best accuracy: {main().best:.2f}")
