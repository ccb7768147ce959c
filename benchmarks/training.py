"""Whole training steps: forward, loss, backward and optimizer, from the same weights on the same batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import nn
import tensor
from benchmarks.by_hand import Adam, Network, Sgd
from benchmarks.harness import NUMPY, OURS, TORCH, Case, Timer, timed
from scopes import new_dispose_scope

MOMENTUM = 0.9
# So small that the weights stay where they are: after thousands of steps on one batch gradients would
# vanish, and arithmetic on subnormal numbers is many times slower.
TIMING_RATE = 1e-7
CHECKING_RATE = 1e-2

Step = Callable[[], float]


@dataclass(frozen=True)
class Problem:
    """A network's layer sizes, its batch size, and its optimizer: ``"sgd"`` (with momentum) or ``"adam"``.

    Ten outputs are classes, trained by cross entropy; any other number is a regression, by mean squares.
    """

    sizes: tuple[int, ...]
    batch: int
    optimizer: str

    @property
    def name(self) -> str:
        """What the table calls it, like ``training/64-128-10 x 64, adam``."""
        return f"training/{'-'.join(map(str, self.sizes))} x {self.batch}, {self.optimizer}"

    @property
    def classifies(self) -> bool:
        """Whether the outputs are classes."""
        return self.sizes[-1] == 10

    def weights(self) -> list[npt.NDArray[np.float32]]:
        """Make a weight ``(out, in)`` and a bias ``(out,)`` for each layer, the same ones each time."""
        random = np.random.default_rng(0)
        shapes = [shape for inner, outer in pairwise(self.sizes) for shape in ((outer, inner), (outer,))]
        bounds = [inner**-0.5 for inner in self.sizes[:-1] for _ in range(2)]
        return [
            random.uniform(-bound, bound, shape).astype(np.float32)
            for bound, shape in zip(bounds, shapes, strict=True)
        ]

    def data(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
        """Make a batch: inputs ``(batch, sizes[0])``, and class numbers or targets ``(batch, sizes[-1])``."""
        random = np.random.default_rng(1)
        inputs = random.standard_normal((self.batch, self.sizes[0]), dtype=np.float32)
        if self.classifies:
            return inputs, random.integers(0, self.sizes[-1], self.batch)
        return inputs, random.standard_normal((self.batch, self.sizes[-1]), dtype=np.float32)


PROBLEMS = tuple(
    Problem(sizes, batch, optimizer)
    for sizes, batch in (
        ((64, 128, 10), 64),
        ((4, 8096, 4), 64),
        ((784, 512, 256, 10), 128),
        ((784, 2048, 2048, 10), 256),
    )
    for optimizer in ("sgd", "adam")
)


def cases() -> Iterator[Case]:
    """Yield a case for each network and optimizer."""
    for problem in PROBLEMS:
        yield Case(problem.name, partial(_timers, problem), round_seconds=0.02, settle_seconds=0.04)


def _timers(problem: Problem) -> Mapping[str, Timer]:
    makers = {OURS: _our_step, NUMPY: _numpy_step, TORCH: _torch_step}
    _check_agreement(problem, {name: make(problem, CHECKING_RATE) for name, make in makers.items()})
    return {name: _repeated(make(problem, TIMING_RATE)) for name, make in makers.items()}


def _repeated(step: Step) -> Timer:
    def loop(repetitions: int) -> None:
        for _ in range(repetitions):
            step()

    return timed(loop)


def _check_agreement(problem: Problem, steps: Mapping[str, Step]) -> None:
    """Take four steps with each contender: times of different work would mean nothing."""
    losses = {name: [step() for _ in range(4)] for name, step in steps.items()}
    for name, values in losses.items():
        if not np.allclose(values, losses[NUMPY], rtol=2e-3):
            raise RuntimeError(
                f"{problem.name}: {name} and NumPy by hand train differently: losses {values} and "
                f"{losses[NUMPY]}; compare them before comparing times"
            )


def _our_step(problem: Problem, rate: float) -> Step:
    layers: list[nn.Module] = []
    for inner, outer in pairwise(problem.sizes):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    names = model.state_dict()
    model.load_state_dict({name: tensor.tensor(w) for name, w in zip(names, problem.weights(), strict=True)})
    optimizer: nn.optim.Optimizer = (
        nn.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
        if problem.optimizer == "sgd"
        else nn.optim.Adam(model.parameters(), lr=rate)
    )
    criterion = nn.functional.cross_entropy if problem.classifies else nn.functional.mse_loss
    inputs, targets = (tensor.tensor(array) for array in problem.data())

    def step() -> float:
        with new_dispose_scope():
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            return float(loss.item())

    return step


def _torch_step(problem: Problem, rate: float) -> Step:
    layers: list[torch.nn.Module] = []
    for inner, outer in pairwise(problem.sizes):
        layers += [torch.nn.Linear(inner, outer), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    names = model.state_dict()
    model.load_state_dict({name: torch.tensor(w) for name, w in zip(names, problem.weights(), strict=True)})
    optimizer = (
        torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
        if problem.optimizer == "sgd"
        else torch.optim.Adam(model.parameters(), lr=rate)
    )
    functional = torch.nn.functional
    criterion = functional.cross_entropy if problem.classifies else functional.mse_loss
    inputs, targets = (torch.tensor(array) for array in problem.data())

    def step() -> float:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _numpy_step(problem: Problem, rate: float) -> Step:
    network = Network(problem.weights(), classifies=problem.classifies)
    optimizer = (
        Sgd(network.weights, rate, MOMENTUM) if problem.optimizer == "sgd" else Adam(network.weights, rate)
    )
    inputs, targets = problem.data()

    def step() -> float:
        loss, gradients = network.loss_and_gradients(inputs, targets)
        optimizer.step(gradients)
        return loss

    return step
