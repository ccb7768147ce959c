import math
from functools import partial

import numpy as np
import pytest

import nn
import tensor
from nn import init


def test_fillers_return_the_tensor_and_record_nothing():
    weight = nn.Parameter(tensor.zeros((3, 4)))
    for fill in (
        init.uniform_,
        init.normal_,
        init.trunc_normal_,
        init.zeros_,
        init.ones_,
        init.eye_,
        init.xavier_uniform_,
        init.xavier_normal_,
        init.kaiming_uniform_,
        init.kaiming_normal_,
        init.orthogonal_,
    ):
        assert fill(weight) is weight
        assert weight.is_leaf
        assert weight.grad_fn is None
    assert init.constant_(weight, 2).sum().item() == 24.0


def spread(fill, shape=(300, 200), **options) -> tuple[float, float]:
    values = fill(tensor.zeros(shape), **options).numpy()
    return float(values.std()), float(abs(values).max())


def test_the_spread_equals_that_of_the_papers():
    assert spread(init.xavier_uniform_)[1] == pytest.approx(math.sqrt(6 / 500), rel=0.01)
    assert spread(init.xavier_normal_)[0] == pytest.approx(math.sqrt(2 / 500), rel=0.02)
    assert spread(init.kaiming_uniform_, nonlinearity="relu")[1] == pytest.approx(
        math.sqrt(6 / 200), rel=0.01
    )
    assert spread(init.kaiming_normal_, mode="fan_out", nonlinearity="relu")[0] == pytest.approx(
        math.sqrt(2 / 300), rel=0.02
    )
    assert spread(init.trunc_normal_, a=-1.0, b=1.0)[1] <= 1.0


def test_all_dimensions_behind_the_second_count_as_places():
    assert spread(init.xavier_uniform_, (30, 20, 5, 2))[1] == pytest.approx(math.sqrt(6 / 500), rel=0.02)


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3), (4, 3, 2)])
def test_an_orthogonal_matrix_is_orthogonal(shape):
    q = init.orthogonal_(tensor.zeros(shape), gain=2.0).numpy().reshape(shape[0], -1)
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


@pytest.mark.parametrize("places", [(3,), (5, 4), (3, 1, 2)])
@pytest.mark.parametrize(("outputs", "inputs", "groups"), [(4, 4, 1), (2, 3, 1), (6, 2, 3), (6, 3, 3)])
def test_dirac_convolution_is_the_identity_in_each_group(outputs, inputs, groups, places):
    weight = init.dirac_(tensor.ones((outputs, inputs, *places)), groups).numpy()
    expected = np.zeros_like(weight)
    for out in range(outputs):
        if out % (outputs // groups) < inputs:
            expected[(out, out % (outputs // groups), *(size // 2 for size in places))] = 1
    np.testing.assert_array_equal(weight, expected)


def test_a_dirac_convolution_returns_its_input():
    layer = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
    init.dirac_(layer.weight, groups=2)
    x = tensor.randn(2, 4, 5, 6)
    np.testing.assert_array_equal(layer(x).detach().numpy(), x.numpy())


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_a_dirac_convolution_may_be_empty(shape):
    assert init.dirac_(tensor.zeros(shape)).shape == shape


@pytest.mark.parametrize(("sparsity", "zeros"), [(0, 0), (0.1, 41), (0.5, 201), (1, 401)])
def test_a_sparse_matrix_has_its_zeros_in_each_column_and_is_normal_elsewhere(sparsity, zeros):
    values = init.sparse_(tensor.ones((401, 50)), sparsity, std=2.0).numpy()
    assert ((values == 0).sum(axis=0) == zeros).all()
    if 0 < zeros < 401:
        assert values[values != 0].std() == pytest.approx(2, rel=0.05)
        assert len({tuple(column) for column in (values == 0).T}) == 50


def test_gains_are_pytorchs_and_an_unknown_activation_is_named():
    assert init.calculate_gain("tanh") == pytest.approx(5 / 3)
    assert init.calculate_gain("leaky_relu", 1.0) == 1.0
    with pytest.raises(ValueError, match="'swish'"):
        init.calculate_gain("swish")


def test_a_generator_repeats():
    for fill in (init.normal_, partial(init.sparse_, sparsity=0.5)):
        a, b = (
            fill(tensor.zeros((3, 4)), generator=tensor.Generator().manual_seed(1)).tolist() for _ in range(2)
        )
        assert a == b


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: init.xavier_uniform_(tensor.zeros((3,))), ValueError, r"\(out, in, \*\), not \(3,\)"),
        (lambda: init.eye_(tensor.zeros((3,))), ValueError, "matrix"),
        (lambda: init.orthogonal_(tensor.zeros((3,))), ValueError, "two dimensions"),
        (lambda: init.dirac_(tensor.zeros((3, 3))), ValueError, r"3, 4 or 5 dimensions.*\(3, 3\)"),
        (lambda: init.dirac_(tensor.zeros((4, 2, 3)), 3), ValueError, "divide 4, .* and 3 does not"),
        (lambda: init.dirac_(tensor.zeros((4, 2, 3)), 0), ValueError, "divide 4, .* and 0 does not"),
        (lambda: init.sparse_(tensor.zeros((3,)), 0.5), ValueError, r"matrix.*\(3,\)"),
        (lambda: init.sparse_(tensor.zeros((3, 3)), 1.5), ValueError, "sparsity.*1.5"),
        (lambda: init.normal_(tensor.tensor([1])), TypeError, "int64"),
        (lambda: init.zeros_([0.0]), TypeError, "list"),
        (lambda: init.kaiming_uniform_(tensor.zeros((2, 2)), mode="fan"), ValueError, "'fan'"),
        (lambda: init.trunc_normal_(tensor.zeros((2,)), a=50.0, b=60.0), ValueError, "widen"),
    ],
)
def test_wrong_use_names_the_culprit(call, error, named):
    with pytest.raises(error, match=named):
        call()


def test_a_clone_does_not_see_a_later_fill():
    x = tensor.zeros((2,))
    clone = x.clone()
    init.ones_(x)
    assert clone.tolist() == [0.0, 0.0]
