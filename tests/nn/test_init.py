import math

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


def test_the_spread_is_what_the_papers_say():
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


def test_gains_are_pytorchs_and_an_unknown_activation_is_named():
    assert init.calculate_gain("tanh") == pytest.approx(5 / 3)
    assert init.calculate_gain("leaky_relu", 1.0) == 1.0
    with pytest.raises(ValueError, match="'swish'"):
        init.calculate_gain("swish")


def test_a_generator_repeats():
    a, b = (
        init.normal_(tensor.zeros((3,)), generator=tensor.Generator().manual_seed(1)).tolist()
        for _ in range(2)
    )
    assert a == b


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: init.xavier_uniform_(tensor.zeros((3,))), ValueError, r"two dimensions.*\(3,\)"),
        (lambda: init.eye_(tensor.zeros((3,))), ValueError, "matrix"),
        (lambda: init.orthogonal_(tensor.zeros((3,))), ValueError, "two dimensions"),
        (lambda: init.normal_(tensor.tensor([1])), TypeError, "int64"),
        (lambda: init.zeros_([0.0]), TypeError, "list"),
        (lambda: init.kaiming_uniform_(tensor.zeros((2, 2)), mode="fan"), ValueError, "'fan'"),
        (lambda: init.trunc_normal_(tensor.zeros((2,)), a=50.0, b=60.0), ValueError, "widen"),
    ],
)
def test_wrong_use_names_the_culprit(call, error, named):
    with pytest.raises(error, match=named):
        call()


def test_a_clone_does_not_see_what_is_filled_in():
    x = tensor.zeros((2,))
    clone = x.clone()
    init.ones_(x)
    assert clone.tolist() == [0.0, 0.0]
