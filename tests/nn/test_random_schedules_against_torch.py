"""Schedules with random options do in random programs what PyTorch's do."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nn
import tensor

torch = pytest.importorskip("torch")

Options = dict[str, Any]


def per_group(draw: random.Random, one: Callable[[], float]) -> Any:
    return one() if draw.random() < 0.5 else [one(), one()]


def cyclic(draw: random.Random) -> Options:
    options: Options = {
        "base_lr": per_group(draw, lambda: draw.choice([0.01, 0.2])),
        "max_lr": per_group(draw, lambda: draw.choice([0.5, 1.5])),
        "step_size_up": draw.choice([1, 3, 4.5]),
        "step_size_down": draw.choice([None, 2, 5]),
        "mode": draw.choice(["triangular", "triangular2", "exp_range"]),
        "gamma": draw.choice([1.0, 0.9]),
        "cycle_momentum": draw.random() < 0.7,
        "base_momentum": per_group(draw, lambda: draw.choice([0.5, 0.8])),
        "max_momentum": per_group(draw, lambda: draw.choice([0.85, 0.95])),
    }
    if draw.random() < 0.3:
        options |= {"scale_fn": lambda x: 1 / (1 + x), "scale_mode": draw.choice(["cycle", "iterations"])}
    return options


def one_cycle(draw: random.Random) -> Options:
    total = draw.randrange(12, 30)
    return {
        "max_lr": per_group(draw, lambda: draw.choice([0.5, 2.0])),
        **draw.choice([{"total_steps": total}, {"epochs": 4, "steps_per_epoch": total // 4}]),
        "pct_start": draw.choice([0.1, 0.3, 0.75, 1.0]),
        "anneal_strategy": draw.choice(["cos", "linear"]),
        "cycle_momentum": draw.random() < 0.7,
        "base_momentum": per_group(draw, lambda: draw.choice([0.5, 0.8])),
        "max_momentum": per_group(draw, lambda: draw.choice([0.85, 0.95])),
        "div_factor": draw.choice([3.0, 25.0]),
        "final_div_factor": draw.choice([10.0, 1e4]),
        "three_phase": draw.random() < 0.4,
    }


MAKERS: dict[str, Callable[[random.Random], Options]] = {
    "StepLR": lambda d: {"step_size": d.randrange(1, 6), "gamma": d.choice([0.1, 0.5, 2.0])},
    "MultiStepLR": lambda d: {
        "milestones": d.choices(range(12), k=d.randrange(5)),
        "gamma": d.choice([0.1, 0.7]),
    },
    "ExponentialLR": lambda d: {"gamma": d.choice([0.5, 0.9, 1.1])},
    "ConstantLR": lambda d: {"factor": d.choice([0.1, 0.5, 1.0]), "total_iters": d.randrange(8)},
    "LinearLR": lambda d: {
        "start_factor": d.choice([1e-3, 0.5, 1.0]),
        "end_factor": d.choice([0.0, 0.3, 1.0]),
        "total_iters": d.randrange(1, 9),
    },
    "PolynomialLR": lambda d: {"total_iters": d.randrange(1, 9), "power": d.choice([0.5, 1.0, 3.0])},
    "CosineAnnealingLR": lambda d: {"T_max": d.randrange(1, 9), "eta_min": d.choice([0.0, 0.05, 0.9])},
    "CosineAnnealingWarmRestarts": lambda d: {
        "T_0": d.randrange(1, 6),
        "T_mult": d.randrange(1, 4),
        "eta_min": d.choice([0.0, 0.05]),
    },
    "LambdaLR": lambda d: {"lr_lambda": d.choice([lambda e: 0.9**e, [lambda e: 1 / (1 + e), lambda e: 2.0]])},
    "MultiplicativeLR": lambda d: {
        "lr_lambda": d.choice([lambda e: 0.9, [lambda e: 0.9 if e % 3 else 1.3, lambda e: 1 + 1 / (1 + e)]])
    },
    "CyclicLR": cyclic,
    "OneCycleLR": one_cycle,
    "SWALR": lambda d: {
        "swa_lr": per_group(d, lambda: d.choice([0.01, 0.4])),
        "anneal_epochs": d.randrange(6),
        "anneal_strategy": d.choice(["cos", "linear"]),
    },
}
#: What may stand in a sequence or a chain. PyTorch's SWALR there depends on its own count of steps.
PARTS = sorted(MAKERS.keys() - {"CyclicLR", "OneCycleLR", "SWALR"})


#: Those that accept the epoch at which they go on. PyTorch's restarts may then begin in a wrong period, ours
#: go on as if they had not been interrupted: see `test_lr_scheduler`.
TOLD = sorted(set(PARTS) - {"CosineAnnealingWarmRestarts"})


class Side:
    """One library's optimizer of two groups, and the schedule of it that is tried."""

    def __init__(self, library: Any, ones: Callable[..., Any], name: str, rates: list[float]) -> None:
        self.library, self.name = library, name
        self.parameters = [ones(1).requires_grad_() for _ in rates]
        groups = [{"params": [x], "lr": rate} for x, rate in zip(self.parameters, rates, strict=True)]
        self.optimizer = self.new_optimizer(groups)

    def new_optimizer(self, groups: list[Any]) -> Any:
        options = {"momentum": 0.9} if self.name in ("SGD", "RMSprop") else {}
        return getattr(self.library, self.name)(groups, lr=0.3, **options)

    def schedule(self, name: str, optimizer: Any, options: Options) -> Any:
        module = self.library.swa_utils if name == "SWALR" else self.library.lr_scheduler
        return getattr(module, name)(optimizer, **copy.copy(options))

    def begin(self, name: str, options: Options) -> None:
        self.made = name, options
        if name in ("SequentialLR", "ChainedScheduler"):
            parts = [self.schedule(part, self.optimizer, given) for part, given in options["parts"]]
            schedulers = self.library.lr_scheduler
            if name == "ChainedScheduler":
                self.current = schedulers.ChainedScheduler(parts)
            else:
                self.current = schedulers.SequentialLR(self.optimizer, parts, options["milestones"])
        else:
            self.current = self.schedule(name, self.optimizer, options)

    def load_anew(self) -> None:
        """Go on with a new optimizer and a new schedule that have loaded the states."""
        states = copy.deepcopy((self.optimizer.state_dict(), self.current.state_dict()))
        groups = [{"params": [x], "lr": 0.7} for x in self.parameters]
        self.optimizer = self.new_optimizer(groups)
        self.begin(*self.made)
        self.optimizer.load_state_dict(states[0])
        self.current.load_state_dict(states[1])

    def go_on_at(self, epoch: int) -> None:
        """Go on with a new schedule that gets the epoch of the optimizer."""
        name, options = self.made
        self.current = self.schedule(name, self.optimizer, {**options, "last_epoch": epoch})

    def figures(self) -> list[float]:
        found = [*self.current.get_last_lr()]
        for group in self.optimizer.param_groups:
            found += [group["lr"], group["initial_lr"], group.get("momentum", 0.0), *group.get("betas", ())]
        return [float(x) for x in found]


def random_options(draw: random.Random, name: str) -> Options:
    if name in MAKERS:
        return MAKERS[name](draw)
    parts = [(part, MAKERS[part](draw)) for part in draw.choices(PARTS, k=draw.randrange(1, 4))]
    return {"parts": parts, "milestones": sorted(draw.sample(range(1, 14), len(parts) - 1))}


@pytest.fixture(autouse=True)
def without_warnings() -> Iterator[None]:
    """PyTorch warns about schedules that step without their optimizers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [*MAKERS, "SequentialLR", "ChainedScheduler"])
def test_random_programs_of_a_schedule_are_pytorchs(name: str, seed: int) -> None:
    draw = random.Random(f"{name} {seed}")
    kind = draw.choice(["SGD", "Adam", "RMSprop"])
    rates = [draw.choice([0.1, 1.0]), draw.choice([0.3, 2.0])]
    ours, theirs = Side(nn.optim, tensor.ones, kind, rates), Side(torch.optim, torch.ones, kind, rates)
    options = random_options(draw, name)
    sides = (ours, theirs)
    for side in sides:
        side.begin(name, options)
    steps = 0
    done: list[str] = []
    for _ in range(25):
        action = draw.choice(["step"] * 8 + ["load", "rate"] + ["go on"] * (name in TOLD))
        if name == "OneCycleLR" and steps >= 10:
            action = "load"  # it must not step more often than it is long
        rate = draw.choice([0.5, 1.5])
        done.append(f"{action} {rate}" if action == "rate" else action)
        for side in sides:
            match action:
                case "step":
                    side.current.step()
                case "load":
                    side.load_anew()
                case "rate":
                    for group in side.optimizer.param_groups:
                        group["lr"] *= rate
                case "go on":
                    side.go_on_at(steps)
        steps += action == "step"
        found, expected = (side.figures() for side in sides)
        about = f"{kind} {rates} {options} {done}"
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=about)
