"""Step sizes and momenta are PyTorch's over a long run, and so are state dicts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import tensor

torch = pytest.importorskip("torch")

EPOCHS = 120

Make = Callable[[Any, Any], Any]

CASES: dict[str, Make] = {
    "StepLR": lambda s, o: s.StepLR(o, 7, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 10, 10, 60], 0.5),
    "MultiStepLR from 0": lambda s, o: s.MultiStepLR(o, [0, 5]),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.97),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.3, 9),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.25, 0.75, 30),
    "LinearLR, defaults": lambda s, o: s.LinearLR(o),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 100, 2.5),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 20, 0.01),
    "CosineAnnealingLR, once": lambda s, o: s.CosineAnnealingLR(o, EPOCHS),
    "warm restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 0.01),
    "warm restarts, equal": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9 if e % 2 else 1.02),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.1, [1.0, 2.0], 7, 5),
    "CyclicLR, halved": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 7, mode="triangular2"),
    "CyclicLR, exponential": lambda s, o: s.CyclicLR(
        o, 0.1, 1.0, 4, mode="exp_range", gamma=0.95, cycle_momentum=False
    ),
    "CyclicLR, own": lambda s, o: s.CyclicLR(
        o, 0.1, 1.0, 4, scale_fn=lambda x: math.sqrt(x), scale_mode="iterations"
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [1.0, 2.0], total_steps=EPOCHS),
    "OneCycleLR, linear": lambda s, o: s.OneCycleLR(
        o, 1.0, epochs=12, steps_per_epoch=10, anneal_strategy="linear", pct_start=0.2, div_factor=3.0
    ),
    "OneCycleLR, threefold": lambda s, o: s.OneCycleLR(o, 1.0, EPOCHS, three_phase=True, final_div_factor=10),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 33)]
    ),
    "sequence": lambda s, o: s.SequentialLR(
        o,
        [s.LinearLR(o, 0.1, 1.0, 8), s.CosineAnnealingLR(o, 20), s.ExponentialLR(o, 0.9), s.StepLR(o, 3)],
        [8, 30, 60],
    ),
    "sequence with restarts": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 10), s.CosineAnnealingWarmRestarts(o, 6)], [10]
    ),
    "sequence in a sequence": lambda s, o: s.SequentialLR(
        o,
        [
            s.SequentialLR(o, [s.ConstantLR(o, 0.5, 3), s.LinearLR(o, 0.5, 1.0, 9)], [5]),
            s.PolynomialLR(o, 90),
        ],
        [40],
    ),
    "chained in a sequence": lambda s, o: s.SequentialLR(
        o, [s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)]), s.StepLR(o, 5)], [7]
    ),
    "two at once": lambda s, o: (s.StepLR(o, 5, 0.5), s.ExponentialLR(o, 0.99))[1],
}


def optimizers(name: str = "SGD", **options: Any) -> tuple[Any, Any]:
    """Return the same optimizer of two groups here and in PyTorch."""
    ours = [nn.Parameter(tensor.ones((1,))) for _ in range(2)]
    theirs = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    return tuple(
        getattr(lib, name)([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.5, **options)
        for lib, (a, b) in ((nn.optim, ours), (torch.optim, theirs))
    )


def pair(make: Make, name: str = "SGD", **options: Any) -> tuple[Any, Any, Any, Any]:
    ours, theirs = optimizers(name, **options)
    here = make(nn.optim.lr_scheduler, ours)
    return ours, here, theirs, make(torch.optim.lr_scheduler, theirs)


def seen(optimizer: Any, schedule: Any) -> list[Any]:
    groups = [(g["lr"], g.get("momentum"), g.get("betas")) for g in optimizer.param_groups]
    return [*groups, *schedule.get_last_lr()]


def numbers(found: list[Any]) -> Any:
    flat = np.array([x for each in found for x in np.ravel(np.array(each, dtype=object))], dtype=object)
    return np.array([y for x in flat if x is not None for y in np.ravel(x)], float)


@pytest.fixture(autouse=True)
def without_warnings():
    """PyTorch warns about schedules that step without their optimizers, and asks for a list of no tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("name", "options"), [("SGD", {"momentum": 0.9}), ("Adam", {})])
def test_step_sizes_are_pytorchs(case, name, options):
    ours, here, theirs, there = pair(CASES[case], name, **options)
    found, expected = [], []
    for _ in range(EPOCHS):
        found.append(numbers(seen(ours, here)))
        expected.append(numbers(seen(theirs, there)))
        here.step()
        there.step()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("case", CASES)
def test_a_schedule_continues_from_a_state_of_pytorch(case):
    ours, here, theirs, there = pair(CASES[case], momentum=0.9)
    for _ in range(13):
        there.step()
    for group, other in zip(ours.param_groups, theirs.param_groups, strict=True):
        group |= {key: value for key, value in other.items() if key != "params"}
    here.load_state_dict(there.state_dict())
    for _ in range(50):
        here.step()
        there.step()
        np.testing.assert_allclose(numbers(seen(ours, here)), numbers(seen(theirs, there)), rtol=1e-11)


@pytest.mark.parametrize("case", CASES)
def test_the_entries_of_a_state_are_pytorchs(case):
    _, here, _, there = pair(CASES[case], momentum=0.9)
    here.step()
    there.step()
    assert set(there.state_dict()) - set(here.state_dict()) <= {"_get_lr_called_within_step", "_is_initial"}
    assert set(here.state_dict()) <= set(there.state_dict())
    counts = {key: value for key, value in here.state_dict().items() if type(value) is int}
    assert counts == {key: there.state_dict()[key] for key in counts}


PLATEAUS: list[dict[str, Any]] = [
    {},
    {"mode": "max", "patience": 2, "factor": 0.5},
    {"patience": 1, "threshold": 0.05, "threshold_mode": "abs", "cooldown": 3},
    {"patience": 0, "min_lr": [0.2, 0.01], "factor": 0.7},
    {"mode": "max", "patience": 1, "threshold": 0.05, "threshold_mode": "abs", "eps": 0.1},
]


@pytest.mark.parametrize("options", PLATEAUS)
def test_step_sizes_on_a_plateau_are_pytorchs(options):
    ours, here, theirs, there = pair(lambda s, o: s.ReduceLROnPlateau(o, **options))
    random = np.random.default_rng(0)
    for epoch in range(EPOCHS):
        figure = 1 / (1 + epoch) + 0.1 * random.standard_normal()
        if epoch == 40:
            here.load_state_dict(there.state_dict())
        here.step(figure)
        there.step(figure)
        assert seen(ours, here) == seen(theirs, there)
        assert (here.best, here.num_bad_epochs) == (there.best, there.num_bad_epochs)


def test_restarts_at_fractions_of_epochs_are_pytorchs():
    for factor in (1, 2):
        ours, here, theirs, there = pair(lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, factor, 0.1))  # noqa: B023
        for step in range(80):
            here.step(step / 4)
            there.step(step / 4)
            np.testing.assert_allclose(numbers(seen(ours, here)), numbers(seen(theirs, there)), rtol=1e-12)


@pytest.mark.parametrize("case", ["StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "PolynomialLR"])
def test_a_step_to_a_given_epoch_is_pytorchs(case):
    ours, here, theirs, there = pair(CASES[case])
    for epoch in (5, 20, 2):
        here.step(epoch)
        there.step(epoch)
        np.testing.assert_allclose(numbers(seen(ours, here)), numbers(seen(theirs, there)), rtol=1e-12)
