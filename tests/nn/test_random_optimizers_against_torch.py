"""Optimizers accept the options that PyTorch's accept, and take its steps with random ones."""

from __future__ import annotations

import copy
import inspect
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nn
import tensor

torch = pytest.importorskip("torch")

Options = dict[str, Any]
Choice = Callable[[random.Random], Any]

# Around each bound that an option may have: 0 and 1.
NUMBERS = [-1.0, -1e-9, 0.0, 1e-9, 0.5, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 2.0]
NAMES = [
    *("SGD", "Adam", "AdamW", "RMSprop", "ASGD", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam"),
    *("Rprop", "Adafactor", "Muon"),
]
#: Options of which PyTorch checks nothing, or not at this place.
UNCHECKED = {("Muon", "eps"), ("Muon", "ns_steps")}
#: Options that may be any number, also one that is none.
UNBOUNDED = {
    ("SGD", "dampening"),
    ("ASGD", "lambd"),
    ("ASGD", "alpha"),
    ("ASGD", "t0"),
    ("Rprop", "step_sizes"),
}


def bounded_options() -> Iterator[Any]:
    """Yield each optimizer with each of its numbers, and the values that it is given."""
    for name in NAMES:
        for parameter in inspect.signature(getattr(nn.optim, name)).parameters.values():
            default = parameter.default
            if (name, parameter.name) in UNCHECKED:
                continue
            if type(default) in (int, float):
                yield pytest.param(name, parameter.name, NUMBERS, id=f"{name} {parameter.name}")
            elif type(default) is tuple:
                for place in range(len(default)):
                    values = [(*default[:place], x, *default[place + 1 :]) for x in NUMBERS]
                    yield pytest.param(name, parameter.name, values, id=f"{name} {parameter.name}[{place}]")


def accepted(library: Any, parameter: Any, name: str, option: str, values: list[Any]) -> list[Any]:
    found = []
    for value in values:
        try:
            getattr(library, name)([parameter], **{option: value})
        except ValueError:
            continue
        found.append(value)
    return found


@pytest.mark.parametrize(("name", "option", "values"), [*bounded_options()])
def test_the_bounds_of_an_option_are_pytorchs(name: str, option: str, values: list[Any]) -> None:
    expected = accepted(torch.optim, torch.zeros(2, 2, requires_grad=True), name, option, values)
    assert accepted(nn.optim, tensor.zeros((2, 2)).requires_grad_(), name, option, values) == expected


@pytest.mark.parametrize(("name", "option", "values"), [*bounded_options()])
def test_a_bounded_option_must_be_a_number(name: str, option: str, values: list[Any]) -> None:
    if (name, option) in UNBOUNDED:
        return
    first = values[0]
    wrong = tuple(math.nan if x == -1.0 else x for x in first) if type(first) is tuple else math.nan
    with pytest.raises(ValueError, match=f"{name}: .*{option}"):
        getattr(nn.optim, name)([tensor.zeros((2, 2)).requires_grad_()], **{option: wrong})


def one_of(*values: Any) -> Choice:
    return lambda draw: draw.choice(values)


def betas(draw: random.Random) -> tuple[float, float]:
    return draw.choice([0.0, 0.5, 0.9]), draw.choice([0.0, 0.6, 0.99, 0.999])


EITHER = one_of(False, True)
DECAY = one_of(0, 0, 0.1, 1.0)
RATE = one_of(0.0, 0.01, 0.3, 1.0)
EPS = one_of(1e-8, 1e-3, 0.5)
ADAM = {"lr": RATE, "betas": betas, "eps": EPS, "weight_decay": DECAY, "maximize": EITHER}
CHOICES: dict[str, dict[str, Choice]] = {
    "SGD": {
        "lr": RATE,
        "momentum": one_of(0, 0.5, 0.9),
        "dampening": one_of(0, 0.3, 1),
        "weight_decay": DECAY,
        "nesterov": EITHER,
        "maximize": EITHER,
    },
    "Adam": {**ADAM, "amsgrad": EITHER},
    "AdamW": {**ADAM, "amsgrad": EITHER},
    "RMSprop": {
        "lr": RATE,
        "alpha": one_of(0.0, 0.5, 0.99),
        "eps": EPS,
        "weight_decay": DECAY,
        "momentum": one_of(0, 0.5, 0.9),
        "centered": EITHER,
        "maximize": EITHER,
    },
    "ASGD": {
        "lr": one_of(0.01, 0.3),
        "lambd": one_of(1e-4, 0.1),
        "alpha": one_of(0.3, 0.75, 1.0),
        "t0": one_of(0, 1, 3, 4, 1e6),
        "weight_decay": DECAY,
        "maximize": EITHER,
    },
    "Adadelta": {
        "lr": RATE,
        "rho": one_of(0.0, 0.5, 0.9, 1.0),
        "eps": EPS,
        "weight_decay": DECAY,
        "maximize": EITHER,
    },
    "Adagrad": {
        "lr": RATE,
        "lr_decay": one_of(0, 0.1, 1.0),
        "weight_decay": DECAY,
        "initial_accumulator_value": one_of(0, 0.5, 2.0),
        "eps": EPS,
        "maximize": EITHER,
    },
    "Adamax": ADAM,
    "NAdam": {**ADAM, "momentum_decay": one_of(0, 4e-3, 0.5), "decoupled_weight_decay": EITHER},
    "RAdam": {**ADAM, "decoupled_weight_decay": EITHER},
    "Rprop": {
        "lr": one_of(0.01, 0.3),
        "etas": one_of((0.5, 1.2), (0.1, 3.0)),
        "step_sizes": one_of((1e-6, 50), (0.1, 0.4)),
        "maximize": EITHER,
    },
    "Adafactor": {
        "lr": one_of(0.01, 0.3, 5.0),
        "beta2_decay": one_of(-0.8, -0.3, 0.0),
        "eps": one_of((None, 1e-3), (1e-6, 0.1), (0.3, 2.0)),
        "d": one_of(1.0, 3.0, math.inf),
        "weight_decay": DECAY,
        "maximize": EITHER,
    },
}
SHAPES = [(3, 4), (5,), (), (2, 1, 3), (1, 4), (4, 1), (2, 3, 2, 2)]


def numbers_of(state: Any) -> Any:
    return np.asarray(state.detach().numpy() if hasattr(state, "detach") else state)


class Side:
    """One library's parameters and optimizer."""

    def __init__(self, library: Any, new: Any, name: str, starts: list[Any], groups: list[Options]) -> None:
        self.new, self.make, self.groups = new, getattr(library, name), groups
        self.parameters = [new.tensor(start).requires_grad_() for start in starts]
        self.begin()

    def begin(self) -> None:
        half = len(self.parameters) // 2
        halves = self.parameters[:half], self.parameters[half:]
        self.optimizer = self.make(
            [{"params": xs, **self.groups[i + 1]} for i, xs in enumerate(halves)], **self.groups[0]
        )

    def step(self, gradients: list[Any]) -> None:
        for x, g in zip(self.parameters, gradients, strict=True):
            x.grad = None if g is None else self.new.tensor(g)
        self.optimizer.step()

    def load_anew(self) -> None:
        state = copy.deepcopy(self.optimizer.state_dict())
        self.begin()
        self.optimizer.load_state_dict(state)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", CHOICES)
def test_steps_with_random_options_are_pytorchs(name: str, seed: int) -> None:
    draw, normal = random.Random(f"{name} {seed}"), np.random.default_rng(seed)
    choices = CHOICES[name]
    common = {key: choose(draw) for key, choose in choices.items() if draw.random() < 0.8}
    if common.get("nesterov"):
        common |= {"momentum": 0.9, "dampening": 0}
    if common.get("centered"):
        common["alpha"] = 0.9  # with 0, the root of what rounding leaves of 0 is taken
    own: list[str] = [key for key in ("lr", "weight_decay", "eps", "maximize") if key in choices]
    first, second = ({key: choices[key](draw) for key in own if draw.random() < 0.3} for _ in range(2))
    groups: list[Options] = [common, first, second]
    starts = [normal.standard_normal(shape) for shape in SHAPES]
    ours = Side(nn.optim, tensor, name, starts, groups)
    theirs = Side(torch.optim, torch, name, starts, groups)
    is_sparse = draw.random() < 0.5
    for number in range(12):
        gradients = [
            None
            if draw.random() < 0.1 * is_sparse
            else normal.standard_normal(shape) * (draw.random() > 0.15 * is_sparse)
            for shape in SHAPES
        ]
        rate = draw.choice([0.5, 2.0])
        for side in (ours, theirs):
            if number == 5:
                side.load_anew()
            if number == 8:
                side.optimizer.param_groups[0]["lr"] *= rate
            side.step(gradients)
    rtol = 1e-7 if name == "NAdam" else 1e-9  # its product of shares is a single number
    for x, y in zip(ours.parameters, theirs.parameters, strict=True):
        np.testing.assert_allclose(
            numbers_of(x), numbers_of(y), rtol=rtol, atol=1e-11, err_msg=f"{groups} {tuple(x.shape)}"
        )
        held, expected = ours.optimizer.state[x], theirs.optimizer.state[y]
        for key in expected:
            if expected[key] is not None:
                np.testing.assert_allclose(
                    numbers_of(held[key]), numbers_of(expected[key]), rtol=1e-6, atol=1e-11, err_msg=key
                )
