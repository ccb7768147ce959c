"""Convolutions: the plain formula, whatever the pieces; shapes, errors, memory; PyTorch where it is there."""

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
from tensor import memory
from tensor.kernels import convolution
from tensor.kernels.networks import PackedWeight, PaddedInput
from tests.tensor.cutting import three_threads

Array = np.ndarray[Any, Any]


def plain(x: Array, weight: Array, geometry: convolution.Geometry) -> Array:
    """Return the convolution as its formula says: one product of a patch and the kernel at a time."""
    x = np.pad(x, ((0, 0), (0, 0), *geometry.padding))
    outs = [
        (size - span) // step + 1
        for size, span, step in zip(x.shape[2:], geometry.spans(), geometry.stride, strict=True)
    ]
    batch, channels, within = x.shape[0], weight.shape[0], weight.shape[1]
    out = np.zeros((batch, channels, *outs))
    for channel, place in product(range(channels), product(*map(range, outs))):
        group = channel // (channels // geometry.groups)
        patch = [
            slice(i * step, i * step + span, dilation)
            for i, step, span, dilation in zip(
                place, geometry.stride, geometry.spans(), geometry.dilation, strict=True
            )
        ]
        taken = x[(slice(None), slice(group * within, (group + 1) * within), *patch)]
        out[(slice(None), channel, *place)] = (taken * weight[channel]).sum(tuple(range(1, x.ndim)))
    return out


@st.composite
def cases(draw: st.DrawFn) -> tuple[Array, Array, convolution.Geometry]:
    space = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 2))
    small = [draw(st.integers(1, 3)) for _ in range(2 * space)]
    kernel, stride = tuple(small[:space]), tuple(small[space:])
    dilation = tuple([draw(st.integers(1, 2)) for _ in range(space)])
    padding = tuple([(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(space)])
    geometry = convolution.Geometry(kernel, stride, padding, dilation, groups)
    sizes = [
        max(span - sum(pad), 0) + draw(st.integers(0, 3))
        for span, pad in zip(geometry.spans(), padding, strict=True)
    ]
    drawn = np.random.default_rng(draw(st.integers(0, 9)))
    x = drawn.standard_normal((draw(st.integers(0, 3)), groups * draw(st.integers(1, 2)), *sizes))
    weight = drawn.standard_normal((groups * draw(st.integers(1, 2)), x.shape[1] // groups, *kernel))
    return x, weight, geometry


@given(case=cases(), piece=st.sampled_from([1, 500, 2**20]), least=st.sampled_from([1, 5, 256]))
def test_a_convolution_is_its_formula_whatever_the_pieces(
    case: tuple[Array, Array, convolution.Geometry], piece: int, least: int
) -> None:
    x, weight, geometry = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "_PIECE_BYTES", piece)
        patch.setattr(convolution, "_LEAST_PLACES", least)
        y = convolution.convolve(x, weight, geometry, geometry.outputs(x.shape[2:]))
        np.testing.assert_allclose(y, plain(x, weight, geometry), atol=1e-12)
        # The other two are the transposes: <conv(x, w), g> = <x, transposed(g, w)> = <w, for_weight(x, g)>.
        g = np.random.default_rng(1).standard_normal(y.shape)
        product_of = (y * g).sum()
        by_x = convolution.convolve_transposed(g, weight, geometry, x.shape[2:])
        by_weight = convolution.convolve_for_weight(x, g, geometry)
        assert (by_x.shape, by_weight.shape) == (x.shape, weight.shape)
        np.testing.assert_allclose((x * by_x).sum(), product_of, atol=1e-10)
        np.testing.assert_allclose((weight * by_weight).sum(), product_of, atol=1e-10)


def test_the_result_of_a_convolution_is_disposed_with_its_scope() -> None:
    layer = nn.Conv2d(2, 3, 3, padding=1)
    x = tensor.ones((2, 2, 4, 4))
    with new_dispose_scope() as scope:
        y = layer(x)
        y.square().mean().backward()
        assert len(scope) == 1
    assert y.is_invalid
    assert layer.weight.grad is not None
    assert layer.weight.grad.shape == (3, 2, 3, 3)


def test_memory_for_patches_does_not_grow_with_the_batch() -> None:
    def extra(batch: int) -> int:
        with new_dispose_scope():
            x = tensor.ones((batch, 16, 32, 32))
            weight = tensor.ones((16, 16, 3, 3))
            with memory.measure() as step:
                y = F.conv2d(x, weight, padding=1)
            return step.peak_bytes_change - y.nbytes

    assert extra(64) <= extra(32) + 2**16
    assert extra(32) < 4 * 2**20  # all patches would be 19 MiB


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_patches_are_gathered_and_added_up_alike_by_any_number_of_threads(dtype: str) -> None:
    geometry = convolution.Geometry((3, 3), (2, 1), ((1, 1), (2, 0)), (1, 2), 1)
    x = np.random.default_rng(0).standard_normal((2, 64, 33, 35)).astype(dtype)

    def computed() -> list[bytes]:
        columns = convolution.columns_of_patches(x, geometry)
        back = convolution.patches_of_columns(columns, geometry, (33, 35))
        return [columns.tobytes(), back.tobytes()]

    alone = computed()
    with three_threads():
        assert computed() == alone


# Sizes, kernel, stride, groups: planes, tiny ones, rows, a large kernel on a small input, strides, groups.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = [
    ((40, 33), (3, 3), (1, 1), 1),
    ((3, 3), (3, 3), (1, 1), 1),
    ((700,), (9,), (1,), 1),
    ((7, 7), (7, 7), (1, 1), 1),
    ((30, 31), (3, 4), (2, 3), 1),
    ((9, 16, 17), (2, 3, 3), (1, 1, 1), 4),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_convolutions_of_many_samples_are_their_formula_for_any_number_of_threads(
    shape: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int], dtype: str
) -> None:
    sizes, kernel, stride, groups = shape
    geometry = convolution.Geometry(kernel, stride, ((1, 1),) * len(sizes), (1,) * len(sizes), groups)
    drawn = np.random.default_rng(0)
    x = drawn.standard_normal((18, 12, *sizes)).astype(dtype)
    weight = drawn.standard_normal((36, 12 // groups, *kernel)).astype(dtype)
    bias = drawn.standard_normal(36).astype(dtype)
    outs = geometry.outputs(sizes)
    g = drawn.standard_normal((18, 36, *outs)).astype(dtype)

    def computed() -> list[Array]:
        return [
            convolution.convolve(x, weight, geometry, outs, bias),
            convolution.convolve_transposed(g, weight, geometry, sizes, bias[:12]),
            convolution.convolve_for_weight(x, g, geometry),
        ]

    y, by_x, by_weight = alone = computed()
    with three_threads():
        assert [a.tobytes() for a in computed()] == [a.tobytes() for a in alone]
    wide = [a.astype(np.float64) for a in (x, weight, g)]
    expected = plain(*wide[:2], geometry) + bias.reshape(-1, *[1] * len(outs))
    digits = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(y, expected, atol=digits * 100)
    # <conv(x, w), g> = <x, transposed(g, w)> = <w, for_weight(x, g)>, up to the rounding of as many terms.
    product_of, size = ((expected - bias.reshape(-1, *[1] * len(outs))) * wide[2]).sum(), (expected**2).sum()
    of_bias = (wide[0].sum((0, *range(2, x.ndim))) * bias[:12]).sum()
    assert abs((wide[0] * by_x).sum() - of_bias - product_of) < digits * size**0.5 * 10
    assert abs((wide[1] * by_weight).sum() - product_of) < digits * size**0.5 * 10


@pytest.mark.parametrize("channels", [2, 20])
def test_values_that_are_not_finite_appear_where_the_formula_has_them(channels: int) -> None:
    geometry = convolution.Geometry((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    drawn = np.random.default_rng(0)
    x, weight = drawn.standard_normal((1, 2, 6, 20)), drawn.standard_normal((channels, 2, 3, 3))
    x[0, 1, 2, 19], x[0, 1, 5, 0] = np.nan, np.inf  # the last of a row, and the first
    y = convolution.convolve(x, weight, geometry, (6, 20))
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(plain(x, weight, geometry)))
    g = drawn.standard_normal(y.shape)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.empty(weight.shape)
    for i, j in product(range(3), range(3)):
        patch = padded[0, :, i : i + 6, j : j + 20]
        expected[:, :, i, j] = (g[0, :, None] * patch).sum((-2, -1))
    found = convolution.convolve_for_weight(x, g, geometry)
    assert not np.isfinite(found).all()
    np.testing.assert_allclose(found, expected)


def test_convolution_of_tiny_inputs_is_correct_over_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "_PIECE_BYTES", 2000)  # 17 samples at a time
    geometry = convolution.Geometry((2, 3), (1, 1), ((1, 0), (1, 1)), (1, 1), 1)
    drawn = np.random.default_rng(0)
    x, weight = drawn.standard_normal((50, 5, 3, 4)), drawn.standard_normal((3, 5, 2, 3))
    y = convolution.convolve(x, weight, geometry, (3, 4))
    np.testing.assert_allclose(y, plain(x, weight, geometry), atol=1e-12)
    back = convolution.convolve_transposed(y, weight, geometry, (3, 4))
    np.testing.assert_allclose((x * back).sum(), (y * y).sum(), rtol=1e-12)


def test_an_input_without_batch_gives_an_output_without() -> None:
    x, weight, bias = tensor.randn(2, 5), tensor.randn(3, 2, 2), tensor.randn(3)
    alone = F.conv1d(x, weight, bias)
    assert alone.tolist() == F.conv1d(x.unsqueeze(0), weight, bias)[0].tolist()
    assert F.conv_transpose1d(alone, weight).shape == (2, 5)


def test_an_empty_batch_gives_an_empty_output_and_gradients_of_zeros() -> None:
    layer = nn.Conv2d(2, 3, 3)
    y = layer(tensor.zeros((0, 2, 5, 5)))
    assert y.shape == (0, 3, 3, 3)
    y.sum().backward()
    assert layer.weight.grad is not None
    assert not layer.weight.grad.any()


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [(2, 0), (0, 4), (0, 0)], ids=str)
def test_no_channels_give_zeros_and_gradients_of_zeros(
    channels: tuple[int, int], stride: int, kernel: int
) -> None:
    outs, ins = channels
    x = tensor.ones((3, ins, 6), requires_grad=True)
    y = tensor.ones((3, outs, 6), requires_grad=True)
    weight = tensor.ones((outs, ins // 2, kernel), requires_grad=True)
    bias = tensor.ones((outs,), requires_grad=True)
    there = F.conv1d(x, weight, bias, stride=stride, groups=2)
    back = F.conv_transpose1d(y, weight, stride=stride, groups=2)
    assert (there.shape[:2], back.shape[:2]) == ((3, outs), (3, ins // 2 * 2))
    assert (there.detach() == 1).all()
    assert not back.detach().any()
    (there.sum() + back.sum()).backward()
    for leaf in (x, y, weight):
        assert leaf.grad is not None
        assert leaf.grad.shape == leaf.shape
        assert not leaf.grad.any()


def test_float16_is_computed_in_float32_and_stays_float16() -> None:
    x = tensor.full((1, 512, 3, 3), 1.0, dtype=tensor.float16)
    y = F.conv2d(x, tensor.full((1, 512, 3, 3), 1.0, dtype=tensor.float16))
    assert (y.dtype, y.item()) == (tensor.float16, 4608.0)


def test_a_bias_may_be_of_another_dtype() -> None:
    x, weight = tensor.ones((2, 1, 5)), tensor.ones((2, 1, 3))
    for dtype in (tensor.float16, tensor.float64):
        y = F.conv1d(x, weight, tensor.tensor([1.0, 2.0], dtype=dtype), padding=1)
        assert (y.dtype, y[1].tolist()) == (tensor.float32, [[3, 4, 4, 4, 3], [4, 5, 5, 5, 4]])
    half = [a.half() for a in (x, weight, tensor.tensor([1.0, 2.0]))]
    y = F.conv1d(*half)
    assert (y.dtype, y[0, 1].tolist()) == (tensor.float16, [5, 5, 5])


def test_a_channel_or_sample_dimension_of_size_1_may_have_any_stride() -> None:
    drawn = np.random.default_rng(0).standard_normal((3, 6, 7))
    weight = np.random.default_rng(1).standard_normal((1, 1, 3, 3))
    geometry = convolution.Geometry((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    for view in (drawn[:, None], drawn[None, :1]):
        whole = view.copy()
        y, same = (convolution.convolve(x, weight, geometry, (6, 7)) for x in (view, whole))
        assert y.tolist() == same.tolist()
        back, same = (convolution.convolve_transposed(x, weight, geometry, (6, 7)) for x in (view, whole))
        assert back.tolist() == same.tolist()
        by_weight, same = (convolution.convolve_for_weight(x, x, geometry) for x in (view, whole))
        assert by_weight.tolist() == same.tolist()


def test_the_kernel_refuses_what_does_not_fit() -> None:
    geometry = convolution.Geometry((2,), (1,), ((0, 0),), (1,), 1)
    x, weight = np.ones((4, 3, 9)), PackedWeight(np.ones((5, 3, 2)), 1)
    with pytest.raises(TypeError, match="C-contiguous float32 or float64"):
        PaddedInput(x.astype(int), geometry, (8,), 4, 8)
    copy = PaddedInput(x, geometry, (8,), 2, 8)
    with pytest.raises(ValueError, match="a piece must not be larger than the first one"):
        copy.fill(0, 3, 0, 8)
    with pytest.raises(IndexError, match="samples are out of range"):
        copy.fill(3, 2, 0, 8)
    copy.fill(0, 2, 0, 8)
    with pytest.raises(ValueError, match="the result is too small"):
        copy.add_up(weight, None, np.empty((4, 5, 7)))
    with pytest.raises(TypeError, match="one value for each channel"):
        copy.add_up(weight, np.ones(4), np.empty((4, 5, 8)))
    with pytest.raises(TypeError, match="one element for each of a patch"):
        copy.add_up(PackedWeight(np.ones((5, 3, 3)), 1), None, np.empty((4, 5, 8)))
    with pytest.raises(TypeError, match="arrays of one dtype"):
        copy.add_weights(np.ones((4, 5, 8), np.float32), np.empty((1, 6, 5)))
    with pytest.raises(ValueError, match="gradient and result do not match"):
        copy.add_weights(np.ones((4, 5, 8)), np.empty((1, 5, 5)))
    with pytest.raises(TypeError, match="divisible into groups"):
        PackedWeight(np.ones((5, 3, 2)), 2)


def test_two_dtypes_give_the_wider_one() -> None:
    y = F.conv1d(tensor.ones((1, 1, 3)), tensor.ones((1, 1, 2), dtype=tensor.float64))
    assert y.dtype == tensor.float64


def test_same_padding_keeps_the_sizes() -> None:
    for kernel, dilation in product((1, 2, 3, 4), (1, 2)):
        layer = nn.Conv1d(1, 1, kernel, padding="same", dilation=dilation)
        assert layer(tensor.ones((1, 1, 9))).shape == (1, 1, 9)


def test_a_transposed_layer_gives_the_output_size_that_is_asked_for() -> None:
    down, up = nn.Conv2d(1, 2, 3, stride=2), nn.ConvTranspose2d(2, 1, 3, stride=2)
    for size in (7, 8):
        x = tensor.ones((1, 1, size, 9))
        assert up(down(x), output_size=x.shape).shape == x.shape
    with pytest.raises(ValueError, match=r"output_size must be from \(7, 7\) to .* not \(9, 9\)"):
        up(tensor.ones((1, 2, 3, 3)), output_size=(9, 9))


def test_layers_name_their_options() -> None:
    assert repr(nn.Conv2d(2, 4, 3)) == "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1))"
    assert repr(nn.Conv1d(2, 4, 3, 2, 1, 2, 2, bias=False)) == (
        "Conv1d(2, 4, kernel_size=(3,), stride=(2,), padding=(1,), dilation=(2,), groups=2, bias=False)"
    )
    assert repr(nn.ConvTranspose1d(2, 4, 3, 2, output_padding=1)) == (
        "ConvTranspose1d(2, 4, kernel_size=(3,), stride=(2,), output_padding=(1,))"
    )


X, W = (1, 4, 5, 5), (2, 4, 3, 3)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        (((4, 5), W), {}, r"conv2d: input must have shape \(batch, channels, \*sizes\)"),
        ((X, (2, 4, 3)), {}, "conv2d: weight must have 4 dimensions"),
        ((X, (2, 4, 0, 3)), {}, "conv2d: weight must have 4 dimensions"),
        ((X, (2, 3, 3, 3)), {}, r"must have 3 channels, but its shape is \(1, 4, 5, 5\)"),
        (
            (X, (3, 2, 3, 3)),
            {"groups": 2},
            "the output channels of weight, 3, must be divisible by groups, 2",
        ),
        ((X, W, (3,)), {}, r"bias must have shape \(2,\)"),
        ((X, (2, 4, 6, 6)), {}, r"spans \(6, 6\) elements, but the input with its padding has only \(5, 5\)"),
        ((X, W), {"stride": 0}, "stride must be an integer of at least 1"),
        ((X, W), {"stride": (1, 1, 1)}, "stride must be an integer of at least 1, or 2 of them"),
        ((X, W), {"padding": -1}, "padding must be an integer of at least 0"),
        ((X, W), {"padding": "full"}, "padding must be 'valid', 'same' or integers, not 'full'"),
        ((X, W), {"padding": "same", "stride": 2}, "padding='same' requires a stride of 1"),
        ((X, W), {"groups": 0}, "groups must be an integer of at least 1"),
    ],
)
def test_arguments_that_do_not_fit_raise_an_error_that_says_why(
    shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        F.conv2d(*[tensor.ones(shape) for shape in shapes], **options)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ((X, (3, 2, 3, 3)), {}, r"must have 3 channels, but its shape is \(1, 4, 5, 5\)"),
        ((X, (4, 2, 3, 3)), {"groups": 3}, "channels, 4, must be divisible by groups, 3"),
        ((X, (4, 2, 3, 3), (3,)), {}, r"bias must have shape \(2,\)"),
        ((X, (4, 2, 3, 3)), {"output_padding": 1}, "output_padding must be less than stride or dilation"),
        ((X, (4, 2, 3, 3)), {"padding": 9}, "would give an output of sizes"),
    ],
)
def test_transposed_ones_too(
    shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        F.conv_transpose2d(*[tensor.ones(shape) for shape in shapes], **options)


def test_integers_and_fractions_are_refused() -> None:
    with pytest.raises(TypeError, match=r"input must be floating or complex, not int64: .*input\.float\(\)"):
        F.conv1d(tensor.tensor([[1, 2, 3]]), tensor.ones((1, 1, 2)))
    with pytest.raises(TypeError, match="stride must be an integer, or 1 of them"):
        F.conv1d(tensor.ones((1, 1, 3)), tensor.ones((1, 1, 2)), stride=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="groups must divide in_channels, 3, and out_channels, 4"):
        nn.Conv1d(3, 4, 2, groups=2)
    with pytest.raises(ValueError, match="padding='same' requires a stride of 1"):
        nn.Conv1d(3, 4, 2, stride=2, padding="same")
    with pytest.raises(ValueError, match="padding must be integers, not 'same'"):
        nn.ConvTranspose1d(3, 4, 2, padding="same")  # type: ignore[arg-type]


# --- Against PyTorch ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"dilation": 2, "padding": 2},
        {"groups": 2, "bias": False},
        {"groups": 4, "stride": 2},
    ],
)
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_layers_are_pytorchs(space: int, options: dict[str, Any], kind: str) -> None:
    torch = pytest.importorskip("torch")
    name = f"{kind}{space}d"
    ours, theirs = getattr(nn, name)(4, 8, 3, **options), getattr(torch.nn, name)(4, 8, 3, **options)
    assert repr(ours) == repr(theirs)
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    drawn = np.random.default_rng(0).standard_normal((2, 4, *(7, 6, 5)[:space])).astype(np.float32)
    x, their_x = tensor.tensor(drawn).requires_grad_(), torch.tensor(drawn, requires_grad=True)
    y, their_y = ours(x), theirs(their_x)
    np.testing.assert_allclose(y.detach().numpy(), their_y.detach().numpy(), atol=1e-5)
    y.square().sum().backward()
    their_y.square().sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), their_x.grad.numpy(), atol=1e-4)
    for key, parameter in theirs.named_parameters():
        found = dict(ours.named_parameters())[key].grad
        np.testing.assert_allclose(found.numpy(), parameter.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("option", ["stride", "padding", "dilation"])
def test_options_beyond_what_kernels_count_to_are_an_error(option: str) -> None:
    with pytest.raises(ValueError, match=f"conv1d: {option} must be at most 2\\*\\*40"):
        F.conv1d(tensor.ones((1, 1, 3)), tensor.ones((1, 1, 3)), **{option: 2**62})


def test_a_padded_input_of_more_bytes_than_are_counted_is_an_error() -> None:
    apart = 2**32
    with pytest.raises(ValueError, match="the input with its padding has too many elements"):
        F.conv2d(tensor.ones((1, 1, 3, 3)), tensor.ones((1, 1, 3, 3)), padding=apart, dilation=apart)


@pytest.mark.parametrize("dilation", [2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_pads_its_output_where_the_kernel_is_one_element(dilation, groups):
    x = tensor.ones((1, 2, 5), requires_grad=True)
    weight = tensor.ones((2, 1, 1), requires_grad=True)
    y = F.conv_transpose1d(x, weight, dilation=dilation, output_padding=1, groups=groups)
    assert y.tolist() == [[[float(2 // groups)] * 5 + [0.0]] * groups]
    (y * tensor.arange(1.0, 7.0)).sum().backward()
    assert x.grad.tolist() == [[[1.0, 2.0, 3.0, 4.0, 5.0]] * 2]
    assert weight.grad.tolist() == [[[15.0]]] * 2
