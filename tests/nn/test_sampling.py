"""Grids, images read at their places, pools that begin at random, and the softmax of many classes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import nn
import tensor
import tensor.torch
from nn import functional as F
from tensor.autograd import gradcheck, gradgradcheck
from tests.nn.against import both

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return tensor.tensor(np.random.default_rng(sum(shape)).standard_normal(shape)).requires_grad_()


# --- Reading at places --------------------------------------------------------------------------------------

OPTIONS = [
    (space, mode, padding, aligned)
    for space, mode, padding, aligned in product(
        (2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False)
    )
    if (space, mode) != (3, "bicubic")
]


@pytest.mark.parametrize(("space", "mode", "padding", "aligned"), OPTIONS)
def test_images_are_read_as_pytorch_reads_them(space: int, mode: str, padding: str, aligned: bool) -> None:
    for ins, outs, batch in (((5, 4, 3), (3, 4, 2), 2), ((1, 3, 2), (2, 2, 1), 1), ((3, 2, 2), (2, 0, 1), 2)):
        x = RNG.standard_normal((batch, 3, *ins[:space]))
        grid = RNG.uniform(-2.5, 2.5, (batch, *outs[:space], space))
        both(
            lambda functional, x, grid: functional.grid_sample(
                x, grid, mode=mode, padding_mode=padding, align_corners=aligned
            ),
            x,
            grid,
        )


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 1, 2, 5), (2, 3, 4, 5, 3)])
@pytest.mark.parametrize("aligned", [True, False])
def test_grids_of_affine_maps_are_pytorchs(size: tuple[int, ...], aligned: bool) -> None:
    theta = RNG.standard_normal((size[0], len(size) - 2, len(size) - 1))
    both(lambda functional, theta: functional.affine_grid(theta, size, align_corners=aligned), theta)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_reading_at_places_has_first_and_second_derivatives(mode: str, padding: str) -> None:
    x = drawn(1, 2, 3, 4)
    grid = tensor.tensor([[[[0.13, -0.41], [0.6, 0.22], [1.3, -0.37]]]], dtype="float64").requires_grad_()

    def sample(x: Any, grid: Any) -> Any:
        return F.grid_sample(x, grid, mode, padding, False)

    assert gradcheck(sample, (x, grid))
    assert gradgradcheck(sample, (x, grid))
    assert gradcheck(lambda theta: F.affine_grid(theta, (2, 1, 2, 3), True), (drawn(2, 2, 3),))


def test_reading_says_what_does_not_fit() -> None:
    x, grid = tensor.ones((1, 2, 3, 3)), tensor.zeros((1, 2, 2, 2))
    for options, match in (
        ({"mode": "cubic"}, "mode must be one of"),
        ({"padding_mode": "wrap"}, "padding_mode must be one of"),
        ({"grid": tensor.zeros((2, 2, 2, 2))}, "the same batch"),
        ({"grid": tensor.zeros((1, 2, 2, 3))}, r"grid must be .*\(batch, height, width, 2\)"),
        ({"input": tensor.ones((1, 2, 0, 3))}, "no empty image"),
        ({"grid": grid.double()}, r"grid\.to\(input\.dtype\)"),
    ):
        with pytest.raises(ValueError, match=match):
            F.grid_sample(**{"input": x, "grid": grid, **options})
    with pytest.raises(ValueError, match=r"theta must have shape \(batch, 2, 3\)"):
        F.affine_grid(tensor.ones((1, 3, 3)), (1, 1, 2, 2))


# --- Pools that begin at random -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lead", [(2, 3), (3,), (0, 3)])
@pytest.mark.parametrize(
    ("space", "kernel", "options"),
    [
        (2, 2, {"output_size": (4, 5)}),
        (2, (3, 2), {"output_ratio": (0.5, 0.7)}),
        (3, 2, {"output_ratio": 0.6}),
        (3, (2, 3, 1), {"output_size": (7, 1, 6)}),
    ],
)
def test_fractional_pools_are_pytorchs(
    dtype: str, lead: tuple[int, ...], space: int, kernel: Any, options: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    x = RNG.standard_normal((*lead, *(9, 8, 7)[:space])).astype(dtype)
    samples = RNG.random((*(1,) * (2 - len(lead)), *lead, space)).astype(dtype)
    found = []
    for lib, layers in ((tensor, nn), (torch, torch.nn)):
        layer = getattr(layers, f"FractionalMaxPool{space}d")(
            kernel, **options, return_indices=True, _random_samples=lib.asarray(samples)
        )
        given = lib.asarray(x).requires_grad_()
        y, places = layer(given)
        (y * y).sum().backward()
        found.append(
            [y.detach().numpy(), places.numpy(), given.grad.numpy(), repr(layer), list(layer.state_dict())]
        )
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_fractional_pools_draw_and_say_what_does_not_fit() -> None:
    x = tensor.arange(64, dtype="float32").reshape(1, 1, 8, 8)
    tensor.manual_seed(0)
    found = {tuple(F.fractional_max_pool2d(x, 2, 5).flatten().tolist()) for _ in range(20)}
    assert len(found) > 1
    for options, match in (
        ({}, "either output_size or output_ratio"),
        ({"output_size": 2, "output_ratio": 0.5}, "either"),
        ({"output_ratio": 1.5}, "between 0 and 1"),
        ({"output_size": 8}, "size 8 has 7 windows of size 2.*not 8"),
        (
            {"output_size": 2, "_random_samples": tensor.ones((1, 2))},
            r"_random_samples must have shape \(1, 1, 2\)",
        ),
    ):
        with pytest.raises(ValueError, match=match):
            F.fractional_max_pool2d(x, 2, **options)
    for options, match in (({}, "either"), ({"output_ratio": (0.5, 2.0)}, "between 0 and 1")):
        with pytest.raises(ValueError, match=match):
            nn.FractionalMaxPool2d(2, **options)


# --- Many classes -------------------------------------------------------------------------------------------


def softmaxes(**options: Any) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10], **options).double()
    ours = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10], **options).double()
    assert repr(ours) == repr(theirs)
    state = {name: x.numpy() for name, x in theirs.state_dict().items()}
    assert [(name, x.shape) for name, x in ours.state_dict().items()] == [
        (n, x.shape) for n, x in state.items()
    ]
    ours.load_state_dict(state)
    return ours, theirs


@pytest.mark.parametrize("options", [{}, {"div_value": 2.0, "head_bias": True}])
@pytest.mark.parametrize("targets", [[0, 19, 5, 3, 10, 4], [1, 2], [15], 7])
def test_the_adaptive_softmax_is_pytorchs(options: dict[str, Any], targets: Any) -> None:
    ours, theirs = softmaxes(**options)
    torch = pytest.importorskip("torch")
    wanted = np.array(targets)
    x = RNG.standard_normal((*wanted.shape, 16))
    found = []
    for lib, layer in ((tensor, ours), (torch, theirs)):
        given = lib.asarray(x).requires_grad_()
        output, loss = layer(given, lib.asarray(wanted))
        loss.backward()
        grads = [np.zeros(0) if p.grad is None else p.grad.numpy() for p in layer.parameters()]
        found.append([output.detach().numpy(), loss.item(), given.grad.numpy(), *grads])
        if x.ndim == 2:
            found[-1] += [layer.log_prob(given).detach().numpy(), layer.predict(given).numpy()]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_the_adaptive_softmax_has_second_derivatives_and_says_what_does_not_fit() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10]).double()
    targets = tensor.tensor([0, 5, 12])
    assert gradcheck(lambda x: layer(x, targets).output, (drawn(3, 16),))
    assert gradgradcheck(lambda x: layer(x, targets).output, (drawn(3, 16),))
    before = layer.head.weight.tolist()
    layer.reset_parameters()
    assert layer.head.weight.tolist() != before
    for cutoffs in ([], [3, 3], [5, 2], [0, 5], [20], [2.5]):
        with pytest.raises(ValueError, match="ascending integers from 1 to n_classes - 1"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)  # type: ignore[arg-type]
    x = drawn(3, 16)
    for given, match in ((tensor.tensor([0, 20, 1]), "from 0 to 19"), (tensor.tensor([0, 1]), "target")):
        with pytest.raises(RuntimeError, match=match):
            layer(x, given)


# --- PyTorch's second names ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*upsample.*:UserWarning", "ignore:.*upsample.*:FutureWarning")
@pytest.mark.parametrize(
    "line",
    [
        *(f"max_pool{n}d_with_indices(x{n}, 2, 1)" for n in (1, 2, 3)),
        *(f"adaptive_max_pool{n}d_with_indices(x{n}, 2)" for n in (1, 2, 3)),
        "upsample_nearest(x2, scale_factor=2)",
        "upsample_bilinear(x2, (7, 5))",
        "native_channel_shuffle(x2, 2)",
    ],
)
def test_aliases_do_the_same_as_those_of_pytorch(line: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (tensor.torch, torch):
        x = {
            f"x{n}": lib.asarray(np.random.default_rng(n).standard_normal((2, 4, 3, 4, 5)[: n + 2]))
            for n in (1, 2, 3)
        }
        y = eval(f"F.{line}", {"F": lib.nn.functional, **x})
        found.append([part.numpy() for part in (y if isinstance(y, tuple) else (y,))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
