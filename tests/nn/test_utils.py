import math

import numpy as np
import pytest

import nn
import tensor
from nn import utils


def parameters(*grads: list[float]) -> list[nn.Parameter]:
    found = []
    for grad in grads:
        x = nn.Parameter(tensor.zeros((len(grad),)))
        x.grad = tensor.tensor(grad)
        found.append(x)
    return found


def test_gradients_are_scaled_together():
    a, b = parameters([3.0], [0.0, 4.0])
    assert utils.clip_grad_norm_([a, b, nn.Parameter(tensor.ones((1,)))], 1.0).item() == 5.0
    np.testing.assert_allclose([*a.grad.tolist(), *b.grad.tolist()], [0.6, 0.0, 0.8], rtol=1e-5)


def test_small_gradients_stay():
    (a,) = parameters([3.0])
    utils.clip_grad_norm_(a, 10.0)
    assert a.grad.tolist() == [3.0]


def test_gradients_are_clipped_by_norms_of_other_orders():
    assert utils.clip_grad_norm_(parameters([3.0], [-4.0]), 100.0, float("inf")).item() == 4.0
    assert utils.clip_grad_norm_(parameters([3.0], [-4.0]), 100.0, 1).item() == 7.0
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_a_norm_that_is_not_finite_is_an_error_on_request():
    (a,) = parameters([1.0, float("inf")])
    with pytest.raises(RuntimeError, match="inf"):
        utils.clip_grad_norm_(a, 1.0, error_if_nonfinite=True)
    assert a.grad.tolist() == [1.0, math.inf]


def test_values_are_cut():
    (a,) = parameters([-3.0, 0.2, 7.0])
    utils.clip_grad_value_([a], 0.5)
    np.testing.assert_allclose(a.grad.numpy(), [-0.5, 0.2, 0.5])


def test_parameters_to_a_vector_and_back():
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    vector = utils.parameters_to_vector(first.parameters())
    utils.vector_to_parameters(vector, second.parameters())
    assert second.weight.tolist() == first.weight.tolist()
    assert second.bias.tolist() == first.bias.tolist()
    (vector * 2).sum().backward()
    assert first.bias.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_vector_of_another_length_changes_nothing():
    layer = nn.Linear(2, 3)
    before = layer.weight.tolist()
    with pytest.raises(ValueError, match=r"9 elements.*\(8,\)"):
        utils.vector_to_parameters(tensor.zeros((8,)), layer.parameters())
    assert layer.weight.tolist() == before
    with pytest.raises(ValueError, match="no parameters"):
        utils.parameters_to_vector([])
