"""Find the lines that leak in a PyTorch training loop, fix the leaks with scopes, and plot the memory.

    pip install '.[torch,plot]'
    python examples/torch_training.py --picture memory.png
    disposescope run examples/torch_training.py --leaky

The loop keeps three things that look harmless: losses for a plot, with their graphs; activations that a
forward hook collects; and a running total of the loss, without detach(). The program trains, and prints the
lines that made the remaining tensors. Then it trains with a scope for each step. It moves the results out of
the scope, which disposes all other tensors, even if something still refers to them.

With ``--leaky`` it only trains, with the leaks and without scopes: for ``disposescope run``.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import scopes
from scopes import new_dispose_scope

try:
    import torch

    import scopes.torch
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: pip install '.[torch]'") from None

STEPS, BATCH, FEATURES, HIDDEN = 60, 64, 64, 512


@dataclass
class Result:
    """The measurements of a run."""

    losses: list[float] = field(default_factory=list)
    # Bytes of all live tensors after each step, including their graphs.
    curve: list[int] = field(default_factory=list)
    report: str = ""


class Training:
    """A network, its optimizer, and values that the user keeps for later."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.losses: list[Any] = []
        self.activations: list[Any] = []
        self.total = torch.zeros(())
        self.model[1].register_forward_hook(self.collect)

    def collect(self, _module: object, _args: object, output: Any) -> None:
        """Keep an activation, for a histogram."""
        self.activations.append(output)

    def step(self) -> float:
        """Train on one batch."""
        x = torch.randn(BATCH, FEATURES)
        y = x.sum(dim=1, keepdim=True)
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss)
        self.total = self.total + loss
        return float(loss.item())


def train(*, scoped: bool) -> Result:
    """Train with tracking on, and measure after each step."""
    result = Result()
    with scopes.track(), scopes.torch.owning():
        training = Training()
        for _ in range(STEPS):
            with new_dispose_scope("step") if scoped else nullcontext() as scope:
                result.losses.append(training.step())
                if scope is not None:
                    # The values that outlive the step; `detach` makes them independent of the step's graph.
                    training.total = scope.move_to_outer(training.total.detach())
            result.curve.append(scopes.leaks().nbytes)
        result.report = str(scopes.leaks())
    return result


def draw(leaky: Result, cured: Result, path: str) -> None:
    """Write both curves to an image."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for result, label in ((leaky, "without scopes"), (cured, "a scope for each step")):
        axes.plot(range(1, STEPS + 1), [n / 2**20 for n in result.curve], label=label)
    axes.set(xlabel="step", ylabel="tensors alive, MiB", title="the same PyTorch training loop")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, dpi=100)


def main(arguments: list[str] | None = None) -> tuple[Result, Result] | None:
    """Run the program, and return both results."""
    parser = argparse.ArgumentParser(description="A leaky PyTorch loop, found and cured.")
    parser.add_argument("--leaky", action="store_true", help="only train, with the leaks")
    parser.add_argument("--picture", metavar="FILE", help="draw the memory of both runs; needs matplotlib")
    options = parser.parse_args(arguments)
    if options.leaky:
        training = Training()
        for _ in range(STEPS):
            training.step()
        return None
    leaky, cured = train(scoped=False), train(scoped=True)
    print(leaky.report)
    print(f"\nwithout scopes: {leaky.curve[0]:,} bytes after step 1, {leaky.curve[-1]:,} after step {STEPS}")
    print(f"with scopes:    {cured.curve[0]:,} bytes after step 1, {cured.curve[-1]:,} after step {STEPS}")
    print(f"the same losses to the last bit: {leaky.losses == cured.losses}")
    if options.picture is not None:
        draw(leaky, cured, options.picture)
    return leaky, cured


if __name__ == "__main__":
    main()
