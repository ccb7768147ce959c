"""Batch, instance and group norms against their formulas; running figures; dropout of channels; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from tensor import autograd

Array = np.ndarray[Any, Any]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape) * 2 + 1


def normal(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(4, 6), (3, 6, 5), (2, 6, 3, 4), (1, 6, 2, 3, 2)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_a_group_norm_is_its_formula(shape: tuple[int, ...], groups: int) -> None:
    if groups == 6 and len(shape) == 2:
        shape = (4, 12)
    x, channels = numbers(*shape), shape[1]
    weight, bias = numbers(channels), numbers(channels) + 1
    parts = x.reshape(shape[0], groups, -1)
    wide = (channels, *[1] * (len(shape) - 2))
    expected = normal(parts, (2,)).reshape(shape) * weight.reshape(wide) + bias.reshape(wide)
    found = F.group_norm(tensor.tensor(x), groups, tensor.tensor(weight), tensor.tensor(bias))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("space", [1, 2, 3])
def test_an_instance_norm_is_its_formula_with_and_without_a_batch(space: int) -> None:
    x = numbers(2, 3, *(4, 5, 2)[:space])
    layer = getattr(nn, f"InstanceNorm{space}d")(3, dtype="float64")
    expected = normal(x, tuple(range(2, x.ndim)))
    np.testing.assert_allclose(layer(tensor.tensor(x)).numpy(), expected, atol=1e-10)
    np.testing.assert_allclose(layer(tensor.tensor(x[1])).numpy(), expected[1], atol=1e-10)
    assert list(layer.state_dict()) == []


@pytest.mark.parametrize("space", [2, 3])
def test_a_batch_norm_is_its_formula_and_keeps_running_figures(space: int) -> None:
    x = numbers(4, 3, *(4, 5, 2)[:space])
    axes = (0, *range(2, x.ndim))
    layer = getattr(nn, f"BatchNorm{space}d")(3, dtype="float64")
    np.testing.assert_allclose(layer(tensor.tensor(x)).detach().numpy(), normal(x, axes), atol=1e-10)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.mean(axes))
    np.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * x.var(axes, ddof=1))


def test_running_figures_of_instances_are_means_over_the_batch() -> None:
    x = numbers(4, 3, 5)
    layer = nn.InstanceNorm1d(3, affine=True, track_running_stats=True, dtype="float64")
    layer(tensor.tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.mean((0, 2)))
    np.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * x.var(2, ddof=1).mean(0))
    assert layer.num_batches_tracked.item() == 0  # as in PyTorch


def test_a_forward_pass_that_is_repeated_for_backward_counts_once() -> None:
    layer = nn.InstanceNorm1d(3, track_running_stats=True)
    x = tensor.tensor(numbers(4, 3, 5).astype("float32")).requires_grad_()
    y = autograd.checkpoint(layer, x)
    before = layer.running_mean.tolist()
    y.sum().backward()
    assert layer.running_mean.tolist() == before


def test_local_response_norm_is_its_formula() -> None:
    x = numbers(2, 5, 3)
    found = F.local_response_norm(tensor.tensor(x), 3, alpha=0.5, beta=0.75, k=2.0).numpy()
    for c in range(5):
        around = (x[:, max(c - 1, 0) : c + 2] ** 2).sum(1) / 3
        np.testing.assert_allclose(found[:, c], x[:, c] / (2 + 0.5 * around) ** 0.75, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (
            nn.BatchNorm1d(3),
            (4, 2),
            r"BatchNorm1d: input must have shape \(batch, 3\) or \(batch, 3, length\)",
        ),
        (nn.BatchNorm2d(3), (4, 3, 5), r"BatchNorm2d: .* \(batch, 3, height, width\), not \(4, 3, 5\)"),
        (nn.BatchNorm3d(3), (4, 2, 5, 5, 5), "BatchNorm3d"),
        (nn.BatchNorm2d(3), (1, 3, 1, 1), "each channel must have more than one value"),
        (nn.InstanceNorm2d(3), (3, 5), r"or \(3, height, width\), not \(3, 5\)"),
        (nn.InstanceNorm1d(3), (4, 3, 1), "each channel must have more than one element"),
        (nn.GroupNorm(2, 4), (3, 6, 2), r"weight must have shape \(6,\), not \(4,\)"),
        (nn.GroupNorm(2, 4), (3, 5, 2), "num_groups must divide channels"),
        (nn.GroupNorm(2, 2), (1, 2), "each group must have more than one value"),
        (nn.LocalResponseNorm(2), (3, 2), r"input must have shape \(batch, channels, \*sizes\)"),
        (nn.Dropout1d(), (4,), r"dropout1d: input must have 2 or 3 dimensions, not shape \(4,\)"),
        (nn.Dropout3d(), (4, 1, 1), "must have 4 or 5 dimensions"),
        (nn.FeatureAlphaDropout(), (4,), r"must have shape \(batch, channels, \*\), not \(4,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_an_error_that_says_why(
    layer: nn.Module, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        layer(tensor.ones(shape))


def test_options_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ValueError, match="num_groups must divide num_channels, 5, and 2 does not"):
        nn.GroupNorm(2, 5)
    with pytest.raises(ValueError, match="size must be a number of channels"):
        F.local_response_norm(tensor.ones((1, 2, 3)), 0)
    with pytest.raises(ValueError, match="Dropout2d: p must be from 0 to 1"):
        nn.Dropout2d(1.5)
    with pytest.raises(ValueError, match="padding must be an integer, or 4 of them"):
        nn.ReflectionPad2d((1, 2))
    with pytest.raises(ValueError, match="padding_mode must be 'zeros' or"):
        nn.Conv2d(1, 1, 3, padding_mode="mirror")
    with pytest.raises(ValueError, match="padding_mode must be 'zeros', not 'reflect'"):
        nn.ConvTranspose2d(1, 1, 3, padding_mode="reflect")


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: nn.Conv2d(1, 1, 3, **given), lambda **given: nn.ConvTranspose1d(1, 1, 3, **given),
        lambda **given: nn.LSTM(1, 1, **given), lambda **given: nn.RNN(1, 1, **given),
        lambda **given: nn.GRU(1, 1, **given), lambda **given: nn.RNNCell(1, 1, **given),
        lambda **given: nn.LSTMCell(1, 1, **given), lambda **given: nn.BatchNorm2d(1, **given),
        lambda **given: nn.InstanceNorm1d(1, affine=True, **given), lambda **given: nn.GroupNorm(1, 1,
        **given), lambda **given: nn.RMSNorm(1, **given), lambda **given: nn.EmbeddingBag(1, 1, **given),
        lambda **given: nn.Bilinear(1, 1, 1, **given),
    ],
)  # fmt: skip
def test_layers_take_the_device_and_a_dtype(make: Any) -> None:
    layer = make(device="cpu", dtype="float64")
    assert {str(parameter.dtype) for parameter in layer.parameters()} == {"float64"}
    with pytest.raises(ValueError, match="device 'cuda' does not exist"):
        make(device="cuda")


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"])
@pytest.mark.parametrize("inplace", [True, False])
def test_channels_are_dropped_whole_and_by_the_seed(name: str, inplace: bool) -> None:
    shape = {"dropout1d": (30, 4, 3), "dropout2d": (30, 4, 3, 2)}.get(name, (30, 4, 3, 2, 2))
    found = []
    for _ in range(2):
        x = tensor.ones(shape)
        generator = tensor.Generator().manual_seed(1)
        y = getattr(F, name)(x, 0.4, True, inplace, generator=generator)
        assert (y is x) == inplace
        found.append(y.numpy().reshape(120, -1))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] == found[0][:, :1]).all()
    assert len(np.unique(found[0])) == 2
    assert 0.4 < (found[0][:, 0] == found[0].max()).mean() < 0.8


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    y = F.alpha_dropout(tensor.randn(200_000, generator=tensor.Generator().manual_seed(0)), 0.3, True)
    assert abs(y.mean().item()) < 0.02
    assert abs(y.std().item() - 1) < 0.02
    assert F.alpha_dropout(tensor.ones((3,)), 1.0, True).tolist() == [0.0, 0.0, 0.0]
    x = tensor.ones((3,))
    assert F.alpha_dropout(x) is x


EMPTY = [
    *((nn.BatchNorm1d, shape) for shape in ((0, 3), (0, 3, 4), (2, 3, 0))),
    *((nn.BatchNorm2d, (0, 3, 2, 2)), (nn.BatchNorm3d, (0, 3, 2, 2, 2))),
    *((nn.InstanceNorm1d, shape) for shape in ((0, 3, 4), (2, 3, 0))),
    *((nn.InstanceNorm2d, (0, 3, 2, 2)), (nn.InstanceNorm3d, (0, 3, 2, 2, 2))),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("layer", "shape"), EMPTY)
def test_an_empty_batch_is_normalized_and_leaves_running_figures_as_they_are(
    layer: Any, shape: tuple[int, ...], training: bool
) -> None:
    norm = layer(3, affine=True, track_running_stats=True).train(training)
    norm.running_mean.fill_(5.0)
    x = tensor.ones(shape, requires_grad=True)
    out = norm(x)
    out.sum().backward()
    assert out.shape == shape
    assert x.grad is not None
    assert x.grad.shape == shape
    assert norm.weight.grad.tolist() == norm.bias.grad.tolist() == [0.0, 0.0, 0.0]
    assert norm.running_mean.tolist() == [5.0, 5.0, 5.0]
    assert norm.running_var.tolist() == [1.0, 1.0, 1.0]


def test_an_empty_batch_needs_no_running_figures() -> None:
    x = tensor.ones((0, 3), requires_grad=True)
    for training in (True, False):
        assert F.batch_norm(x, None, None, training=training).shape == (0, 3)


def test_a_batch_norm_that_no_longer_tracks_keeps_its_running_figures() -> None:
    x = tensor.from_numpy(numbers(8, 3)).float()
    norm = nn.BatchNorm1d(3)
    norm(x)
    before = {name: value.tolist() for name, value in norm.named_buffers()}
    norm.track_running_stats = False
    np.testing.assert_allclose(norm(x).detach().numpy(), normal(numbers(8, 3), (0,)), rtol=1e-4, atol=1e-5)
    assert {name: value.tolist() for name, value in norm.named_buffers()} == before
