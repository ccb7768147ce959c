"""Layer, RMS and batch norm give the formulas' values, and the same bits for any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from tests.tensor.cutting import three_threads

Floats = np.ndarray[Any, Any]
Wide = np.ndarray[Any, np.dtype[np.longdouble]]

# Large enough that results of two elements which are nearly equal are no less exact.
EPS = 0.1
# Rows and columns fewer, as many, and more than are worked on at once: 4 and 8 rows, 16 and 256 columns.
SHAPES = [(2, 1), (5, 7), (64, 10), (9, 1024), (300, 33), (13, 2500), (70, 1040), (3, 40_000)]
IMAGES = [(2, 3, 1), (4, 3, 5, 7), (3, 2, 40_000)]


def normalised(x: Wide, g: Wide, weight: Wide, axes: tuple[int, ...], centred: bool) -> list[Wide]:
    """Return the output without a bias, and the gradients of the input and of the weight before its sum."""
    mean = x.mean(axes, keepdims=True) if centred else np.longdouble(0)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + EPS)
    normal, slope = (x - mean) * inverse, g * weight
    along = (slope * normal).mean(axes, keepdims=True) * normal
    across = slope.mean(axes, keepdims=True) if centred else np.longdouble(0)
    return [normal * weight, (slope - across - along) * inverse, g * normal]


def numbers(shape: tuple[int, ...], seed: int, dtype: str) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def computed(norm: Callable[..., tensor.Tensor], *arrays: Floats) -> list[Floats]:
    """Return the output, and the gradients of all but the last of `arrays`: the output has that gradient."""
    inputs = [tensor.tensor(array, requires_grad=True) for array in arrays[:-1]]
    out = norm(*inputs)
    out.backward(tensor.tensor(arrays[-1]))
    return [out.detach().numpy(), *(x.grad.numpy() for x in inputs if x.grad is not None)]


def agree(found: list[Floats], expected: list[Wide], dtype: str) -> None:
    for ours, wide in zip(found, expected, strict=True):
        scale = float(np.abs(wide).max()) + 1
        np.testing.assert_allclose(
            ours, wide.astype(np.float64), rtol=0, atol=64 * np.finfo(dtype).eps * scale
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norms_of_rows_are_the_formulas(shape: tuple[int, int], dtype: str) -> None:
    x, g = numbers(shape, 1, dtype) + 3, numbers(shape, 2, dtype)
    weight, bias = numbers(shape[1:], 3, dtype), numbers(shape[1:], 4, dtype)
    wide = [a.astype(np.longdouble) for a in (x, g, weight)]

    out, dx, by_weight = normalised(*wide, axes=(1,), centred=True)
    expected = [out + bias, dx, by_weight.sum(0), wide[1].sum(0)]
    found = computed(lambda x, w, b: F.layer_norm(x, shape[1:], w, b, EPS), x, weight, bias, g)
    agree(found, expected, dtype)

    out, dx, by_weight = normalised(*wide, axes=(1,), centred=False)
    found = computed(lambda x, w: F.rms_norm(x, shape[1:], w, EPS), x, weight, g)
    agree(found, [out, dx, by_weight.sum(0)], dtype)

    out, dx, _ = normalised(wide[0], wide[1], np.ones_like(wide[2]), axes=(1,), centred=True)
    agree(computed(lambda x: F.layer_norm(x, shape[1:], eps=EPS), x, g), [out, dx], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES + IMAGES, ids=str)
def test_batch_norm_is_the_formula(shape: tuple[int, ...], dtype: str) -> None:
    x, g = numbers(shape, 1, dtype) + 3, numbers(shape, 2, dtype)
    weight, bias = numbers(shape[1:2], 3, dtype), numbers(shape[1:2], 4, dtype)
    axes, like = (0, *range(2, len(shape))), (-1, *(1 for _ in shape[2:]))
    wide = [a.astype(np.longdouble) for a in (x, g, weight.reshape(like))]

    out, dx, by_weight = normalised(*wide, axes=axes, centred=True)
    expected = [out + bias.reshape(like), dx, by_weight.sum(axes), wide[1].sum(axes)]
    found = computed(lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=EPS), x, weight, bias, g)
    agree(found, expected, dtype)

    out, dx, _ = normalised(wide[0], wide[1], np.ones_like(wide[2]), axes=axes, centred=True)
    agree(computed(lambda x: F.batch_norm(x, None, None, training=True, eps=EPS), x, g), [out, dx], dtype)


@pytest.mark.parametrize("make", [nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d], ids=lambda make: make.__name__)
@pytest.mark.parametrize("shape", [(70, 1040), (300, 33), (9, 40_000)], ids=str)
def test_no_bit_of_a_norm_depends_on_the_number_of_threads(make: Any, shape: tuple[int, int]) -> None:
    x, g = numbers(shape, 5, "float32"), tensor.tensor(numbers(shape, 6, "float32"))

    def step() -> list[bytes]:
        norm, input = make(shape[1]), tensor.tensor(x, requires_grad=True)
        out = norm(input)
        out.backward(g)
        return [a.numpy().tobytes() for a in (out.detach(), input.grad, *(p.grad for p in norm.parameters()))]

    with three_threads():
        several = step()
        tensor.set_num_threads(1)
        assert several == step()


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
def test_gradients_of_an_empty_batch_are_zeros(norm: Any) -> None:
    x = tensor.zeros((0, 3), requires_grad=True)
    weight = tensor.ones((3,), requires_grad=True)
    norm(x, (3,), weight).sum().backward()
    assert x.grad.shape == (0, 3)
    assert weight.grad.tolist() == [0.0, 0.0, 0.0]


EMPTY_BATCHES = """
import tensor
from nn import functional as F
for size in range(1, 400):
    x = tensor.zeros((0, size), requires_grad=True)
    weight = tensor.ones((size,), requires_grad=True)
    F.layer_norm(x, (size,), weight).sum().backward()
"""


def test_an_empty_batch_writes_to_no_memory_of_others() -> None:
    # Python's objects lie among NumPy's arrays then: what is written beyond an array ends the process.
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    subprocess.run([sys.executable, "-c", EMPTY_BATCHES], env=environment, check=True)
