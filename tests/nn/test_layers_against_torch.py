"""Layers give PyTorch's values and gradients, in both precisions, and have its `repr`, keys and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor

torch = pytest.importorskip("torch")

Shape = tuple[int, ...]

# Layers as programs write them, and the shapes that they are given; odd sizes, empty and missing batches too.
LAYERS: list[tuple[str, *tuple[Shape, ...]]] = [
    *[
        (f"{name}({options})", (40,), (2, 3, 4), (0, 3))
        for name, *all_options in (
            ("CELU", "", "alpha=0.7", "inplace=True"),
            ("SELU", "", "inplace=True"),
            ("Mish", "", "inplace=True"),
            ("Hardtanh", "", "-0.3, 0.6", "inplace=True"),
            ("ReLU6", "", "inplace=True"),
            ("Hardsigmoid", "", "inplace=True"),
            ("Hardswish", "", "inplace=True"),
            ("Hardshrink", "", "0.2"),
            ("Softshrink", "", "0.2"),
            ("Threshold", "0.1, 20", "0.1, -2.5, True"),
            ("LogSigmoid", ""),
            ("Softsign", ""),
            ("Tanhshrink", ""),
        )
        for options in all_options
    ],
    ("GLU()", (6,), (3, 4)),
    ("GLU(dim=1)", (3, 4, 5)),
    ("PReLU()", (5,), (2, 3, 4)),
    ("PReLU(3, init=0.1)", (4, 3), (2, 3, 4, 2)),
    ("Softmin(dim=1)", (2, 3, 4)),
    ("Softmax2d()", (2, 3, 4, 2), (3, 4, 2)),
    ("MaxPool1d(3)", (2, 3, 10), (3, 7), (0, 3, 7)),
    ("MaxPool1d(3, stride=1, padding=1, dilation=2, ceil_mode=True)", (2, 3, 9)),
    ("MaxPool2d(2)", (2, 3, 7, 5), (3, 4, 4), (0, 3, 4, 4)),
    ("MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2))", (2, 3, 7, 6)),
    ("MaxPool2d(3, 2, 1, ceil_mode=True)", (2, 3, 8, 6)),
    ("MaxPool3d(2, stride=(1, 2, 3))", (2, 3, 4, 5, 6), (3, 4, 5, 6)),
    ("MaxPool3d(3, 2, 1, return_indices=True)", (2, 3, 4, 5, 6)),
    ("MaxPool2d(2, return_indices=True)", (2, 3, 7, 5)),
    ("AvgPool1d(3)", (2, 3, 10), (3, 7)),
    ("AvgPool1d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)", (2, 3, 8)),
    ("AvgPool2d(2)", (2, 3, 7, 5), (3, 4, 4), (0, 3, 4, 4)),
    ("AvgPool2d((3, 2), stride=(2, 1), padding=(1, 0), ceil_mode=True)", (2, 3, 8, 5)),
    ("AvgPool2d(3, 1, 1, count_include_pad=False)", (2, 3, 4, 5)),
    ("AvgPool2d(3, 1, 1, divisor_override=5)", (2, 3, 4, 5)),
    ("AvgPool3d(2, (1, 2, 1), 1)", (2, 3, 4, 5, 3), (3, 4, 5, 3)),
    ("AdaptiveAvgPool1d(4)", (2, 3, 10), (3, 3), (0, 3, 5)),
    ("AdaptiveAvgPool2d((3, None))", (2, 3, 7, 5), (3, 2, 4)),
    ("AdaptiveAvgPool2d(1)", (2, 3, 7, 5)),
    ("AdaptiveAvgPool3d((3, 1, 7))", (2, 3, 4, 5, 6)),
    ("AdaptiveMaxPool1d(4)", (2, 3, 10), (3, 3)),
    ("AdaptiveMaxPool2d((3, None), return_indices=True)", (2, 3, 7, 5), (3, 2, 4)),
    ("AdaptiveMaxPool3d(2)", (2, 3, 4, 5, 6)),
    ("LPPool1d(2, 3, stride=1)", (2, 3, 7)),
    ("LPPool2d(2, (2, 3), ceil_mode=True)", (2, 3, 5, 7)),
    ("LPPool3d(4, 2)", (2, 3, 4, 4, 4)),
    ("BatchNorm1d(3)", (4, 3), (4, 3, 5)),
    ("BatchNorm2d(3)", (4, 3, 5, 2), (1, 3, 2, 1)),
    ("BatchNorm2d(3, eps=0.1, momentum=None, affine=False)", (4, 3, 5, 2)),
    ("BatchNorm2d(3, track_running_stats=False)", (4, 3, 5, 2)),
    ("BatchNorm3d(3, momentum=0.3)", (4, 3, 2, 5, 2)),
    ("InstanceNorm1d(3)", (4, 3, 5), (3, 5)),
    ("InstanceNorm2d(3, affine=True)", (4, 3, 5, 2), (3, 5, 2)),
    ("InstanceNorm3d(3, affine=True, track_running_stats=True)", (4, 3, 2, 5, 2)),
    ("GroupNorm(2, 6)", (4, 6), (3, 6, 5), (2, 6, 3, 4), (0, 6, 3)),
    ("GroupNorm(3, 6, eps=0.1, affine=False)", (3, 6, 5)),
    ("LocalResponseNorm(2)", (2, 5, 3), (2, 5, 3, 2)),
    ("LocalResponseNorm(3, alpha=0.5, beta=0.5, k=2.0)", (2, 5, 3, 2, 2)),
    ("PixelShuffle(2)", (2, 8, 3, 4), (8, 3, 4)),
    ("PixelUnshuffle(2)", (2, 3, 4, 6), (3, 4, 6)),
    ("ChannelShuffle(3)", (2, 6, 4), (2, 6, 3, 2)),
    ("Upsample(scale_factor=2)", (2, 3, 5), (2, 3, 4, 5), (1, 2, 2, 3, 4)),
    ("Upsample(size=7)", (2, 3, 5), (2, 3, 4, 9)),
    ("Upsample(scale_factor=1.6, mode='nearest-exact')", (2, 3, 5), (2, 3, 4, 5)),
    ("Upsample(scale_factor=1.6, mode='linear')", (2, 3, 5)),
    ("Upsample(scale_factor=(1.6, 0.7), mode='bilinear')", (2, 3, 5, 7)),
    ("Upsample(scale_factor=1.6, mode='bilinear', recompute_scale_factor=True)", (2, 3, 5, 7)),
    ("Upsample(size=(3, 11), mode='bicubic', align_corners=True)", (2, 3, 5, 4)),
    ("Upsample(scale_factor=2.3, mode='bicubic')", (2, 3, 5, 4)),
    ("Upsample(size=(3, 8, 2), mode='trilinear', align_corners=False)", (2, 3, 4, 5, 6)),
    ("Upsample(size=(3, 8), mode='area')", (2, 3, 5, 6)),
    ("UpsamplingNearest2d(scale_factor=2)", (2, 3, 4, 5)),
    ("UpsamplingBilinear2d(size=(5, 7))", (2, 3, 4, 5)),
    *[
        (f"{kind}Pad1d({padding})", (2, 3, 5), (3, 5))
        for kind in ("Reflection", "Replication", "Circular", "Zero")
        for padding in ("2", "(3, 1)", "(2, -1)")
    ],
    *[
        (f"{kind}Pad{n}d({padding})", (2, 3, 4, 5, 4)[: n + 2], (3, 5, 4, 3)[: n + 1])
        for kind in ("Reflection", "Replication", "Circular", "Zero")
        for n, padding in ((2, "(1, 2, 0, 3)"), (3, "(1, 2, 0, 2, 1, 0)"))
    ],
    ("ConstantPad1d(2, 0.5)", (2, 3, 5), (5,)),
    ("ConstantPad2d((1, 2, -1, 0), -3.5)", (2, 3, 4, 5), (3, 4, 5)),
    ("ConstantPad3d(1, 7)", (2, 3, 4, 5, 6)),
    ("Unfold(2)", (2, 3, 4, 5), (3, 4, 5)),
    ("Unfold((3, 2), dilation=(1, 2), padding=1, stride=(2, 1))", (2, 3, 4, 5)),
    ("Fold((4, 5), 2)", (2, 12, 12), (12, 12)),
    ("Fold((4, 5), (3, 2), dilation=(1, 2), padding=1, stride=(2, 1))", (2, 6, 10)),
    *[
        (f"Conv{n}d(2, 3, 3, padding=1, padding_mode='{mode}')", (2, 2, 4, 5, 6)[: n + 2])
        for mode in ("reflect", "replicate", "circular")
        for n in ((1, 2, 3) if mode != "reflect" else (1, 2))
    ],
    ("Conv2d(2, 3, (2, 3), padding='same', padding_mode='circular', dilation=2)", (2, 2, 6, 5)),
]
CASES = [(source, shape) for source, *shapes in LAYERS for shape in shapes]


def made(source: str, dtype: str) -> tuple[Any, Any]:
    """Return the layer of each library, with the same random parameters and buffers."""
    ours, theirs = eval(f"nn.{source}", {"nn": nn}), eval(f"nn.{source}", {"nn": torch.nn})
    assert repr(ours) == repr(theirs)
    ours, theirs = ours.to(dtype), theirs.to(getattr(torch, dtype))
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    drawn = np.random.default_rng(0)
    for key, value in state.items():
        if value.dtype.kind == "f":
            value[...] = drawn.uniform(0.2, 1.5, value.shape)
        assert tuple(ours.state_dict()[key].shape) == value.shape
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    return ours, theirs


def compare(ours: Any, theirs: Any, dtype: str, what: str) -> None:
    # PyTorch has some constants in single precision.
    loose = 2e-4 if dtype == "float32" else 1e-7
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=loose, atol=loose / 10, err_msg=what)


def run(ours: Any, theirs: Any, shape: Shape, dtype: str) -> None:
    """Compare what comes out, all gradients, and the buffers behind it."""
    drawn = np.random.default_rng(1)
    values = drawn.standard_normal(shape).astype(dtype)
    x, their_x = tensor.tensor(values).requires_grad_(), torch.tensor(values, requires_grad=True)
    # A copy for those that write over it.
    y, their_y = ours(x * 1), theirs(their_x * 1)
    if isinstance(y, tuple):
        np.testing.assert_array_equal(y[1].numpy(), their_y[1].numpy())
        assert y[1].dtype == np.int64
        y, their_y = y[0], their_y[0]
    assert tuple(y.shape) == tuple(their_y.shape)
    assert y.dtype == dtype
    compare(y.detach(), their_y.detach(), dtype, "output")
    weights = drawn.standard_normal(y.shape).astype(dtype)
    (y * tensor.tensor(weights)).sum().backward()
    (their_y * torch.tensor(weights)).sum().backward()
    compare(x.grad, their_x.grad, dtype, "input")
    found = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        compare(found[name].grad, parameter.grad, dtype, name)
    for name, buffer in theirs.state_dict().items():
        compare(ours.state_dict()[name], buffer, dtype, name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("source", "shape"), CASES, ids=lambda part: str(part))
def test_layers_are_pytorchs(source: str, shape: Shape, dtype: str) -> None:
    ours, theirs = made(source, dtype)
    run(ours, theirs, shape, dtype)
    if 0 not in shape and any("running" in name for name, _ in ours.named_buffers()):
        for layer in (ours, theirs):
            layer.zero_grad()
            layer.eval()
        run(ours, theirs, shape, dtype)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 3, 6, 4), {}),
        ((2, 3, 7, 5), {"output_size": (2, 3, 7, 5)}),
        ((3, 7, 5), {"output_size": (7, 5)}),
    ],
)
def test_unpooling_is_pytorchs(shape: Shape, options: dict[str, Any]) -> None:
    values = np.random.default_rng(0).standard_normal(shape)
    found = []
    for lib, layers in ((tensor, nn), (torch, torch.nn)):
        x = lib.asarray(values).requires_grad_()
        y = layers.MaxUnpool2d(2)(*layers.MaxPool2d(2, return_indices=True)(x), **options)
        y.square().sum().backward()
        found.append([repr(layers.MaxUnpool2d(2)), y.detach().numpy(), x.grad.numpy()])
    assert found[0][0] == found[1][0]
    for ours, theirs in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "options",
    [
        "mode='sum'", "mode='mean'", "mode='max'", "mode='sum', padding_idx=2", "mode='mean', padding_idx=-1",
        "mode='max', padding_idx=2", "mode='sum', max_norm=1.0",
        "mode='mean', max_norm=1.0, norm_type=1.0", "mode='sum', include_last_offset=True",
    ],
)  # fmt: skip
@pytest.mark.parametrize("flat", [True, False])
def test_bags_of_embeddings_are_pytorchs(options: str, flat: bool) -> None:
    entries = np.array([[2, 0, 2], [1, 2, 4]])
    found = []
    last = [6] if "last" in options else []
    for lib, layers in ((tensor, nn), (torch, torch.nn)):
        layer = eval(f"nn.EmbeddingBag(5, 3, {options}, _weight=rows)", {
            "nn": layers, "rows": lib.asarray(np.random.default_rng(0).standard_normal((5, 3))),
        })  # fmt: skip
        given = (lib.asarray(entries.reshape(-1)), lib.asarray(np.array([0, 2, 2, 5, *last])))
        y = layer(*given) if flat else layer(lib.asarray(entries))
        y.square().sum().backward()
        weight = layer.weight
        found.append([repr(layer), y.detach().numpy(), weight.grad.numpy(), weight.detach().numpy()])
    assert found[0][0] == found[1][0]
    for ours, theirs in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_weights_of_entries_are_pytorchs() -> None:
    found = []
    for lib, layers in ((tensor, nn), (torch, torch.nn)):
        drawn = np.random.default_rng(0)
        rows = lib.asarray(drawn.standard_normal((5, 3))).requires_grad_()
        shares = lib.asarray(drawn.standard_normal((2, 3))).requires_grad_()
        entries = lib.asarray(np.array([[2, 0, 2], [1, 2, 4]]))
        y = layers.functional.embedding_bag(
            entries, rows, mode="sum", per_sample_weights=shares, padding_idx=0
        )
        y.square().sum().backward()
        found.append([y.detach().numpy(), rows.grad.numpy(), shares.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        "",
        "padding_idx=1",
        "max_norm=1.0",
        "max_norm=2.0, norm_type=3.0",
        "scale_grad_by_freq=True",
        "sparse=True",
    ],
)
def test_embeddings_are_pytorchs(options: str) -> None:
    found = []
    for lib, layers in ((tensor, nn), (torch, torch.nn)):
        layer = eval(f"nn.Embedding(5, 3, {options})", {"nn": layers})
        with lib.no_grad():
            layer.weight.copy_(lib.asarray(np.random.default_rng(0).standard_normal((5, 3))))
        y = layer(lib.asarray(np.array([[2, 0, 2], [1, 2, 4]])))
        y.square().sum().backward()
        gradient = layer.weight.grad
        gradient = gradient.to_dense() if lib is torch and gradient.is_sparse else gradient
        found.append([repr(layer), y.detach().numpy(), gradient.numpy(), layer.weight.detach().numpy()])
    assert found[0][0] == found[1][0]
    for ours, theirs in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_bilinear_maps_are_pytorchs() -> None:
    ours, theirs = made("Bilinear(3, 4, 2)", "float64")
    drawn = np.random.default_rng(0)
    arrays = [drawn.standard_normal((5, 6, n)) for n in (3, 4)]
    inputs = [tensor.tensor(array).requires_grad_() for array in arrays]
    their_inputs = [torch.tensor(array, requires_grad=True) for array in arrays]
    y, their_y = ours(*inputs), theirs(*their_inputs)
    compare(y.detach(), their_y.detach(), "float64", "output")
    y.square().sum().backward()
    their_y.square().sum().backward()
    for x, their_x in zip([*inputs, *ours.parameters()], [*their_inputs, *theirs.parameters()], strict=True):
        compare(x.grad, their_x.grad, "float64", "gradient")


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(3, 4), (11, 6), (5, 15)])
def test_smoothing_while_resizing_is_pytorchs(mode: str, size: tuple[int, int]) -> None:
    values = np.random.default_rng(0).standard_normal((2, 3, 7, 9))
    ours = nn.functional.interpolate(tensor.tensor(values), size, mode=mode, antialias=True)
    theirs = torch.nn.functional.interpolate(torch.tensor(values), size, mode=mode, antialias=True)
    compare(ours, theirs, "float64", mode)


@pytest.mark.parametrize(
    "name", ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]
)
def test_dropouts_draw_as_many_values_as_pytorchs_and_print_as_they_do(name: str) -> None:
    ours, theirs = getattr(nn, name)(0.3, inplace=False), getattr(torch.nn, name)(0.3, inplace=False)
    assert repr(ours) == repr(theirs)
    shape = {"Dropout1d": (200, 5, 3), "Dropout2d": (200, 5, 3, 2)}.get(name, (200, 5, 3, 2, 2))
    values = np.random.default_rng(0).standard_normal(shape)
    y, their_y = ours(tensor.tensor(values)).numpy(), theirs(torch.tensor(values)).numpy()
    # The same elements may become either of two values, whole channels alike.
    low, high = np.minimum(their_y, y), np.maximum(their_y, y)
    differ = low != high
    assert 0.3 < differ.mean() < 0.54
    assert abs(y.mean() - their_y.mean()) < 0.2
    assert abs(y.std() - their_y.std()) < 0.2
    if name not in ("Dropout", "AlphaDropout"):
        assert (differ == differ[:, :, *[slice(0, 1)] * (len(shape) - 2)]).all()


EDGES = [-float("inf"), -6.0, -3.0, -0.5, -0.0, 0.0, 0.5, 3.0, 6.0, float("inf"), float("nan")]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hardtanh", (-0.5, 3.0)), ("relu6", ()), ("hardsigmoid", ()), ("hardswish", ()),
        ("hardshrink", (0.5,)), ("softshrink", (0.5,)), ("threshold", (0.5, 7.0)),
        ("celu", ()), ("selu", ()), ("softsign", ()),
    ],
)  # fmt: skip
def test_activations_and_their_slopes_are_pytorchs_at_their_edges(
    name: str, options: tuple[Any, ...]
) -> None:
    x, their_x = tensor.tensor(EDGES).requires_grad_(), torch.tensor(EDGES, requires_grad=True)
    y, their_y = (
        getattr(nn.functional, name)(x, *options),
        getattr(torch.nn.functional, name)(their_x, *options),
    )
    np.testing.assert_allclose(y.detach().numpy(), their_y.detach().numpy(), rtol=1e-6, atol=1e-7)
    y.backward(tensor.ones(y.shape))
    their_y.backward(torch.ones(y.shape))
    # What the slope at nan is, nobody has agreed on.
    np.testing.assert_allclose(x.grad.numpy()[:-1], their_x.grad.numpy()[:-1], rtol=1e-6, atol=1e-7)


def test_slopes_that_are_drawn_are_as_pytorchs_are() -> None:
    ours, theirs = nn.RReLU(0.2, 0.6), torch.nn.RReLU(0.2, 0.6)
    assert repr(ours) == repr(theirs)
    slopes = -ours(-tensor.ones((10_000,)))
    assert 0.2 <= slopes.min().item() < 0.21
    assert 0.59 < slopes.max().item() <= 0.6
    values = np.linspace(-2, 2, 9)
    compare(ours.eval()(tensor.tensor(values)), theirs.eval()(torch.tensor(values)), "float64", "evaluation")


@pytest.mark.parametrize(
    "call",
    [
        "normalize(x)", "normalize(x, p=1.0, dim=0)", "normalize(x, dim=-1, eps=0.5)",
        "pdist(x)", "pdist(x, 1.0)",
        "relu_(x * 1)", "leaky_relu_(x * 1, 0.3)", "elu_(x * 1)", "celu_(x * 1)", "selu_(x * 1)",
        "hardtanh_(x * 1)", "threshold_(x * 1, 0.1, 2.0)", "rrelu_(x * 1)",
    ],
)  # fmt: skip
def test_functions_are_pytorchs(call: str) -> None:
    values = np.random.default_rng(0).standard_normal((5, 4))
    found = []
    for lib, layers in ((tensor, nn), (torch, torch.nn)):
        x = lib.asarray(values).requires_grad_()
        y = eval(f"F.{call}", {"F": layers.functional, "x": x})
        y.square().sum().backward()
        found.append([y.detach().numpy(), x.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-10)


def test_samples_of_classes_follow_their_chances() -> None:
    logits = np.log([0.2, 0.5, 0.3])
    drawn = nn.functional.gumbel_softmax(tensor.tensor(logits).expand(20_000, 3), hard=True)
    theirs = torch.nn.functional.gumbel_softmax(torch.tensor(logits).expand(20_000, 3), hard=True)
    np.testing.assert_allclose(drawn.mean(dim=0).numpy(), [0.2, 0.5, 0.3], atol=0.02)
    np.testing.assert_allclose(drawn.mean(dim=0).numpy(), theirs.mean(dim=0).numpy(), atol=0.03)
    x = tensor.tensor(logits, requires_grad=True)
    (nn.functional.gumbel_softmax(x, hard=True) * tensor.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum().item() > 0
