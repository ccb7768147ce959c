"""Parametrizations: values, gradients and state dicts are PyTorch's; a parameter stays the object it is."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.utils import parametrizations, parametrize
from scopes import new_dispose_scope, statistics
from tensor import Tensor
from tests.nn.against import assert_trains_alike


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).T

    def right_inverse(self, x: Any) -> Any:
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return 2 * x


class Halves(nn.Module):
    def forward(self, upper: Any, lower: Any) -> Any:
        return tensor.concat([upper, lower])

    def right_inverse(self, x: Any) -> Any:
        return x[:1].clone(), x[1:].clone()


@pytest.mark.parametrize(
    ("norm", "options"),
    [
        ("weight_norm", {}),
        ("weight_norm", {"dim": 1}),
        ("weight_norm", {"dim": None}),
        ("weight_norm", {"name": "bias"}),
        ("spectral_norm", {}),
        ("spectral_norm", {"n_power_iterations": 3, "dim": 1}),
        ("spectral_norm", {"name": "bias"}),
    ],
)
def test_outputs_gradients_and_states_are_pytorchs(norm: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    here: Any = getattr(parametrizations, norm)(nn.Linear(4, 3), **options)
    there = getattr(torch.nn.utils.parametrizations, norm)(torch.nn.Linear(4, 3), **options)
    assert_trains_alike(here, there)


def test_the_parameter_becomes_the_original_and_is_restored() -> None:
    layer = nn.Linear(3, 3)
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert layer.parametrizations.weight.original is weight
    assert weight.tolist() == weight.triu().tolist()
    computed = layer.weight
    assert (computed == computed.T).all()
    layer(tensor.ones((2, 3))).sum().backward()
    assert weight.grad is not None
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight is weight
    assert weight.tolist() == computed.tolist()
    assert [name for name, _ in layer.named_modules()] == [""]
    assert not parametrize.is_parametrized(layer)


def test_several_are_applied_one_after_the_other() -> None:
    layer = nn.Linear(3, 3)
    before = layer.weight.clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.register_parametrization(layer, "weight", Symmetric())
    doubled = 2 * before
    assert layer.weight.tolist() == (doubled.triu() + doubled.triu(1).T).tolist()
    assert len(layer.parametrizations.weight) == 2
    assert isinstance(layer.parametrizations["weight"][1], Symmetric)
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.tolist() == before.tolist()


def test_removal_gives_back_an_original_of_another_shape() -> None:
    class Square(nn.Module):
        def forward(self, x: tensor.Tensor) -> tensor.Tensor:
            return x @ x.T

        def right_inverse(self, x: tensor.Tensor) -> tensor.Tensor:
            return x[:, :2]

    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Square())
    original = layer.parametrizations.weight.original
    values = original.tolist()
    assert layer.weight.shape == (3, 3)
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is original
    assert layer.weight.tolist() == values


def test_an_assigned_value_passes_through_the_inverse() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    layer.weight = tensor.ones((3, 3))
    assert layer.parametrizations.weight.original.tolist() == tensor.ones((3, 3)).triu().tolist()
    assert layer.weight.tolist() == tensor.ones((3, 3)).tolist()
    with pytest.raises(RuntimeError, match="Doubled has none"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled()).weight = tensor.ones(
            (2, 2)
        )


def test_a_tensor_can_be_made_of_several_and_buffers_too() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 3), "weight", Halves())
    assert {name: x.shape for name, x in layer.named_parameters()} == {
        "bias": (3,),
        "parametrizations.weight.original0": (1, 2),
        "parametrizations.weight.original1": (2, 2),
    }
    values = layer.weight.tolist()
    with pytest.raises(ValueError, match="requires one original tensor"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert parametrize.remove_parametrizations(layer, "weight").weight.tolist() == values
    assert isinstance(layer.weight, nn.Parameter)
    norm = nn.BatchNorm1d(2)
    parametrize.register_parametrization(norm, "running_mean", Doubled())
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert "parametrizations.running_mean.original" in norm.state_dict()
    assert [name for name, _ in norm.named_parameters()] == ["weight", "bias"]


def test_computed_parameter_belongs_to_the_scope_and_ends_with_it() -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    live = statistics.live_count
    with new_dispose_scope() as scope:
        weight = layer.weight
        assert weight in scope
    assert weight.is_invalid
    del weight
    assert statistics.live_count == live
    assert isinstance(layer.weight, Tensor)


@pytest.mark.parametrize("make", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_parametrized_too(make: Any) -> None:
    layer = parametrizations.spectral_norm(nn.Linear(3, 2)).eval()
    other = make(layer)
    assert other.weight.tolist() == layer.weight.tolist()
    with tensor.no_grad():
        other.parametrizations.weight.original.mul_(0).add_(1)
    assert other.weight.tolist() != layer.weight.tolist()


def test_rows_of_a_transposed_convolution_are_those_of_its_outputs() -> None:
    layer = parametrizations.spectral_norm(nn.ConvTranspose2d(2, 5, 3))
    assert layer.state_dict()["parametrizations.weight.0._u"].shape == (5,)
    assert nn.utils.spectral_norm(nn.ConvTranspose2d(2, 5, 3)).weight_u.shape == (5,)


@pytest.mark.parametrize(
    ("inverse", "error", "says"),
    [
        (
            np.ones((2, 2)),
            TypeError,
            "Inverse.right_inverse must return a tensor or a tuple of tensors, not array",
        ),
        ((tensor.ones((2, 2)), np.ones(2)), TypeError, "a tuple of tensors"),
        (None, TypeError, "not None"),
        (tensor.ones((2, 2), dtype=tensor.float64), ValueError, "'weight', float32, not float64"),
        (tensor.ones((3,), dtype=tensor.int64), ValueError, "float32, not int64"),
        ((tensor.ones((2, 2), dtype=tensor.int64),), TypeError, "a Parameter of dtype int64 can't require"),
    ],
    ids=["array", "tuple", "none", "dtype", "shape", "integers"],
)
def test_an_inverse_that_does_not_fit_leaves_the_module_unchanged(
    inverse: Any, error: type[Exception], says: str
) -> None:
    class Inverse(nn.Module):
        def forward(self, *originals: Any) -> Any:
            return tensor.ones((2, 2))

        def right_inverse(self, x: Any) -> Any:
            return inverse

    layer = nn.Linear(2, 2)
    weight, values = layer.weight, layer.weight.tolist()
    with pytest.raises(error, match=says):
        parametrize.register_parametrization(layer, "weight", Inverse())
    assert layer.weight is weight
    assert weight.tolist() == values
    assert list(layer.state_dict()) == ["weight", "bias"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: parametrize.register_parametrization(nn.Linear(1, 1), "wait", Doubled()), "no parameter or"),
        (lambda: parametrize.register_parametrization(nn.Linear(1, 1), "in_features", Doubled()), "no param"),
        (
            lambda: parametrize.register_parametrization(nn.Linear(2, 1), "weight", nn.Flatten(0)),
            "unsafe=True",
        ),
        (lambda: parametrize.remove_parametrizations(nn.Linear(1, 1), "weight"), "no parametrization"),
        (lambda: parametrizations.spectral_norm(nn.Linear(1, 1), n_power_iterations=0), "at least 1"),
        (lambda: parametrizations.spectral_norm(nn.Linear(1, 1), "wait"), "no parameter 'wait'"),
    ],
)
def test_wrong_use_names_the_culprit(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
