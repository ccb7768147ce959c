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


def test_the_norm_of_tensors_is_that_of_one_vector():
    tensors = [tensor.tensor([3.0, 0.0]), tensor.tensor([[-4.0]]), tensor.zeros((0,))]
    assert utils.get_total_norm(tensors).item() == 5.0
    assert utils.get_total_norm(iter(tensors), 1).item() == 7.0
    assert utils.get_total_norm(tensors[:2], float("inf")).item() == 4.0
    assert utils.get_total_norm(tensors[1]).shape == ()
    assert utils.get_total_norm([]).item() == 0.0
    assert utils.get_total_norm(tensor.tensor([3, 4])).item() == 5.0
    assert utils.get_total_norm([tensor.tensor([3 + 4j])]).dtype == np.float32
    assert not utils.get_total_norm([nn.Parameter(tensor.ones((2,)))]).requires_grad
    with pytest.raises(TypeError, match=r"model.parameters\(\)"):
        utils.get_total_norm(nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="nan"):
        utils.get_total_norm([tensor.tensor([math.nan])], error_if_nonfinite=True)


def test_a_norm_beyond_half_precision_still_scales():
    x = nn.Parameter(tensor.zeros((4,), dtype="float16"))
    x.grad = tensor.full((4,), 60_000.0, dtype="float16")
    assert utils.clip_grad_norm_([x], 2.0).item() == math.inf
    np.testing.assert_allclose(x.grad.numpy(), 1.0, rtol=2e-3)
    x.grad.fill_(300.0)
    assert utils.get_total_norm(x.grad).item() == 600.0


def test_gradients_are_scaled_by_a_norm_that_is_given():
    a, b, without = *parameters([3.0], [0.0, 4.0]), nn.Parameter(tensor.ones((1,)))
    utils.clip_grads_with_norm_([a, b, without], 1.0, tensor.tensor(10.0))
    np.testing.assert_allclose([*a.grad.tolist(), *b.grad.tolist()], [0.3, 0.0, 0.4], rtol=1e-5)
    utils.clip_grads_with_norm_([a, b], 1.0, tensor.tensor(0.5))
    np.testing.assert_allclose([*a.grad.tolist(), *b.grad.tolist()], [0.3, 0.0, 0.4], rtol=1e-5)


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
    with pytest.raises(ValueError, match=r"must have shape \(9,\), .*not \(8,\)"):
        utils.vector_to_parameters(tensor.zeros((8,)), layer.parameters())
    assert layer.weight.tolist() == before
    with pytest.raises(ValueError, match="no parameters"):
        utils.parameters_to_vector([])


def test_clipping_takes_foreach_which_has_no_effect():
    x = nn.Parameter(tensor.tensor([1.0, 1.0]))
    (x * tensor.tensor([3.0, 4.0])).sum().backward()
    assert utils.get_total_norm([x.grad], foreach=False).item() == 5.0
    utils.clip_grads_with_norm_([x], 10.0, tensor.tensor(5.0), foreach=True)
    assert utils.clip_grad_norm_([x], 10.0, foreach=True).item() == 5.0
    assert utils.clip_grad_norm_([x], 10.0, norm_type="inf").item() == 4.0
    utils.clip_grad_value_([x], 3.5, foreach=True)
    assert x.grad.tolist() == [3.0, 3.5]
