"""Gradients of random networks are PyTorch's: of all parameters and of the data, and second ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
from nn.functional import densities
from nn.functional.rare import ctc, margins
from tensor import autograd
from tests.nn.random_networks import Array, Library, Network, draw, ours

torch = pytest.importorskip("torch")
from tests.nn.test_layers_against_torch import LAYERS  # noqa: E402  # needs PyTorch

NETWORKS = 300
TWICE = 100


def theirs(dtype: str) -> Library:
    return Library(torch, torch.nn, getattr(torch, dtype))


def prepared(network: Network, to: Library, seed: int) -> tuple[Any, Any, list[Any]]:
    """Return the model, the data, and all that has a gradient."""
    model = network.build(to, seed)
    x = to.tensor(network.data)
    wanted = [p for _, p in model.named_parameters()]
    if network.data.dtype.kind == "f":
        x.requires_grad_()
        wanted.append(x)
    return model, x, wanted


def gradients(network: Network, to: Library, seed: int) -> dict[str, Array]:
    """Return the loss and all gradients, by name."""
    model, x, wanted = prepared(network, to, seed)
    loss = network.forward(to, model, x)
    loss.backward()
    names = [*[name for name, _ in model.named_parameters()], "data"]
    found = {"loss": loss.detach().numpy()}
    for name, y in zip(names, wanted, strict=False):
        found[name] = np.zeros(tuple(y.shape)) if y.grad is None else y.grad.numpy()
    return found


def assert_close(found: dict[str, Array], expected: dict[str, Array]) -> None:
    """Hold that all elements agree to 1e-5, and what cancels to the precision of double numbers."""
    assert list(found) == list(expected)
    scale = max(float(np.abs(g).max(initial=0)) for g in expected.values())
    assert np.isfinite(scale)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-12 * scale, err_msg=name)


def flat(found: dict[str, Array]) -> Array:
    return np.concatenate([g.reshape(-1).astype(np.float64) for g in found.values()])


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_gradients_of_a_random_network_are_pytorchs(seed):
    network = draw(seed)
    exact = gradients(network, theirs("float64"), seed)
    assert_close(gradients(network, ours("float64"), seed), exact)
    # In single precision, too; or, where that is ill-conditioned, they are as near to what is exact.
    found, single = (flat(gradients(network, to, seed)) for to in (ours("float32"), theirs("float32")))
    norm = np.linalg.norm
    is_pytorchs = norm(found - single) <= 1e-5 * norm(single)
    assert is_pytorchs or norm(found - flat(exact)) <= 2 * norm(single - flat(exact)), repr(network)


def test_the_networks_have_all_layers_and_all_losses_in_them():
    networks = [draw(seed) for seed in range(NETWORKS)]
    drawn = {part.name.partition("(")[0].partition("{")[0] for network in networks for part in network.parts}
    losses = {network.loss.partition(" ")[0].strip(",") for network in networks}
    # Those with tests against PyTorch in files of their own.
    others = ("Loss", "List", "Dict", "RNN", "LSTM", "GRU", "Cell", "Base", "1d", "2d", "3d")
    others += ("Shuffle", "Bag", "Bilinear", "Fold", "Unfold", "Upsample", "Norm", "AlphaDropout")
    others += ("Attention", "Transformer", "TransformerEncoder", "TransformerDecoder")
    others += ("TransformerEncoderLayer", "TransformerDecoderLayer", "Unshuffle")
    others += ("LazyLinear", "LazyModuleMixin", "UninitializedParameter", "UninitializedBuffer")
    layers = {name for name in nn.__all__ if name[0].isupper() and not name.endswith(others)}
    layers -= {line.partition("(")[0] for line, *_ in LAYERS}
    layers |= {"BatchNorm1d", "LayerNorm", "RMSNorm"}
    assert layers - drawn == {
        "Dropout", "Flatten", "Identity", "Module", "IncompatibleKeys", "Parameter", "RemovableHandle",
        "RReLU", "Sequential", "Unflatten", "CosineSimilarity", "PairwiseDistance",
        "NonDynamicallyQuantizableLinear",
    }  # fmt: skip
    # See `test_losses_against_torch`.
    elsewhere = {*vars(ctc), *vars(densities), *vars(margins)}
    functions = {name for name in nn.functional.__all__ if "loss" in name or "entropy" in name}
    assert functions - losses - elsewhere == {"binary_cross_entropy_with_logits", "linear_cross_entropy"}


def penalised(network: Network, to: Library, seed: int) -> dict[str, Array]:
    """Return the sum of the squares of all gradients, and the gradients of that."""
    model, x, wanted = prepared(network, to, seed)
    grad: Any = torch.autograd.grad if to.lib is torch else autograd.grad
    first = grad(network.forward(to, model, x), wanted, create_graph=True, allow_unused=True)
    penalty = sum([g.square().sum() for g in first if g is not None])
    found = {"penalty": np.array(penalty.item())}
    if penalty.requires_grad:
        penalty.backward()
    for i, y in enumerate(wanted):
        found[f"{i}"] = np.zeros(tuple(y.shape)) if y.grad is None else y.grad.detach().numpy()
    return found


@pytest.mark.parametrize("seed", range(TWICE))
def test_gradients_of_gradients_are_pytorchs(seed):
    network = draw(seed)
    assert_close(penalised(network, ours("float64"), seed), penalised(network, theirs("float64"), seed))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [-1000.0, -400.0, -50.0, 50.0, 400.0, 1000.0])
@pytest.mark.parametrize("function", ["binary_cross_entropy_with_logits", "cross_entropy"])
def test_gradients_of_gradients_of_losses_are_pytorchs_for_large_logits_too(function, size, dtype):
    found = []
    for to in (ours(dtype), theirs(dtype)):
        x = to.tensor(np.array([1.0, 0.5])).requires_grad_()
        loss = getattr(to.nn.functional, function)(x * x * size, to.tensor(np.array([0.25, 0.75])))
        grad: Any = torch.autograd.grad if to.lib is torch else autograd.grad
        (first,) = grad(loss, x, create_graph=True)
        first.square().sum().backward()
        found.append([first.detach().numpy(), x.grad.numpy()])
    for first, second in zip(*found, strict=True):
        rtol, atol = (1e-5, 1e-6) if dtype == "float32" else (1e-12, 1e-13)
        np.testing.assert_allclose(first, second, rtol=rtol, atol=atol)
