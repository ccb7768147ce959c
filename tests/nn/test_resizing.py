"""Interpolation, shuffles and patches against plain formulas; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nn
import tensor
from nn import functional as F

Array = np.ndarray[Any, Any]


def resized(x: Array, *given: Any, **options: Any) -> Array:
    return F.interpolate(tensor.tensor(x), *given, **options).numpy()


@given(size=st.integers(2, 6), outs=st.integers(1, 12), aligned=st.booleans())
def test_lines_between_elements_are_numpys(size: int, outs: int, aligned: bool) -> None:
    x = np.random.default_rng(size).standard_normal((1, 1, size))
    at = np.arange(outs)
    places = at * ((size - 1) / max(outs - 1, 1)) if aligned else (at + 0.5) * size / outs - 0.5
    expected = np.interp(places, np.arange(size), x[0, 0])
    np.testing.assert_allclose(
        resized(x, outs, mode="linear", align_corners=aligned)[0, 0], expected, atol=1e-12
    )


@pytest.mark.parametrize("aligned", [True, False])
def test_a_plane_stays_one_between_its_edges(aligned: bool) -> None:
    rows, columns = np.mgrid[:6, :7].astype(float)
    y = resized((2 * rows - columns)[None, None], (12, 14), mode="bilinear", align_corners=aligned)[0, 0]
    down, right = np.diff(y[1:-1, 1:-1], axis=0), np.diff(y[1:-1, 1:-1], axis=1)
    np.testing.assert_allclose(down, 2 * (5 / 11 if aligned else 0.5), atol=1e-12)
    np.testing.assert_allclose(right, -(6 / 13 if aligned else 0.5), atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_sample_at_the_place_of_an_element_is_that_element(mode: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
    y = resized(x, (9, 10), mode=mode, align_corners=True)
    np.testing.assert_allclose(y[..., ::2, ::3], x, atol=1e-12)


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("nearest", {}), ("nearest-exact", {}), ("area", {}), ("bilinear", {}), ("bicubic", {}),
        ("bilinear", {"antialias": True}), ("bicubic", {"antialias": True}), ("lanczos", {"antialias": True}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [(1, 1), (3, 11), (5, 4)])
def test_a_constant_stays_constant(mode: str, options: dict[str, Any], size: tuple[int, int]) -> None:
    y = resized(np.full((2, 3, 5, 4), 1.25), size, mode=mode, **options)
    assert y.shape == (2, 3, *size)
    np.testing.assert_allclose(y, 1.25, rtol=1e-14)


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"size": 6}, [0, 0, 1, 1, 2, 2]),
        ({"size": 4}, [0, 0, 1, 2]),
        ({"size": 2}, [0, 1]),
        ({"size": 2, "mode": "nearest-exact"}, [0, 2]),
        ({"scale_factor": 1.5, "mode": "nearest-exact"}, [0, 1, 1, 2]),
        ({"scale_factor": 1.5}, [0, 0, 1, 2]),
    ],
)
def test_the_nearest_element_is_taken(options: dict[str, Any], places: list[int]) -> None:
    x = np.array([[[5.0, -0.0, np.inf]]])
    found = resized(x, **options)[0, 0]
    np.testing.assert_array_equal(found, x[0, 0][places])
    assert np.signbit(found).tolist() == np.signbit(x[0, 0][places]).tolist()


@pytest.mark.parametrize(
    ("shape", "options", "error", "message"),
    [
        ((1, 2), {"size": 2}, ValueError, r"input must have shape \(batch, channels, \*sizes\)"),
        ((1, 2, 3), {}, ValueError, "pass either size or scale_factor"),
        ((1, 2, 3), {"size": 2, "scale_factor": 2}, ValueError, "pass either"),
        ((1, 2, 3), {"size": (2, 2)}, ValueError, "size must be one number"),
        ((1, 2, 3), {"size": 2.0}, TypeError, "size must hold integers, not 2.0"),
        ((1, 2, 3), {"size": 0}, ValueError, "must be at least 1"),
        ((1, 2, 3), {"scale_factor": 0.1}, ValueError, "must be at least 1"),
        ((1, 2, 3), {"size": 2, "recompute_scale_factor": True}, ValueError, "requires scale_factor"),
        ((1, 2, 3), {"size": 2, "mode": "cubic"}, ValueError, "mode must be one of"),
        (
            (1, 2, 3),
            {"size": 2, "mode": "bilinear"},
            NotImplementedError,
            "with 4 dimensions.*pass mode='linear'",
        ),
        (
            (1, 2, 3),
            {"size": 2, "align_corners": True},
            ValueError,
            "mode 'nearest' does not support align_corners",
        ),
        ((1, 2, 3), {"size": 2, "mode": "linear", "antialias": True}, ValueError, "antialias=True requires"),
        ((1, 2, 3, 4), {"size": 2, "mode": "lanczos"}, ValueError, "'lanczos' requires antialias=True"),
    ],
)
def test_options_that_do_not_go_together_are_an_error(
    shape: tuple[int, ...], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        F.interpolate(tensor.ones(shape), **options)


@given(r=st.integers(1, 3), batch=st.lists(st.integers(0, 2), max_size=2))
def test_pixel_shuffles_move_channels_into_space_and_back(r: int, batch: list[int]) -> None:
    x = np.random.default_rng(r).standard_normal((*batch, 2 * r * r, 3, 4))
    y = F.pixel_shuffle(tensor.tensor(x), r)
    assert y.shape == (*batch, 2, 3 * r, 4 * r)
    for c, i, j in np.ndindex(2, r, r):
        np.testing.assert_array_equal(y.numpy()[..., c, i::r, j::r], x[..., c * r * r + i * r + j, :, :])
    np.testing.assert_array_equal(F.pixel_unshuffle(y, r).numpy(), x)


def test_shuffles_name_what_they_need() -> None:
    with pytest.raises(ValueError, match="channels divisible by 4, not"):
        F.pixel_shuffle(tensor.ones((1, 3, 2, 2)), 2)
    with pytest.raises(ValueError, match="height and width divisible by 2"):
        F.pixel_unshuffle(tensor.ones((1, 3, 3, 2)), 2)
    with pytest.raises(ValueError, match="channels divisible by 2"):
        F.channel_shuffle(tensor.ones((1, 3, 3, 2)), 2)
    with pytest.raises(ValueError, match="groups must be an integer of at least 1"):
        F.channel_shuffle(tensor.ones((1, 3, 3, 2)), 0)


OPTIONS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (1, 0), "stride": (2, 1)},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_product_with_unfolded_patches_is_a_convolution(options: dict[str, Any]) -> None:
    drawn = np.random.default_rng(0)
    kernel = options["kernel_size"]
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    x = tensor.tensor(drawn.standard_normal((2, 3, 5, 6)))
    weight = tensor.tensor(drawn.standard_normal((4, 3, *kernel)))
    y = F.conv2d(x, weight, **{k: v for k, v in options.items() if k != "kernel_size"})
    columns = F.unfold(x, **options)
    found = (weight.reshape((4, -1)) @ columns).reshape(y.shape)
    np.testing.assert_allclose(found.numpy(), y.numpy(), atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("batch", [(2,), (0,), ()])
def test_fold_is_the_transpose_of_unfold(options: dict[str, Any], batch: tuple[int, ...]) -> None:
    drawn = np.random.default_rng(0)
    x = tensor.tensor(drawn.standard_normal((*batch, 3, 5, 6)))
    columns = F.unfold(x, **options)
    y = tensor.tensor(drawn.standard_normal(columns.shape))
    back = F.fold(y, (5, 6), **options)
    assert back.shape == x.shape
    np.testing.assert_allclose((x * back).sum().item(), (columns * y).sum().item(), atol=1e-10)


def test_patches_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"spans \(7, 7\) elements, but sizes \(5, 6\)"):
        F.unfold(tensor.ones((1, 3, 5, 6)), 7)
    with pytest.raises(ValueError, match="unfold: input must have shape"):
        F.unfold(tensor.ones((5, 6)), 2)
    with pytest.raises(ValueError, match=r"\(batch, channels \* 4, 20\)"):
        F.fold(tensor.ones((1, 12, 19)), (5, 6), 2)


def test_repr_of_resizing_layers_shows_their_options() -> None:
    assert repr(nn.Upsample(scale_factor=[2, 3])) == "Upsample(scale_factor=(2.0, 3.0), mode='nearest')"
    assert repr(nn.Fold((4, 5), 2)) == (
        "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)"
    )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_elements_of_uint8_stay_uint8(mode: str) -> None:
    x = tensor.tensor(np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4))
    found = F.interpolate(x, (5, 7), mode=mode)
    assert found.dtype == tensor.uint8
    assert found.tolist() == F.interpolate(x.float(), (5, 7), mode=mode).tolist()
