"""Train a deep network in a part of the memory that it needs, with the same losses to the bit.

    python examples/train_in_budget.py
    python examples/train_in_budget.py --share 0.4 --steps 100 --plot memory.png

The digits are the 1,797 images of 8 x 8 pixels in scikit-learn. Two steps without a budget measure how much
memory training needs. Then training runs in a share of that. Values that do not fit are computed again, or
written to a file without a name.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import nn
import tensor
from scopes import new_dispose_scope
from tensor import memory

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTRA_MISSING = "this example needs scikit-learn and tqdm: pip install '.[examples]'"
NO_MATPLOTLIB = "--plot needs matplotlib: pip install '.[plot]'"


@dataclass
class Result:
    """The measurements of the training."""

    plain_peak: int = 0
    budget: int = 0
    losses: list[float] = field(default_factory=list)
    plain_losses: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    statistics: memory.BudgetStatistics | None = None


def load_digits(batch_size: int) -> tuple[tensor.Tensor, tensor.Tensor]:
    """Return a batch of images and their digits."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise SystemExit(f"{EXTRA_MISSING} ({error})") from None
    images, digits = load(return_X_y=True)
    rows = np.arange(batch_size) % len(images)
    return tensor.tensor((images[rows] / 16).astype(np.float32)), tensor.tensor(digits[rows].astype(np.int64))


class Residual(nn.Module):
    """A layer whose input is added to its output."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Return `x` plus the output of the layer."""
        return x + self.dropout(self.narrow(nn.functional.gelu(self.wide(self.norm(x)))))


class Training:
    """The network, its data and its optimizer, with the same initial values each time."""

    def __init__(self, options: argparse.Namespace) -> None:
        tensor.manual_seed(options.seed)
        self.images, self.digits = load_digits(options.batch_size)
        width = options.width
        blocks = [Residual(width) for _ in range(options.depth)]
        self.model = nn.Sequential(nn.Linear(64, width), *blocks, nn.Linear(width, 10))
        self.optimizer = nn.optim.AdamW(self.model.parameters(), lr=options.lr)

    def step(self) -> float:
        """Do one step, and return the loss."""
        with new_dispose_scope("step"):
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(self.images), self.digits)
            loss.backward()
            self.optimizer.step()
            return float(loss.item())


def progress(total: int, quiet: bool) -> Any:
    """Return a progress bar over all steps."""
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise SystemExit(f"{EXTRA_MISSING} ({error})") from None
    return tqdm(total=total, unit="step", disable=quiet, file=sys.stderr, leave=False)


def plot(result: Result, path: str) -> None:
    """Draw the memory and the loss of each step."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SystemExit(f"{NO_MATPLOTLIB} ({error})") from None
    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot([peak / 2**20 for peak in result.peaks], label="peak of the step")
    left.axhline(result.plain_peak / 2**20, color="grey", linestyle="--", label="without a budget")
    left.axhline(result.budget / 2**20, color="red", linewidth=1, label="budget")
    left.set(xlabel="step", ylabel="MiB", ylim=(0, None))
    left.legend()
    right.plot(result.losses)
    right.set(xlabel="step", ylabel="loss")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> Result:
    """Train with the options in `argv`, print the figures, and return them."""
    parser = argparse.ArgumentParser(description="Train in a part of the memory that training needs.")
    parser.add_argument(
        "--share", type=float, default=0.5, help="the budget, as a share of the peak without one"
    )
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=12, help="residual layers")
    parser.add_argument("--lr", type=float, default=2e-3, help="step size of AdamW")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE", help="draw memory and loss; needs matplotlib")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(argv)

    result = Result()
    with new_dispose_scope("without a budget"):
        training = Training(options)
        with memory.measure() as used:
            result.plain_losses = [training.step() for _ in range(2)]
        result.plain_peak = used.peak_bytes
        training.optimizer.dispose()
        training.model.dispose()
    result.budget = int(result.plain_peak * options.share)
    print(f"a step needs {result.plain_peak / 2**20:.1f} MiB; the budget is {result.budget / 2**20:.1f} MiB")

    with new_dispose_scope("in a budget"):
        training = Training(options)
        with (
            memory.budget(result.budget, spill=tempfile.gettempdir()) as budget,
            progress(options.steps, options.quiet) as bar,
        ):
            for _ in range(options.steps):
                with memory.measure() as used:
                    result.losses.append(training.step())
                result.peaks.append(used.peak_bytes)
                bar.update()
                bar.set_postfix(loss=f"{result.losses[-1]:.3f}", MiB=f"{used.peak_bytes / 2**20:.1f}")
        result.statistics = budget.statistics()
        training.optimizer.dispose()
        training.model.dispose()
    print(f"loss {result.losses[0]:.3f} at the first step, {result.losses[-1]:.3f} at the last one")
    same = result.losses[: len(result.plain_losses)] == result.plain_losses[: len(result.losses)]
    print(f"the first losses with and without a budget are {'equal to the bit' if same else 'different'}")
    print(result.statistics)
    if options.plot:
        plot(result, options.plot)
        print(f"memory and loss are drawn in {options.plot}")
    return result


if __name__ == "__main__":
    main()
