"""Reductions and the softmax family: NumPy's values along any dimensions, 0-d and empty tensors, extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor
from tests.tensor.arrays import ALL, COMPLEX, FLOATING, INTEGERS, Array, arrays, assert_same

NUMPYS = ("sum", "prod", "mean", "var", "std", "max", "min", "all", "any", "count_nonzero")
INF = math.inf


@st.composite
def reduced(draw: st.DrawFn, dtypes: tuple[str, ...], min_side: int = 1) -> tuple[Array, object]:
    """An array and some of its dimensions: None, one, or several."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=min_side, max_side=3))
    array = draw(arrays(dtypes, st.just(shape)))
    if not shape:
        return array, draw(st.sampled_from([None, ()]))
    some = hnp.valid_tuple_axes(len(shape), min_size=1)
    return array, draw(st.none() | st.integers(-len(shape), len(shape) - 1) | some)


def assert_close(ours, expected, **more):
    array, expected = ours.numpy(), np.asarray(expected)
    assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
    digits = {"e": 2e-2, "f": 1e-5, "F": 1e-5}.get(array.dtype.char, 1e-12)
    np.testing.assert_allclose(array, expected, rtol=digits, atol=digits, **more)


@pytest.mark.parametrize("name", NUMPYS)
@given(case=reduced(ALL), keep=st.booleans())
def test_a_reduction_gives_numpys_values(name, case, keep):
    array, axis = case
    assume(name not in ("max", "min") or array.dtype.kind != "c")
    with np.errstate(over="ignore", invalid="ignore"):
        ours = getattr(tensor, name)(tensor.tensor(array), axis=axis, keepdims=keep)
        expected = np.asarray(getattr(np, name)(array, axis=axis, keepdims=keep))
        if name in ("mean", "var", "std") and array.dtype.kind in "biu":
            expected = expected.astype(np.float32)
        assert_close(ours, expected)


# `max`, `min` and `count_nonzero` are other methods in PyTorch.
METHODS = [(name, name) for name in NUMPYS if name not in ("max", "min", "count_nonzero")]


@pytest.mark.parametrize(("name", "method"), [*METHODS, ("max", "amax"), ("min", "amin")])
def test_methods_take_dim_and_keepdim(name, method):
    x = tensor.tensor(np.random.default_rng(0).normal(size=(2, 3, 4)))
    more = {"correction": 0} if name in ("var", "std") else {}
    ours = getattr(x, method)(dim=(0, -1), keepdim=True, **more)
    assert_same(ours, getattr(tensor, name)(x, axis=(0, 2), keepdims=True).numpy())


@given(case=reduced(("float32", "float64", *COMPLEX)), correction=st.sampled_from([0, 1, 0.5]))
def test_var_and_std_divide_by_the_count_less_the_correction(case, correction):
    array, axis = case
    count = array.size if axis is None else math.prod(np.asarray(array.shape, int)[list(np.atleast_1d(axis))])
    assume(count > correction)
    for name in ("var", "std"):
        ours = getattr(tensor, name)(tensor.tensor(array), axis=axis, correction=correction)
        assert_close(ours, getattr(np, name)(array, axis=axis, correction=correction))


@pytest.mark.parametrize("dtype", FLOATING)
def test_too_few_elements_give_nan_without_a_warning_and_backward_too(dtype):
    for x in (
        tensor.ones((1,), dtype=dtype),
        tensor.ones((0,), dtype=dtype),
        tensor.tensor(2.0, dtype=dtype),
    ):
        x.requires_grad_()
        for out in (x.var(), x.std()):
            assert math.isnan(out.item())
            assert out.dtype == dtype
            out.backward()
            assert (x.grad.shape, x.grad.dtype) == (x.shape, x.dtype)
    assert math.isnan(tensor.zeros((0,)).mean().item())
    assert tensor.zeros((2, 0), dtype=dtype).mean(1).tolist() == pytest.approx([math.nan] * 2, nan_ok=True)


def test_reductions_of_nothing_have_their_neutral_element():
    x = tensor.zeros((2, 0))
    assert x.sum(1).tolist() == [0.0, 0.0]
    assert x.prod(1).tolist() == [1.0, 1.0]
    assert x.all(1).tolist() == [True, True]
    assert x.any(1).tolist() == [False, False]
    assert x.logsumexp(1).tolist() == [-INF, -INF]
    assert x.softmax(1).shape == x.log_softmax(1).shape == (2, 0)
    assert x.cumsum(1).shape == (2, 0)


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_extremes_of_nothing_are_an_error_that_names_the_shape(name):
    with pytest.raises(ValueError, match=r"float32\[2, 0\]"):
        getattr(tensor.zeros((2, 0)), name)(1)


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_small_integers_are_added_up_in_64_bits(name):
    for dtype in ("bool", *INTEGERS):
        x = tensor.ones((3,), dtype=dtype)
        assert getattr(tensor, name)(x).dtype == ("uint64" if dtype.startswith("u") else "int64")
        assert getattr(x, name)().dtype == "int64"
    assert getattr(tensor.ones((3,), dtype="int8"), name)(dtype="int8").dtype == tensor.int8
    assert getattr(tensor.ones((3,)), name)(dtype="float64").dtype == tensor.float64


def test_float16_is_averaged_without_overflow():
    x = tensor.full((100,), 60000.0, dtype="float16")
    assert x.mean().item() == 60000.0
    assert x.var().item() == 0.0
    assert x.mean().dtype == tensor.float16


@given(case=reduced(("int64", *FLOATING)))
def test_argmax_and_argmin_give_the_first_place(case):
    array, axis = case
    assume(not isinstance(axis, tuple))
    x = tensor.tensor(np.round(array))
    for name in ("argmax", "argmin"):
        assert_same(getattr(x, name)(axis), getattr(np, name)(np.round(array), axis=axis))


def test_max_along_a_dimension_has_values_and_indices():
    x = tensor.tensor([[1.0, 3.0, 3.0], [5.0, 2.0, 4.0]])
    values, indices = x.max(1, keepdim=True)
    assert (values.tolist(), indices.tolist()) == ([[3.0], [5.0]], [[1], [0]])
    assert x.min(0).indices.tolist() == [0, 1, 0]
    assert x.max().item() == 5.0
    assert x.max(tensor.tensor(4.0)).tolist() == [[4.0, 4.0, 4.0], [5.0, 4.0, 4.0]]
    assert tensor.tensor(2.0).max(0) == (tensor.tensor(2.0), tensor.tensor(0))


@given(case=reduced(("bool", "int32", "float32", "float64", "complex64"), min_side=0), data=st.data())
def test_cumulations_give_numpys_values(case, data):
    array, _ = case
    assume(array.ndim > 0)
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    for name, method, numpys in (
        ("cumulative_sum", "cumsum", np.cumsum),
        ("cumulative_prod", "cumprod", np.cumprod),
    ):
        expected = numpys(array, axis=axis)
        assert_close(getattr(tensor, name)(tensor.tensor(array), axis=axis), expected)
        assert_close(getattr(tensor.tensor(array), method)(axis), expected)


def test_cumulations_of_one_number_have_no_dimension():
    assert tensor.tensor(2.0).cumsum(0).shape == ()
    assert tensor.tensor(2.0).cumprod(-1).shape == ()


def test_a_cumulation_over_several_dimensions_needs_one_named():
    with pytest.raises(ValueError, match=r"\(2, 2\) needs axis="):
        tensor.cumulative_sum(tensor.ones((2, 2)))


@given(case=reduced(FLOATING), keep=st.booleans())
def test_logsumexp_is_its_formula_for_small_values(case, keep):
    array, axis = case
    expected = np.log(np.sum(np.exp(array), axis=axis, keepdims=keep))
    assert_close(tensor.logsumexp(tensor.tensor(array), axis=axis, keepdims=keep), expected)


@pytest.mark.parametrize("dtype", FLOATING)
def test_the_softmax_family_takes_large_and_infinite_values(dtype):
    x = tensor.tensor([[1000.0, 1000.0], [-1000.0, 1000.0], [-INF, 0.0]], dtype=dtype, requires_grad=True)
    assert x.softmax(1).tolist() == [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]
    assert x.log_softmax(1).tolist()[1:] == [[-2000.0, 0.0], [-INF, 0.0]]
    assert x.logsumexp(1).tolist()[1:] == [1000.0, 0.0]
    (x.logsumexp(1).sum() + x.softmax(1)[:, 0].sum() + x.log_softmax(1)[:, 1].sum()).backward()
    assert x.grad.dtype == dtype
    assert np.isfinite(x.grad.numpy()).all()


def test_logsumexp_of_nothing_but_infinities():
    x = tensor.tensor([[-INF, -INF], [INF, 0.0]], requires_grad=True)
    out = x.logsumexp(1)
    assert out.tolist() == [-INF, INF]
    assert np.isnan(x.detach()[:1].softmax(1).numpy()).all()


@given(case=reduced(FLOATING))
def test_softmax_sums_to_one_and_log_softmax_is_its_logarithm(case):
    array, _ = case
    x = tensor.tensor(array).reshape(-1)
    tolerance = 5e-3 if x.dtype == tensor.float16 else 1e-5
    np.testing.assert_allclose(x.softmax(0).sum().item(), 1, rtol=tolerance)
    np.testing.assert_allclose(
        x.log_softmax(0).numpy(), np.log(x.softmax(0).numpy()), rtol=tolerance, atol=tolerance
    )
    assert x.softmax(0).dtype == x.log_softmax(0).dtype == x.dtype


@pytest.mark.parametrize("p", [1, 2, 3, 0.5, INF, -INF, 0])
@given(case=reduced(("float32", "float64", *COMPLEX)), keep=st.booleans())
def test_norm_is_the_root_of_the_sum_of_powers(p, case, keep):
    array, axis = case
    size = np.abs(array)
    if p in (INF, -INF):
        expected = (np.max if p > 0 else np.min)(size, axis=axis, keepdims=keep)
    elif p == 0:
        expected = np.sum(size != 0, axis=axis, keepdims=keep, dtype=size.dtype)
    else:
        expected = np.sum(size**p, axis=axis, keepdims=keep) ** (1 / p)
    assert_close(tensor.tensor(array).norm(p, axis, keep), np.asarray(expected, size.dtype))


ALONG = {
    "all": lambda x, dim: x.all(dim),
    "argmax": lambda x, dim: x.argmax(dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "max": lambda x, dim: x.max(dim),
    "mean": lambda x, dim: x.mean(dim),
    "norm": lambda x, dim: x.norm(2, dim),
    "softmax": lambda x, dim: x.softmax(dim),
    "sum": lambda x, dim: x.sum(dim),
    "var": lambda x, dim: x.var(dim),
}


@pytest.mark.parametrize("reduce", ALONG.values(), ids=ALONG)
def test_dimension_out_of_range_raises_an_error_with_its_number(reduce):
    for x, dim in ((tensor.ones((2, 3)), 2), (tensor.ones((2, 3)), -3), (tensor.tensor(1.0), 1)):
        with pytest.raises(IndexError, match=rf"dimension {dim} is out of range"):
            reduce(x, dim)
    with pytest.raises(IndexError, match="dimension 1 is out of range: the tensor has no dimensions"):
        reduce(tensor.tensor(1.0), 1)
    with pytest.raises(TypeError, match="a dimension must be an integer, not str"):
        reduce(tensor.ones((2, 3)), "rows")


def test_a_dimension_named_twice_is_an_error():
    with pytest.raises(ValueError, match="twice"):
        tensor.ones((2, 3)).sum((0, -2))


@pytest.mark.parametrize("name", [*NUMPYS, "argmax", "cumulative_sum", "softmax", "logsumexp"])
def test_a_string_raises_an_error_that_names_it(name):
    with pytest.raises(TypeError, match=r"'text'|not str"):
        getattr(tensor, name)("text")


def test_nan_sums_and_means_over_no_dimensions_are_over_all():
    x = tensor.tensor([[1.0, tensor.nan], [3.0, 5.0]])
    assert x.nansum(dim=()).item() == 9
    assert x.nanmean(dim=()).item() == 3
    assert x.nanmean(dim=(), keepdim=True).shape == (1, 1)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32"])
def test_sum_to_size_adds_in_int64_as_sum_does(dtype):
    x = tensor.ones((2, 100)).to(dtype)
    found = x.sum_to_size(2, 1)
    assert (str(found.dtype), found.tolist()) == ("int64", [[100], [100]])
