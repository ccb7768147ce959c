"""Train a classifier of handwritten digits inside dispose scopes, and show that nothing is left behind.

    python examples/train_digits.py
    python examples/train_digits.py --epochs 5 --seed 7 --quiet

The digits are the 1,797 images of 8 x 8 pixels in scikit-learn; a fifth of them is held out.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import nn
import tensor
from nn.data import DataLoader, TensorDataset
from scopes import DisposeScope, DisposeStatistics, dispose, new_dispose_scope, statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTRA_MISSING = "this example needs scikit-learn and tqdm: pip install '.[examples]'"


@dataclass(frozen=True)
class Digits:
    """Images as rows of 64 pixels from 0 to 1, and their digits."""

    train: TensorDataset
    test: TensorDataset


@dataclass(frozen=True)
class Epoch:
    """The figures that are printed for an epoch."""

    number: int
    loss: float
    accuracy: float
    live_tensors: int
    bytes_held: int

    def __str__(self) -> str:
        return (
            f"epoch {self.number:3d}: loss {self.loss:.4f}, held-out accuracy {self.accuracy:.2%}, "
            f"{self.live_tensors} live tensors, {self.bytes_held:,} bytes"
        )


@dataclass
class Result:
    """Figures of each epoch, and the dispose statistics after everything was disposed."""

    epochs: list[Epoch] = field(default_factory=list)
    left: DisposeStatistics = field(default_factory=DisposeStatistics)

    @property
    def accuracy(self) -> float:
        """The share of the held-out digits that is classified correctly after the last epoch."""
        return self.epochs[-1].accuracy


def load_digits(seed: int) -> Digits:
    """Return the digits, a fifth of each digit's images held out; the data sets own the tensors."""
    try:
        from sklearn.datasets import load_digits as load
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise SystemExit(f"{EXTRA_MISSING} ({error})") from None
    images, digits = load(return_X_y=True)
    parts = train_test_split(
        (images / 16).astype(np.float32),
        digits.astype(np.int64),
        test_size=0.2,
        stratify=digits,
        random_state=seed,
    )
    train_x, test_x, train_y, test_y = (tensor.tensor(part) for part in parts)
    return Digits(TensorDataset(train_x, train_y), TensorDataset(test_x, test_y))


def progress(total: int, quiet: bool) -> Any:
    """Return a progress bar over all steps."""
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise SystemExit(f"{EXTRA_MISSING} ({error})") from None
    return tqdm(total=total, unit="step", disable=quiet, file=sys.stderr, leave=False)


def new_model() -> nn.Sequential:
    """Return the network: 64 pixels, 256 and 128 hidden units, 10 digits."""
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(128, 10),
    )


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Return the share of `data` that `model` classifies correctly."""
    model.eval()
    with new_dispose_scope("evaluation"), tensor.no_grad():
        images, digits = data.tensors
        right = model(images).argmax(dim=1) == digits
        share = right.float().mean().item()
    model.train()
    return float(share)


def train_epoch(
    model: nn.Module, optimizer: nn.optim.Optimizer, criterion: nn.Module, loader: DataLoader[Any], bar: Any
) -> float:
    """Go through all batches once, and return the mean loss."""
    total = 0.0
    for images, digits in loader:
        with new_dispose_scope("step"):
            optimizer.zero_grad()
            loss = criterion(model(images), digits)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(digits)
        bar.update()
    optimizer.zero_grad()  # the gradients of the last step, so that each epoch ends with the same memory
    return total / len(loader.dataset)


def bytes_held(scope: DisposeScope, model: nn.Module, optimizer: nn.optim.Optimizer) -> int:
    """Return the memory of the scope's members, parameters and optimizer state, in bytes."""
    return scope.nbytes + sum(x.nbytes for x in model.parameters()) + optimizer.nbytes


def main(argv: Sequence[str] | None = None) -> Result:
    """Train with the options in `argv`, print the figures, and return them."""
    parser = argparse.ArgumentParser(
        description="Train a classifier of handwritten digits in dispose scopes."
    )
    parser.add_argument("--epochs", type=int, default=40, help="rounds through the training data")
    parser.add_argument("--batch-size", type=int, default=32, help="images in a step")
    parser.add_argument("--lr", type=float, default=2e-3, help="step size of Adam")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the split, the initial values and the order"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(argv)

    started = time.perf_counter()
    before = statistics.snapshot()
    result = Result()
    tensor.manual_seed(options.seed)
    with new_dispose_scope("digits") as scope:
        digits = load_digits(options.seed)
        loader = DataLoader(digits.train, batch_size=options.batch_size, shuffle=True, generator=options.seed)
        model = new_model()
        optimizer = nn.optim.Adam(model.parameters(), lr=options.lr)
        schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        print(f"{len(digits.train)} digits to learn from, {len(digits.test)} held out")
        with progress(options.epochs * len(loader), options.quiet) as bar:
            for number in range(1, options.epochs + 1):
                loss = train_epoch(model, optimizer, criterion, loader, bar)
                schedule.step()
                live = (statistics.snapshot() - before).live_count
                held = bytes_held(scope, model, optimizer)
                epoch = Epoch(number, loss, accuracy(model, digits.test), live, held)
                result.epochs.append(epoch)
                bar.clear()
                print(epoch)
        optimizer.dispose()
        model.dispose()
        dispose(digits.train, digits.test)
    result.left = statistics.snapshot() - before
    if result.epochs:
        print(f"held-out accuracy: {result.accuracy:.2%} after {time.perf_counter() - started:.1f} s")
    print("after model, optimizer, data and scope are disposed:")
    print(result.left)
    return result


if __name__ == "__main__":
    main()
