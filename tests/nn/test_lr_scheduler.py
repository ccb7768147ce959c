import math

import pytest

import nn
import tensor
from nn.optim import lr_scheduler


def optimizer() -> nn.optim.Optimizer:
    a, b = (nn.Parameter(tensor.ones((1,))) for _ in range(2))
    return nn.optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.5)


@pytest.mark.parametrize(
    ("make", "factor"),
    [
        (lambda o: lr_scheduler.StepLR(o, 2, 0.1), lambda e: 0.1 ** (e // 2)),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda e: 0.9**e),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 5), lambda e: (1 + math.cos(math.pi * e / 5)) / 2),
        (lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
    ],
)
def test_each_group_follows_the_formula(make, factor):
    held = optimizer()
    schedule = make(held)
    for epoch in range(6):
        assert schedule.get_last_lr() == pytest.approx([0.5 * factor(epoch), factor(epoch)])
        assert [group["lr"] for group in held.param_groups] == schedule.get_last_lr()
        schedule.step()


def test_a_saved_schedule_goes_on_where_it_was():
    first, second = (lr_scheduler.StepLR(optimizer(), 1, 0.5) for _ in range(2))
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.get_last_lr() == [0.25, 0.5]


def test_periods_are_at_least_one_epoch():
    with pytest.raises(ValueError, match="step_size"):
        lr_scheduler.StepLR(optimizer(), 0)
    with pytest.raises(ValueError, match="T_max"):
        lr_scheduler.CosineAnnealingLR(optimizer(), 0)
