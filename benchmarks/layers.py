"""Parts of networks in a training step: dropout, and a linear map followed by an activation."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import OURS, TORCH, Library
from benchmarks.harness import Case, Timer, in_scope, repeated

# Names in tables, and their layers.
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "Tanh"}
# Batch, inputs, outputs.
SIZES = (64, 256, 512)
SHAPE = (1_000, 1_000)


def cases() -> Iterator[Case]:
    """Yield each part forward, and with the gradients of all tensors that require them."""
    batch, inputs, outputs = SIZES
    for recorded in (False, True):
        backward = " and backward" if recorded else ""
        yield _case(f"dropout {SHAPE[0]:,} x {SHAPE[1]:,}{backward}", partial(_dropout, recorded=recorded))
        for activation in ACTIVATIONS:
            make = partial(_linear, activation, recorded=recorded)
            name = f"linear {batch} x {inputs} x {outputs}, {activation}{backward}"
            yield _case(name, make, check=partial(_sum, make))


def _case(name: str, make: Callable[[Library], Callable[[], Any]], **settings: Any) -> Case:
    def build(library: Library) -> Timer:
        return in_scope(library, repeated(make(library)))

    return Case(f"layers/{name}", build, contenders=(OURS, TORCH), **settings)


def _sum(make: Callable[[Library], Callable[[], Any]], library: Library) -> Sequence[float]:
    return [float(make(library)().sum())]


def _dropout(library: Library, *, recorded: bool) -> Callable[[], Any]:
    """Return a step that drops half of a matrix. Each contender uses its own random numbers."""
    x = library.array(np.ones(SHAPE, np.float32), **({"requires_grad": True} if recorded else {}))
    slope = library.array(np.ones(SHAPE, np.float32))
    dropout = partial(library.nn.functional.dropout, x, 0.5, True)

    def step() -> Any:
        x.grad = None
        dropout().backward(slope)
        return x.grad

    return step if recorded else dropout


def _linear(activation: str, library: Library, *, recorded: bool) -> Callable[[], Any]:
    """Return a step that ends with the output, or with the gradient of the weight."""
    batch, inputs, outputs = SIZES
    random = np.random.default_rng(0)
    gradient = {"requires_grad": True} if recorded else {}
    x, weight, bias, slope = (
        random.uniform(-0.1, 0.1, shape).astype(np.float32)
        for shape in ((batch, inputs), (outputs, inputs), (outputs,), (batch, outputs))
    )
    layer = library.nn.Linear(inputs, outputs)
    layer.load_state_dict({"weight": library.array(weight), "bias": library.array(bias)})
    network = library.nn.Sequential(layer, getattr(library.nn, ACTIVATIONS[activation])())
    data, slopes = library.array(x, **gradient), library.array(slope)

    def forward() -> Any:
        with library.inference():
            return network(data)

    def step() -> Any:
        data.grad = layer.weight.grad = layer.bias.grad = None
        network(data).backward(slopes)
        return layer.weight.grad

    return step if recorded else forward
