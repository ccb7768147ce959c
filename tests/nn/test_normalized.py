"""Weights that are divided by a norm: their values and states are PyTorch's, and nothing is left of them."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import utils
from scopes import new_dispose_scope
from tests.nn.against import assert_trains_alike

NORMS = {"weight_norm": utils.remove_weight_norm, "spectral_norm": utils.remove_spectral_norm}


def normalized(norm: str, **options: Any) -> nn.Linear:
    return getattr(utils, norm)(nn.Linear(4, 3), **options)


@pytest.mark.parametrize(
    ("norm", "options"),
    [
        ("weight_norm", {}),
        ("weight_norm", {"dim": 1}),
        ("weight_norm", {"dim": None}),
        ("weight_norm", {"name": "bias"}),
        ("spectral_norm", {}),
        ("spectral_norm", {"n_power_iterations": 3, "dim": 1}),
    ],
)
def test_outputs_gradients_and_states_are_pytorchs(norm, options):
    torch = pytest.importorskip("torch")
    here = normalized(norm, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch has two of each
        there = getattr(torch.nn.utils, norm)(torch.nn.Linear(4, 3), **options)
    assert_trains_alike(here, there)


def test_weight_norm_changes_no_output():
    layer = nn.Linear(4, 3)
    before = layer.weight.tolist()
    utils.weight_norm(layer)
    np.testing.assert_allclose(layer.weight.detach().numpy(), before, rtol=1e-6)


def test_the_largest_singular_value_becomes_1():
    tensor.manual_seed(0)
    layer = normalized("spectral_norm", n_power_iterations=1000)
    assert np.linalg.norm(layer.weight.detach().numpy(), 2) == pytest.approx(1, rel=1e-4)


def test_a_weight_of_three_dimensions_is_a_matrix():
    tensor.manual_seed(0)
    module = nn.Module()
    module.kernel = nn.Parameter(tensor.randn(2, 3, 4))
    utils.spectral_norm(module, "kernel", n_power_iterations=1000, dim=1)
    found = np.moveaxis(module.kernel.detach().numpy(), 1, 0).reshape(3, 8)
    assert np.linalg.norm(found, 2) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("norm", NORMS)
def test_removed_the_same_parameter_has_the_computed_values(norm, window):
    layer = nn.Linear(4, 3)
    weight, live = layer.weight, window().live_count
    getattr(utils, norm)(layer).eval()
    expected = layer.weight.tolist()
    assert NORMS[norm](layer) is layer
    assert layer.weight is weight
    assert type(layer) is nn.Linear
    np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-6)
    assert window().live_count == live


@pytest.mark.parametrize("norm", NORMS)
def test_a_forward_pass_leaves_its_output_alone(norm, window):
    layer = normalized(norm)
    x = tensor.ones((2, 4))
    live = window().live_count
    with new_dispose_scope() as scope:
        layer(x).sum().backward()
        assert len(scope) == 0
    out = layer(x)
    assert window().live_count == live + 1 + len(list(layer.parameters()))  # and gradients
    del out


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: x.eval().valid()]
)
def test_copies_compute_as_well_and_share_nothing(norm, duplicate):
    layer = normalized(norm)
    copied = duplicate(layer)
    layer.eval()
    copied.eval()
    assert repr(copied) == repr(layer) == "Linear(in_features=4, out_features=3, bias=True)"
    x = tensor.ones((2, 4))
    assert copied(x).tolist() == layer(x).tolist()
    with tensor.no_grad():
        next(iter(copied.parameters())).fill_(0.25)
    assert next(iter(layer.parameters())).tolist() != next(iter(copied.parameters())).tolist()
    assert type(NORMS[norm](copied)) is nn.Linear


def test_a_sequence_of_layers_computes_the_weight_too():
    layer = normalized("weight_norm")
    model = nn.Sequential(layer, nn.ReLU())
    with tensor.no_grad():
        layer.weight_g.fill_(0.0)
    layer.bias.detach().fill_(1.0)
    assert model(tensor.ones((1, 4))).tolist() == [[1.0, 1.0, 1.0]]


def test_vectors_are_improved_once_for_a_checkpoint():
    layer = normalized("spectral_norm")
    again = copy.deepcopy(layer)
    x = tensor.ones((2, 4), requires_grad=True)
    tensor.autograd.checkpoint(layer, x).sum().backward()
    again(x).sum().backward()
    assert layer.weight_u.tolist() == again.weight_u.tolist()
    assert layer.weight_orig.grad.tolist() == again.weight_orig.grad.tolist()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (
            lambda: utils.weight_norm(nn.Linear(2, 2), "kernel"),
            r"no parameter 'kernel': pass one of \['weight', 'bias'\] as name",
        ),
        (lambda: utils.weight_norm(nn.ReLU()), "ReLU has no parameter 'weight', and no other"),
        (lambda: utils.weight_norm(nn.Linear(2, 2), dim=2), "dim must be a dimension of 'weight'.*not 2"),
        (lambda: utils.spectral_norm(normalized("weight_norm")), "already computed by weight_norm"),
        (lambda: utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), "at least 1, not 0"),
        (lambda: utils.remove_weight_norm(nn.Linear(2, 2)), "'weight' of this Linear is not computed"),
        (lambda: utils.remove_spectral_norm(normalized("weight_norm")), "not computed by spectral_norm"),
    ],
)
def test_wrong_use_names_the_culprit(call, named):
    with pytest.raises(ValueError, match=named):
        call()


def test_a_computed_parameter_cannot_be_assigned():
    layer = normalized("weight_norm")
    for value in (tensor.ones((3, 4)), nn.Parameter(tensor.ones((3, 4)))):
        with pytest.raises(AttributeError, match="computed by weight_norm"):
            layer.weight = value
    assert "weight" not in layer.state_dict()
