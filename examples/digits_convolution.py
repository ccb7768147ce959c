"""Recognise handwritten digits by a convolutional network, in dispose scopes with flat memory.

    python examples/digits_convolution.py
    python examples/digits_convolution.py --epochs 3 --seed 7

The digits are the 1,797 images of 8 x 8 pixels in scikit-learn; a fifth of them is held out. Training shifts
images by up to a pixel. Each step has a scope, which disposes its tensors at the end. So each epoch has the
same peak of memory as the first.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import nn
import tensor
from nn import functional as F
from nn.data import DataLoader, TensorDataset
from scopes import DisposeStatistics, dispose, new_dispose_scope, statistics
from tensor import memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Generator, Tensor

EXTRA_MISSING = "this example needs scikit-learn: pip install '.[examples]'"


@dataclass(frozen=True)
class Epoch:
    """The figures that are printed for an epoch; `peak_bytes` is the most memory that was in use at once."""

    number: int
    loss: float
    accuracy: float
    live_tensors: int
    peak_bytes: int

    def __str__(self) -> str:
        return (
            f"epoch {self.number:2d}: loss {self.loss:.4f}, held-out accuracy {self.accuracy:.2%}, "
            f"{self.live_tensors} live tensors, at most {self.peak_bytes:,} bytes"
        )


@dataclass
class Result:
    """Figures of each epoch, and the dispose statistics after everything was disposed."""

    epochs: list[Epoch] = field(default_factory=list)
    left: DisposeStatistics = field(default_factory=DisposeStatistics)


class Network(nn.Module):
    """Two blocks of convolution, batch norm, ReLU and pooling; then dropout of channels, and a linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Dropout2d(0.1),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.classes = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(batch, 10)`` of images ``(batch, 1, 8, 8)``."""
        return self.classes(self.features(images))


def load_digits(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Return the digits for training, and a fifth that is held out. The data sets own the tensors."""
    try:
        from sklearn.datasets import load_digits as load
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise SystemExit(f"{EXTRA_MISSING} ({error})") from None
    images, digits = load(return_X_y=True)
    parts = train_test_split(
        (images / 16).astype(np.float32).reshape(-1, 1, 8, 8),
        digits.astype(np.int64),
        test_size=0.2,
        stratify=digits,
        random_state=seed,
    )
    train_x, test_x, train_y, test_y = (tensor.tensor(part) for part in parts)
    return TensorDataset(train_x, train_y), TensorDataset(test_x, test_y)


def moved(images: Tensor, generator: Generator) -> Tensor:
    """Return the images, all shifted by up to a pixel in each direction."""
    down, right = tensor.randint(0, 3, (2,), generator=generator).tolist()
    return F.pad(images, (1, 1, 1, 1))[:, :, down : down + 8, right : right + 8]


def train_epoch(
    model: nn.Module,
    optimizer: nn.optim.Optimizer,
    loader: DataLoader[tuple[Tensor, ...]],
    generator: Generator,
) -> float:
    """Go through all batches once, and return the mean loss."""
    model.train()
    total = 0.0
    for images, digits in loader:
        with new_dispose_scope("step"):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(moved(images, generator)), digits)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(digits)
    optimizer.zero_grad()  # the gradients of the last step, so that each epoch ends with the same memory
    return total / len(loader.dataset)


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Return the share of `data` that `model` classifies correctly."""
    model.eval()
    with new_dispose_scope("evaluation"), tensor.no_grad():
        images, digits = data.tensors
        return float((model(images).argmax(dim=1) == digits).float().mean().item())


def main(argv: Sequence[str] | None = None) -> Result:
    """Train with the options in `argv`, print the figures, and return them."""
    parser = argparse.ArgumentParser(description="Recognise digits by convolution, in dispose scopes.")
    parser.add_argument("--epochs", type=int, default=15, help="rounds through the training data")
    parser.add_argument("--batch-size", type=int, default=64, help="images in a step")
    parser.add_argument("--lr", type=float, default=5e-3, help="step size of Adam")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the split, the initial values and the order"
    )
    options = parser.parse_args(argv)

    started = time.perf_counter()
    before = statistics.snapshot()
    result = Result()
    tensor.manual_seed(options.seed)
    with new_dispose_scope("digits"):
        train, test = load_digits(options.seed)
        loader = DataLoader(train, batch_size=options.batch_size, shuffle=True, generator=options.seed)
        generator = tensor.Generator().manual_seed(options.seed)
        with Network() as model:
            optimizer = nn.optim.Adam(model.parameters(), lr=options.lr)
            schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs)
            for number in range(1, options.epochs + 1):
                with memory.measure() as epoch:
                    loss = train_epoch(model, optimizer, loader, generator)
                schedule.step()
                live = (statistics.snapshot() - before).live_count
                result.epochs.append(Epoch(number, loss, accuracy(model, test), live, epoch.peak_bytes))
                print(result.epochs[-1])
            optimizer.dispose()
        dispose(train, test)
    result.left = statistics.snapshot() - before
    print(f"after {time.perf_counter() - started:.1f} s model, optimizer, data and scope are disposed:")
    print(result.left)
    return result


if __name__ == "__main__":
    main()
