"""Pools are what their formulas say, of any size; indices, threads, memory, errors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nn
import tensor
from nn import functional as F
from scopes import new_dispose_scope
from tensor.kernels import add_at_places, take_places
from tests.simd import printed_at_each_level
from tests.tensor.cutting import three_threads

Array = np.ndarray[Any, Any]


def windows(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool) -> list[list[int]]:
    """Return the places of each window along one dimension, one after the other as they are defined."""
    found, start = [], -pad
    while True:
        end = start + dilation * (kernel - 1) + 1
        beyond = end - (size + pad)
        if beyond > 0 and (not ceil or beyond >= stride or start >= size):
            return found
        found.append(list(range(start, end, dilation)))
        start += stride


@st.composite
def cases(draw: st.DrawFn) -> tuple[Array, dict[str, Any]]:
    space = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(space)]
    options = {
        "kernel_size": tuple(kernel),
        "stride": tuple([draw(st.integers(1, 3)) for _ in range(space)]),
        "padding": tuple([draw(st.integers(0, n // 2)) for n in kernel]),
        "ceil_mode": draw(st.booleans()),
    }
    sizes = [draw(st.integers(n, 6)) for n in kernel]
    drawn = np.random.default_rng(draw(st.integers(0, 9)))
    return drawn.standard_normal((draw(st.integers(0, 2)), 2, *sizes)), options


def plain(x: Array, options: dict[str, Any], reduce: Any) -> Array:
    """Return `reduce` of each window, as `reduce` sees it: its places within the input."""
    along = [
        windows(size, kernel, stride, pad, 1, options["ceil_mode"])
        for size, kernel, stride, pad in zip(
            x.shape[2:], options["kernel_size"], options["stride"], options["padding"], strict=True
        )
    ]
    out = np.zeros((*x.shape[:2], *map(len, along)))
    for place in product(*[range(len(a)) for a in along]):
        chosen = [a[i] for a, i in zip(along, place, strict=True)]
        inside = [[i for i in c if 0 <= i < n] for c, n in zip(chosen, x.shape[2:], strict=True)]
        out[(..., *place)] = reduce(x[(..., *np.ix_(*inside))], chosen)
    return out


@given(case=cases())
def test_max_pools_are_their_formula(case: tuple[Array, dict[str, Any]]) -> None:
    x, options = case
    axes = tuple(range(2, x.ndim))
    pool = getattr(F, f"max_pool{x.ndim - 2}d")
    y, places = pool(tensor.tensor(x), **options, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), plain(x, options, lambda w, _: w.max(axes)))
    flat, at = (a.reshape(len(x) * 2, int(np.prod(a.shape[2:]))) for a in (x, places.numpy()))
    np.testing.assert_array_equal(np.take_along_axis(flat, at, 1).reshape(y.shape), y.numpy())


@given(case=cases(), counts=st.booleans())
def test_average_pools_are_their_formula(case: tuple[Array, dict[str, Any]], counts: bool) -> None:
    x, options = case
    axes = tuple(range(2, x.ndim))

    def mean(window: Array, chosen: list[list[int]]) -> Array:
        if not counts:
            return window.mean(axes)
        # What lies in the padding counts; what lies behind it does not.
        ends = [n + pad for n, pad in zip(x.shape[2:], options["padding"], strict=True)]
        counted = [sum(i < end for i in places) for places, end in zip(chosen, ends, strict=True)]
        return window.sum(axes) / np.prod(counted)

    y = getattr(F, f"avg_pool{x.ndim - 2}d")(tensor.tensor(x), **options, count_include_pad=counts)
    np.testing.assert_allclose(y.numpy(), plain(x, options, mean), atol=1e-12)


@given(size=st.integers(1, 7), outs=st.integers(0, 9))
def test_adaptive_pools_are_their_formula(size: int, outs: int) -> None:
    x = np.random.default_rng(size).standard_normal((2, 3, size))
    parts = [x[..., i * size // outs : -(-(i + 1) * size // outs)] for i in range(outs)]
    means = F.adaptive_avg_pool1d(tensor.tensor(x), outs)
    largest = F.adaptive_max_pool1d(tensor.tensor(x), outs)
    assert means.shape == largest.shape == (2, 3, outs)
    for i, part in enumerate(parts):
        np.testing.assert_allclose(means.numpy()[..., i], part.mean(-1), atol=1e-12)
        np.testing.assert_array_equal(largest.numpy()[..., i], part.max(-1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_pool_keeps_its_dtype(dtype: str) -> None:
    x = tensor.ones((1, 1, 4), dtype=dtype, requires_grad=True)
    for y in (F.max_pool1d(x, 2), F.avg_pool1d(x, 2), F.adaptive_avg_pool1d(x, 3)):
        assert y.dtype == dtype
        y.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype


def test_the_largest_of_a_window_with_nan_is_nan_and_equal_ones_are_the_first() -> None:
    x = tensor.tensor([[1.0, float("nan"), 2.0, 2.0, float("-inf"), float("-inf")]])
    y, places = F.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), [[np.nan, 2.0, -np.inf]])
    assert places.tolist() == [[1, 2, 4]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "pool",
    [nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(5), nn.Upsample(scale_factor=2)],
)
def test_the_number_of_threads_changes_no_bit(pool: nn.Module, dtype: str) -> None:
    def computed() -> list[bytes]:
        drawn = np.random.default_rng(0)
        x = tensor.tensor(drawn.standard_normal((9, 16, 33, 31)).astype(dtype)).requires_grad_()
        y = pool(x)
        y.square().sum().backward()
        assert x.grad is not None
        return [y.detach().numpy().tobytes(), x.grad.numpy().tobytes()]

    alone = computed()
    with three_threads():
        assert computed() == alone


def test_each_instruction_set_gives_the_same_bits() -> None:
    program = """
import hashlib, numpy as np, tensor
from nn import functional as F
for dtype in ("float32", "float64"):
    values = np.random.default_rng(0).standard_normal((3, 4, 17, 300)).astype(dtype)
    for function, options in (
        (F.max_pool2d, {"kernel_size": 3, "stride": 1, "padding": 1}), (F.max_pool2d, {"kernel_size": 2}),
        (F.max_pool2d, {"kernel_size": (2, 5), "stride": (1, 3)}), (F.avg_pool2d, {"kernel_size": 3}),
        (F.interpolate, {"scale_factor": 1.3, "mode": "bicubic"}),
        (F.unfold, {"kernel_size": 3, "padding": 1}),
    ):
        x = tensor.tensor(values).requires_grad_()
        y = function(x, **options)
        y.square().sum().backward()
        for part in (y.detach(), x.grad):
            print(hashlib.sha256(part.numpy().tobytes()).hexdigest())
"""
    printed = printed_at_each_level(program)
    assert len(set(printed.values())) == 1
    assert len(set(printed["baseline"].split())) == 24


def test_writing_to_indices_later_changes_no_gradient() -> None:
    x = tensor.tensor([[1.0, 3.0, 7.0, 5.0]], requires_grad=True)
    y, places = F.max_pool1d(x, 2, return_indices=True)
    places.zero_()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0, 1.0, 1.0, 0.0]]


def test_results_of_pools_are_disposed_with_their_scope() -> None:
    x = tensor.ones((2, 3, 4, 4), requires_grad=True)
    with new_dispose_scope() as scope:
        y, places = F.max_pool2d(x, 2, return_indices=True)
        (F.avg_pool2d(x, 2) + y).sum().backward()
        assert len(scope) == 2
    assert y.is_invalid
    assert places.is_invalid


X = (2, 3, 5, 4)


@pytest.mark.parametrize(
    ("function", "shape", "options", "message"),
    [
        (F.max_pool2d, (5, 4), {"kernel_size": 2}, r"input must have shape \(batch, channels, \*sizes\)"),
        (F.max_pool2d, (2, 0, 5, 4), {"kernel_size": 2}, "only the batch may have size 0"),
        (F.max_pool2d, X, {"kernel_size": 7}, "but an input of size 5"),
        (F.max_pool2d, X, {"kernel_size": 3, "padding": 2}, "at most 1, half of the 3 elements"),
        (F.max_pool2d, X, {"kernel_size": 0}, "kernel_size must be an integer of at least 1"),
        (F.max_pool1d, (1, 1, 1), {"kernel_size": 2, "dilation": 3, "padding": 2}, "no element of an input"),
        (F.avg_pool2d, X, {"kernel_size": 2, "stride": (1, 2, 3)}, "or 2 of them"),
        (F.avg_pool2d, X, {"kernel_size": 2, "divisor_override": 0}, "must be an integer other than 0"),
        (
            F.adaptive_avg_pool2d,
            X,
            {"output_size": (1, 2, 3)},
            "output_size must be an integer of at least 0",
        ),
        (F.adaptive_max_pool2d, X, {"output_size": -1}, "output_size must be an integer of at least 0"),
    ],
)
def test_arguments_that_do_not_fit_raise_an_error_that_says_why(
    function: Any, shape: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(tensor.ones(shape), **options)


def test_integers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"max_pool1d: input must be floating, not int64"):
        F.max_pool1d(tensor.tensor([[1, 2]]), 2)


@pytest.mark.parametrize(
    ("indices", "options", "message"),
    [
        ([[0, 4]], {}, "indices must be from 0 to 3"),
        ([[0, -1]], {}, "indices must be from 0 to 3"),
        ([[0.0, 1.0]], {}, "indices must be int64"),
        ([[0]], {}, "have the input's shape"),
        (
            [[0, 1]],
            {"output_size": (9,)},
            r"output_size must differ from \(4,\) by less than the stride, \(2,\)",
        ),
        ([[0, 1]], {"output_size": (4, 4)}, "output_size must hold 1 sizes, or 3"),
    ],
)
def test_indices_that_do_not_fit_are_an_error(indices: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        F.max_unpool1d(tensor.ones((1, 2)), tensor.tensor(indices), 2, **options)


def test_indices_in_any_order_of_memory_have_the_gradient_of_their_places() -> None:
    drawn = np.random.default_rng(0)
    places = drawn.permuted(np.tile(np.arange(12), (2, 1)), axis=1)[:, :3].reshape(1, 2, 3)
    for indices in (tensor.tensor(places), tensor.tensor(places.transpose(0, 2, 1)).transpose(1, 2)):
        x, g = tensor.ones((1, 2, 3), requires_grad=True), drawn.standard_normal((1, 2, 12))
        F.max_unpool1d(x, indices, 4).backward(tensor.tensor(g, dtype="float32"))
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), np.take_along_axis(g, places, 2), rtol=1e-6)


def test_indices_that_are_written_to_after_unpooling_do_not_disturb_backward() -> None:
    x, indices = tensor.ones((1, 2), requires_grad=True), tensor.tensor([[1, 3]])
    shared = indices.numpy()
    out = F.max_unpool1d(x, indices, 2)
    shared[...] = 2**40
    out.backward(tensor.tensor([[1.0, 2.0, 3.0, 4.0]]))
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0, 4.0]]


@pytest.mark.parametrize(
    "places", [np.zeros((1, 1, 1, 2), np.int32), np.zeros((1, 1, 1, 4), np.int64)[..., ::2]]
)
def test_the_kernels_refuse_places_that_they_would_misread(places: Array) -> None:
    with pytest.raises(TypeError, match="places must be a C-contiguous array of int64"):
        take_places(np.zeros((1, 1, 1, 8)), places)
    with pytest.raises(TypeError, match="places must be a C-contiguous array of int64"):
        add_at_places(np.zeros((1, 1, 1, 2)), places, (1, 1, 8))


@pytest.mark.parametrize("option", ["kernel_size", "stride", "padding", "dilation"])
def test_options_beyond_what_kernels_count_to_are_an_error(option: str) -> None:
    options: dict[str, Any] = {"kernel_size": 2, option: 2**61}
    with pytest.raises(ValueError, match=f"max_pool1d: {option} must be at most 2\\*\\*40"):
        F.max_pool1d(tensor.ones((1, 8)), **options)
