"""Activations and special functions: precise everywhere, in their argument's dtype, without warnings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor import autograd
from tests.tensor.arrays import COMPLEX, FLOATING, arrays, assert_values
from tests.tensor.cutting import three_threads

ACTIVATIONS = {
    "elu": lambda v: v if v > 0 else math.expm1(v),
    "erf": math.erf,
    "erfc": math.erfc,
    "gelu": lambda v: v * math.erfc(-v / math.sqrt(2)) / 2,
    "leaky_relu": lambda v: v if v > 0 else 0.01 * v,
    "logsigmoid": lambda v: min(v, 0) - math.log1p(math.exp(-abs(v))),
    "relu": lambda v: max(v, 0.0),
    "sigmoid": lambda v: math.exp(min(v, 0)) / (1 + math.exp(-abs(v))),
    "silu": lambda v: v * math.exp(min(v, 0)) / (1 + math.exp(-abs(v))),
    "softplus": lambda v: max(v, 0) + math.log1p(math.exp(-abs(v))),
}
# What else is taken from 1 cancels: gelu below -1 is known to a multiple of the precision of 1 only.
ABSOLUTE = {"gelu": 1.0}


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(value=st.floats(-700, 700) | st.floats(-6, 6))
def test_float64_is_precise_to_its_last_digits(name, value):
    ours = getattr(tensor, name)(tensor.tensor([value], dtype="float64")).item()
    expected = ACTIVATIONS[name](value)
    # softplus is x itself from 20 on, as PyTorch's.
    relative = 3e-9 if name == "softplus" and value > 20 else 1e-14
    assert math.isclose(ours, expected, rel_tol=relative, abs_tol=1e-300 + 1e-15 * ABSOLUTE.get(name, 0))


@given(x=st.floats(-1, 1, exclude_min=True, exclude_max=True) | st.floats(0, 1e-6).map(lambda e: 1 - e))
def test_the_error_function_of_its_inverse_is_the_argument(x):
    size = abs(x)
    y = tensor.erfinv(tensor.tensor([size], dtype="float64")).item()
    assert tensor.erfinv(tensor.tensor([-size], dtype="float64")).item() == -y
    if size == 1:
        assert y == math.inf
        return
    # Far out the error function has few digits, and its complement has all.
    missed = math.erf(y) - size if size < 0.5 else (1 - size) - math.erfc(y)
    assert abs(missed) * math.exp(y * y) <= 3e-15 * y + 1e-322


def test_the_inverse_of_the_error_function_ends_at_one():
    found = tensor.erfinv(tensor.tensor([-1.0, 1.0, 1.5, -math.inf, math.nan])).tolist()
    assert found[:2] == [-math.inf, math.inf]
    assert all(math.isnan(y) for y in found[2:])


@given(x=st.floats(-1, 1, width=32))
def test_the_inverse_of_the_error_function_rounds_once_to_float32(x):
    exact = tensor.erfinv(tensor.tensor([x], dtype="float64")).numpy()
    assert tensor.erfinv(tensor.tensor([x], dtype="float32")).numpy() == exact.astype(np.float32)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_gradients_stay_finite_and_in_their_dtype(name, dtype):
    values = np.array([-1000, -90, -20, -1, 0, 1, 20, 90, 1000], dtype)
    x = tensor.tensor(values, requires_grad=True)
    out = getattr(tensor, name)(x)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == x.dtype
    assert np.isfinite(out.detach().numpy()).all()
    assert np.isfinite(x.grad.numpy()).all()
    digits = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    expected = [ACTIVATIONS[name](float(v)) for v in values]
    # A gate that is no normal number of the dtype may be 0.
    absolute = 100 * np.finfo(dtype).tiny + ABSOLUTE.get(name, 0) * digits
    np.testing.assert_allclose(out.detach().numpy().astype(float), expected, rtol=digits, atol=absolute)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(array=arrays(FLOATING))
def test_any_shape_and_layout_is_kept(name, array):
    x = tensor.tensor(array)
    function = getattr(tensor, name)
    assert function(x).shape == array.shape
    whole = function(x).numpy()
    assert_values(function(tensor.from_numpy(array.T)).numpy(), whole.T, exact=False)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nan_is_passed_on(name):
    assert math.isnan(getattr(tensor, name)(tensor.tensor([math.nan])).item())


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("sigmoid", 0, 1), ("erf", -1, 1), ("erfc", 2, 0), ("relu", 0, math.inf), ("elu", -1, math.inf),
     ("softplus", 0, math.inf), ("logsigmoid", -math.inf, 0), ("leaky_relu", -math.inf, math.inf)],
)  # fmt: skip
def test_the_limits_at_infinity(name, low, high):
    assert getattr(tensor, name)(tensor.tensor([-math.inf, math.inf])).tolist() == [low, high]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [63, 64, 200, 2**14, 2**14 + 1])
def test_relu_of_rows_equals_relu_of_elements(width, dtype):
    row = np.random.default_rng(0).standard_normal((3, width)).astype(dtype)
    row[:, :4] = np.nan, -np.inf, np.inf, -0.0
    for x in (row, row.T.copy().T, row[:, ::-1]):
        out = tensor.relu(tensor.from_numpy(x)).numpy()
        np.testing.assert_array_equal(out, np.maximum(x, 0))
        assert out.dtype == x.dtype
        assert not np.signbit(out[x == 0]).any()


def test_sigmoid_is_precise_far_below_zero():
    for dtype, value in (("float16", -12.0), ("float32", -80.0), ("float64", -700.0)):
        ours = tensor.sigmoid(tensor.tensor([value], dtype=dtype)).item()
        assert math.isclose(ours, math.exp(value), rel_tol=0.01 if dtype == "float16" else 1e-5)


def test_gelu_by_tanh_is_close_to_gelu():
    x = tensor.linspace(-3, 3, 50)
    difference = tensor.gelu(x) - tensor.gelu(x, "tanh")
    assert 0 < difference.abs().amax().item() < 1e-3
    with pytest.raises(ValueError, match=r"'none' or 'tanh', not 'exact'"):
        tensor.gelu(x, "exact")


def test_parameters_are_pytorchs():
    x = tensor.tensor([-2.0, 2.0], dtype="float64")
    assert tensor.leaky_relu(x, 0.2).tolist() == [-0.4, 2.0]
    np.testing.assert_allclose(tensor.elu(x, 0.5).numpy(), [0.5 * math.expm1(-2), 2.0])
    np.testing.assert_allclose(tensor.softplus(x, beta=2.0).numpy(), np.log1p(np.exp([-4.0, 4.0])) / 2)
    assert tensor.softplus(x, threshold=1.0).tolist()[1] == 2.0


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("relu", "leaky_relu")])
def test_integers_give_floats(name):
    out = getattr(tensor, name)(tensor.tensor([-1, 0, 1]))
    expected = getattr(tensor, name)(tensor.tensor([-1.0, 0.0, 1.0], dtype="float64"))
    assert out.dtype == tensor.float32
    np.testing.assert_allclose(out.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("relu", "sigmoid")])
def test_complex_tensors_are_refused_with_the_cure(name):
    with pytest.raises(TypeError, match=rf"{name}.*x\.real"):
        getattr(tensor, name)(tensor.tensor([1j]))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_numbers_and_arrays_are_taken_and_else_is_named(name):
    function = getattr(tensor, name)
    assert function(0.5).dtype == tensor.float32
    assert function(np.array([0.5])).dtype == tensor.float64
    with pytest.raises(TypeError, match=rf"^{name}.*not str"):
        function("text")


@pytest.mark.parametrize("dtype", COMPLEX)
def test_sigmoid_of_complex_numbers_is_the_formula(dtype):
    values = np.array([0.5 + 1j, -2 + 0.1j], dtype)
    np.testing.assert_allclose(
        tensor.sigmoid(tensor.tensor(values)).numpy(), 1 / (1 + np.exp(-values)), rtol=1e-6
    )


TWICE = {
    "gelu": (tensor.gelu, lambda f, x: f.gelu(x)),
    "gelu by tanh": (lambda x: tensor.gelu(x, "tanh"), lambda f, x: f.gelu(x, approximate="tanh")),
    "silu": (tensor.silu, lambda f, x: f.silu(x)),
    "softplus": (tensor.softplus, lambda f, x: f.softplus(x)),
    "softplus with a bend": (lambda x: tensor.softplus(x, 2, 3), lambda f, x: f.softplus(x, 2, 3)),
    "elu": (lambda x: tensor.elu(x, 0.7), lambda f, x: f.elu(x, 0.7)),
    "logsigmoid": (tensor.logsigmoid, lambda f, x: f.logsigmoid(x)),
    "sigmoid": (tensor.sigmoid, lambda f, x: f.sigmoid(x)),
}


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_are_pytorchs_near_0_and_far_out(name):
    torch = pytest.importorskip("torch")
    ours, theirs = TWICE[name]
    values = np.array([-800, -30, -3, -1e-3, -1e-7, 1e-12, 1e-3, 0.3, 2, 19, 100, 800])
    x, y = tensor.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    (slope,) = autograd.grad([ours(x).sum()], [x], create_graph=True)
    (second,) = autograd.grad([slope.sum()], [x])
    (expected,) = torch.autograd.grad(theirs(torch.nn.functional, y).sum(), y, create_graph=True)
    (expected,) = torch.autograd.grad(expected.sum(), y)
    np.testing.assert_allclose(second.numpy(), expected.numpy(), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ["sigmoid", "silu"])
@pytest.mark.parametrize("size", [(3,), (), (40, 1000), (2000, 700)])
def test_gates_neither_overflow_nor_depend_on_the_number_of_threads(name, size):
    array = np.random.default_rng(0).uniform(-150, 150, size).astype(np.float32)
    x = tensor.tensor(array)
    wide = array.astype(np.float64)
    expected = 1 / (1 + np.exp(-wide)) * (1 if name == "sigmoid" else wide)
    with np.errstate(all="raise", under="ignore"):
        found = getattr(tensor, name)(x).numpy()
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-35)
    with three_threads():
        np.testing.assert_array_equal(getattr(tensor, name)(x).numpy(), found)
        assert_values(getattr(tensor, name)(tensor.tensor(array.T).T).numpy(), found, exact=False)
