"""Find three leaks in a training loop, and fix them.

    python examples/find_a_leak.py
    disposescope run examples/find_a_leak.py --leaky

Each of the leaks is a line that looks harmless: validation losses that are kept for a plot, activations that
are kept to inspect them later, and a new optimizer in each epoch. The program trains, shows that memory
grows, prints the lines that created the remaining tensors, and then trains without the leaks.

With ``--leaky`` it only trains, with the leaks: for ``disposescope run``, which reports leaks of programs
that contain no tracking code.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import nn
import scopes
import tensor
from scopes import new_dispose_scope, statistics
from tensor import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scopes import LeakReport
    from tensor import Tensor

EPOCHS, STEPS, BATCH = 40, 8, 64
FEATURES, HIDDEN, CLASSES = 64, 128, 10


@dataclass
class Data:
    """Points around one center for each class."""

    inputs: Tensor  # (STEPS * BATCH, FEATURES)
    targets: Tensor  # (STEPS * BATCH,), the numbers of the classes
    # The same, of points that training does not see: (BATCH, FEATURES) and (BATCH,)
    unseen_inputs: Tensor
    unseen_targets: Tensor

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return views of a part of the points."""
        part = slice(step * BATCH, (step + 1) * BATCH)
        return self.inputs[part], self.targets[part]


def make_data() -> Data:
    """Draw the points."""
    count = (STEPS + 1) * BATCH
    centers, targets = tensor.randn(CLASSES, FEATURES), tensor.randint(0, CLASSES, (count,))
    inputs = centers[targets] + 2 * tensor.randn(count, FEATURES)
    seen = STEPS * BATCH
    return Data(inputs[:seen], targets[:seen], inputs[seen:], targets[seen:])


@dataclass
class Notes:
    """Values that a training run keeps for later."""

    losses: list[Tensor | float] = field(default_factory=list)
    activations: dict[tuple[int, int], Tensor | float] = field(default_factory=dict)
    schedules: list[nn.optim.lr_scheduler.StepLR] = field(default_factory=list)
    # At the end of each epoch.
    live_tensors: list[int] = field(default_factory=list)
    bytes_live: list[int] = field(default_factory=list)

    def end_epoch(self) -> None:
        """Note the number of live tensors and their bytes."""
        self.live_tensors.append(statistics.live_count)
        self.bytes_live.append(memory.statistics().bytes_live)


def new_model() -> nn.Sequential:
    """Return a network of two layers."""
    tensor.manual_seed(1)
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES))


def train_leaking(data: Data, notes: Notes) -> None:
    """Train; three lines keep more with each epoch."""
    model, criterion = new_model(), nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        optimizer = nn.optim.Adam(model.parameters(), lr=0.01)  # leak 3: the schedules keep it
        notes.schedules.append(nn.optim.lr_scheduler.StepLR(optimizer, step_size=2))
        for step in range(STEPS):
            inputs, targets = data.batch(step)
            optimizer.zero_grad()
            hidden = model[:2](inputs)
            criterion(model[2](hidden), targets).backward()
            optimizer.step()
            notes.activations[epoch, step] = hidden.detach()  # leak 2
        outputs = model(data.unseen_inputs)
        notes.losses.append(criterion(outputs, data.unseen_targets))  # leak 1: with its graph
        notes.end_epoch()


def train_cured(data: Data, notes: Notes) -> None:
    """Train; numbers are kept instead of tensors, and one optimizer."""
    model, criterion = new_model(), nn.CrossEntropyLoss()
    optimizer = nn.optim.Adam(model.parameters(), lr=0.01)  # fix 3: made once
    for epoch in range(EPOCHS):
        for step in range(STEPS):
            with new_dispose_scope("step"):  # disposes the other tensors of the step
                inputs, targets = data.batch(step)
                optimizer.zero_grad()
                hidden = model[:2](inputs)
                criterion(model[2](hidden), targets).backward()
                optimizer.step()
                notes.activations[epoch, step] = hidden.abs().mean().item()  # fix 2: only a number
        with new_dispose_scope("validation"), tensor.no_grad():  # fix 1: no graph ...
            outputs = model(data.unseen_inputs)
            notes.losses.append(criterion(outputs, data.unseen_targets).item())  # ... and a number
        notes.end_epoch()


@dataclass
class Result:
    """The reports of both training runs."""

    leaking: Notes
    report: LeakReport
    cured: Notes
    report_of_cured: LeakReport


def watch(train: Callable[[Data, Notes], None], data: Data) -> tuple[Notes, LeakReport]:
    """Train with tracking. Return the notes, and the report of the tensors that they keep alive."""
    notes = Notes()
    with scopes.track():
        train(data, notes)
        report = scopes.leaks()  # while the notes are alive, because they hold the leaks
    for epoch in (0, EPOCHS // 2, EPOCHS - 1):
        live, used = notes.live_tensors[epoch], notes.bytes_live[epoch]
        print(f"  after epoch {epoch + 1:2d}: {live:4d} live tensors, {used:10,} bytes")
    return notes, report


def main(argv: Sequence[str] | None = None) -> Result | None:
    """Show the leaks and the fixes, or only train with the leaks, by the options in `argv`."""
    parser = argparse.ArgumentParser(description="Three leaks in a training loop, and their fixes.")
    parser.add_argument("--leaky", action="store_true", help="train with the leaks, and print nothing")
    options = parser.parse_args(argv)
    tensor.manual_seed(0)
    data = make_data()
    if options.leaky:
        train_leaking(data, LEFT)
        return None

    print("Memory grows with every epoch:")
    leaking, report = watch(train_leaking, data)
    print(f"\nWhich lines created what is alive?\n{report}")
    for kept in (leaking.losses, leaking.activations, leaking.schedules):
        kept.clear()  # the last references to those tensors
    print("\nNumbers kept instead of tensors, and one optimizer:")
    cured, report_of_cured = watch(train_cured, data)
    growing = sum(row.is_growing for row in report_of_cured.rows)
    print(
        f"\nlines that keep more and more: {growing}; left beside the data: {report_of_cured.count} tensors"
    )
    return Result(leaking, report, cured, report_of_cured)


# In a real program something keeps the leaks alive until the end: here this global does.
LEFT = Notes()

if __name__ == "__main__":
    main()
