"""Each derivative of `nn`, first and second, against differences, and of what is built of them."""

from __future__ import annotations

import pytest

import nn
import tensor
from nn import functional as F
from tensor.autograd import gradcheck, gradgradcheck
from tests.nn.samples import SAMPLES
from tests.tensor.gradients import (
    Sample,
    arrays_of,
    check,
    check_twice,
    rules_of,
    rules_used,
    sampled,
)


@pytest.mark.parametrize(("sample", "seed"), sampled(SAMPLES))
def test_gradients_equal_finite_differences_in_each_layout(sample: Sample, seed: int) -> None:
    check(sample.function, arrays_of(sample, seed))


@pytest.mark.parametrize(("sample", "seed"), sampled(SAMPLES))
def test_second_derivatives_equal_finite_differences_of_the_first(sample: Sample, seed: int) -> None:
    check_twice(sample.function, arrays_of(sample, seed))


def test_each_sample_uses_the_rule_that_it_is_named_after() -> None:
    for seed, sample in enumerate(SAMPLES):
        assert sample.rule in rules_used(sample, seed), (sample, seed)


def test_no_rule_is_without_a_sample() -> None:
    assert set(rules_of("nn")) - {sample.rule for sample in SAMPLES} == set()


@pytest.mark.parametrize("checker", [gradcheck, gradgradcheck])
def test_a_model_is_checked_by_its_own_parameters(checker) -> None:
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2)).double()
    x = tensor.randn(5, 3, dtype=tensor.float64)
    before = {name: value.tolist() for name, value in model.state_dict().items()}
    assert checker(lambda *_: F.mse_loss(model(x), x[:, :2]), tuple(model.parameters()))
    assert {name: value.tolist() for name, value in model.state_dict().items()} == before
    assert all(parameter.grad is None for parameter in model.parameters())
