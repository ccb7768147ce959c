"""What schedulers refuse, keep and load. Their step sizes: see `test_lr_scheduler_against_torch`."""

import math

import pytest

import nn
import tensor
from nn.optim import lr_scheduler


def optimizer(**options) -> nn.optim.Optimizer:
    a, b = (nn.Parameter(tensor.ones((1,))) for _ in range(2))
    return nn.optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.5, **options)


@pytest.mark.parametrize(
    ("make", "factor"),
    [
        (lambda o: lr_scheduler.StepLR(o, 2, 0.1), lambda e: 0.1 ** (e // 2)),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda e: 0.9**e),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 5), lambda e: (1 + math.cos(math.pi * e / 5)) / 2),
        (lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
        (lambda o: lr_scheduler.PolynomialLR(o, 5, 2.0), lambda e: max(0, 1 - e / 5) ** 2),
        (lambda o: lr_scheduler.MultiStepLR(o, [1, 4], 0.5), lambda e: 0.5 ** ((e >= 1) + (e >= 4))),
    ],
)
def test_each_group_follows_the_formula(make, factor):
    held = optimizer()
    schedule = make(held)
    for epoch in range(6):
        assert schedule.get_last_lr() == pytest.approx([0.5 * factor(epoch), factor(epoch)])
        assert [group["lr"] for group in held.param_groups] == schedule.get_last_lr()
        schedule.step()


def test_a_sequence_that_begins_inside_a_sequence_begins_with_its_first_schedule():
    held = optimizer()
    constant = lr_scheduler.ConstantLR(held, 0.1, 10)
    inner = lr_scheduler.SequentialLR(
        held, [lr_scheduler.ExponentialLR(held, 0.5), lr_scheduler.ConstantLR(held, 0.2, 10)], [2]
    )
    schedule = lr_scheduler.SequentialLR(held, [constant, inner], [2])
    rates = []
    for _ in range(6):
        rates.append(schedule.get_last_lr()[1])
        assert [group["lr"] for group in held.param_groups] == schedule.get_last_lr()
        schedule.step()
    assert rates == pytest.approx([0.1, 0.1, 1.0, 0.5, 0.2, 0.2])


def test_a_saved_schedule_continues_where_it_stopped():
    held = optimizer()
    first = lr_scheduler.StepLR(held, 1, 0.5)
    first.step()
    other = optimizer()
    second = lr_scheduler.StepLR(other, 1, 0.1)
    other.load_state_dict(held.state_dict())
    second.load_state_dict(first.state_dict())
    assert second.get_last_lr() == [0.25, 0.5]
    second.step()
    assert [group["lr"] for group in other.param_groups] == [0.125, 0.25]


def test_a_schedule_continues_with_a_loaded_optimizer():
    held = optimizer()
    first = lr_scheduler.ExponentialLR(held, 0.5)
    first.step()
    other = optimizer()
    other.load_state_dict(held.state_dict())
    second = lr_scheduler.ExponentialLR(other, 0.5, last_epoch=first.last_epoch)
    assert (second.last_epoch, second.base_lrs) == (2, [0.5, 1.0])
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.ExponentialLR(optimizer(), 0.5, last_epoch=3)


class Halving:
    """A function with a state."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, epoch: int) -> float:
        self.calls += 1
        return 0.5**epoch


@pytest.mark.parametrize("kind", [lr_scheduler.LambdaLR, lr_scheduler.MultiplicativeLR])
def test_functions_stay_and_keep_their_attributes(kind):
    first, second = (kind(optimizer(), [Halving(), lambda epoch: 1.0]) for _ in range(2))
    first.step()
    saved = first.state_dict()
    assert [f and set(f) for f in saved["lr_lambdas"]] == [{"calls"}, None]
    second.load_state_dict(saved)
    assert second.lr_lambdas[0].calls == first.lr_lambdas[0].calls > 0
    assert "lr_lambdas" in saved


def test_a_user_function_scales_the_cycles():
    held = optimizer(momentum=0.9)
    schedule = lr_scheduler.CyclicLR(held, 0.0, 1.0, 1, 1, scale_fn=Halving(), scale_mode="iterations")
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 0.5]
    saved = schedule.state_dict()
    assert set(saved["_scale_fn_custom"]) == {"calls"}
    schedule.load_state_dict(saved)
    schedule.step()
    assert schedule.get_last_lr() == [0.0, 0.0]


def test_the_figure_of_a_plateau_may_be_a_tensor():
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer(), patience=0)
    for _ in range(2):
        schedule.step(tensor.tensor(1.0))
    assert schedule.get_last_lr() == pytest.approx([0.05, 0.1])


def test_a_step_that_fails_is_not_made():
    held = optimizer()
    schedule = lr_scheduler.OneCycleLR(held, 1.0, 2, cycle_momentum=False)
    for _ in range(2):
        schedule.step()
    before = schedule.get_last_lr()
    with pytest.raises(ValueError, match="2 steps, but this is step 3"):
        schedule.step()
    assert (schedule.last_epoch, schedule.get_last_lr()) == (2, before)


S = lr_scheduler


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda o: S.StepLR(o, 0), ValueError, "StepLR: step_size.*0"),
        (lambda o: S.StepLR([], 1), TypeError, "StepLR.*list"),
        (lambda o: S.LambdaLR([], lambda e: 1.0), TypeError, "LambdaLR.*list"),
        (
            lambda o: S.LambdaLR(o, [lambda e: 1.0]),
            ValueError,
            "lr_lambda must be .*2 parameter groups, not 1 values",
        ),
        (lambda o: S.MultiplicativeLR(o, 0.5), TypeError, "function of the epoch, not float"),
        (lambda o: S.CosineAnnealingLR(o, 0), ValueError, "T_max"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 2, 0), ValueError, "T_mult.*0"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 2).step(-1), ValueError, "at least 0, not -1"),
        (lambda o: S.ConstantLR(o, 0.0), ValueError, "factor.*above 0"),
        (lambda o: S.LinearLR(o, 0.0), ValueError, "start_factor.*above 0"),
        (lambda o: S.LinearLR(o, end_factor=1.5), ValueError, "end_factor.*1.5"),
        (lambda o: S.PolynomialLR(o, 0), ValueError, "total_iters"),
        (lambda o: S.ReduceLROnPlateau(o, factor=1.0), ValueError, "factor.*below 1"),
        (lambda o: S.ReduceLROnPlateau(o, "least"), ValueError, "mode.*'least'"),
        (lambda o: S.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold_mode.*'x'"),
        (lambda o: S.ReduceLROnPlateau(o, min_lr=[0.1]), ValueError, "min_lr must be one value"),
        (lambda o: S.CyclicLR(o, 0.1, 1.0, mode="square"), ValueError, "mode.*'square'"),
        (lambda o: S.OneCycleLR(o, 1.0), ValueError, "total_steps, or epochs"),
        (lambda o: S.OneCycleLR(o, 1.0, epochs=3), ValueError, "total_steps, or epochs"),
        (lambda o: S.OneCycleLR(o, 1.0, steps_per_epoch=3), ValueError, "total_steps, or epochs"),
        (lambda o: S.OneCycleLR(o, 1.0, epochs=0, steps_per_epoch=3), ValueError, "epochs.*0"),
        (lambda o: S.OneCycleLR(o, 1.0, 5, pct_start=3), ValueError, "pct_start.*3"),
        (lambda o: S.OneCycleLR(o, 1.0, 5, anneal_strategy="x"), ValueError, "anneal_strategy.*'x'"),
        (lambda o: S.ChainedScheduler([]), ValueError, "requires at least one scheduler"),
        (lambda o: S.ChainedScheduler([o]), TypeError, "scheduler 0 must be an LRScheduler, not SGD"),
        (lambda o: S.SequentialLR(o, [S.ReduceLROnPlateau(o)], []), ValueError, r"step\(loss\)"),
        (
            lambda o: S.SequentialLR(o, [S.StepLR(o, 1)], [3]),
            ValueError,
            "for 1 schedulers, milestones must hold 0 epochs",
        ),
        (lambda o: S.SequentialLR(optimizer(), [S.StepLR(o, 1)], []), ValueError, "another"),
        (lambda o: S.ChainedScheduler([S.StepLR(o, 1)]).step(3), TypeError, "omit the argument epoch"),
    ],
)
def test_wrong_use_names_the_culprit(make, error, named):
    with pytest.raises(error, match=named):
        make(optimizer(momentum=0.9))


def test_an_optimizer_without_momentum_can_not_cycle_it():
    held = nn.optim.Adagrad([nn.Parameter(tensor.ones((1,)))])
    with pytest.raises(ValueError, match=r"Adagrad.*cycle_momentum=False"):
        lr_scheduler.OneCycleLR(held, 1.0, 5)


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_restarts_that_are_told_their_epoch_go_on_as_if_never_interrupted(factor):
    def rates(schedule, count):
        found = []
        for _ in range(count):
            found += schedule.get_last_lr()
            schedule.step()
        return found

    expected = rates(lr_scheduler.CosineAnnealingWarmRestarts(optimizer(), 3, factor, 0.1), 30)
    for epoch in range(20):
        held = optimizer()
        for group in held.param_groups:
            group["initial_lr"] = group["lr"]
        schedule = lr_scheduler.CosineAnnealingWarmRestarts(held, 3, factor, 0.1, last_epoch=epoch)
        assert rates(schedule, 5) == pytest.approx(expected[2 * epoch + 2 : 2 * epoch + 12])
