"""Peak memory of training steps: no more than a backward pass, layer by layer, has to hold."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import memory

WIDE = (392, 512, 512, 10), 128
DEEP = (256,) * 9 + (10,), 128
OPTIMIZERS = {
    "sgd": (lambda parameters: nn.optim.SGD(parameters, lr=1e-3), 0),
    "momentum": (lambda parameters: nn.optim.SGD(parameters, lr=1e-3, momentum=0.9), 1),
    "rmsprop": (lambda parameters: nn.optim.RMSprop(parameters, lr=1e-3), 1),
    "adam": (lambda parameters: nn.optim.Adam(parameters, lr=1e-3), 2),
}


@pytest.fixture(autouse=True)
def every_array_counts() -> Iterator[None]:
    """Let the pool make small temporaries too: NumPy's own are not counted before they are tensors."""
    before = memory.configuration().min_pooled_bytes
    memory.configure(min_pooled_bytes=0)
    yield
    memory.configure(min_pooled_bytes=before)


def training(sizes: tuple[int, ...], batch: int, optimizer: str) -> Callable[[], float]:
    layers: list[nn.Module] = []
    for inner, outer in pairwise(sizes):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimize = OPTIMIZERS[optimizer][0](model.parameters())
    random = np.random.default_rng(0)
    inputs = tensor.tensor(random.standard_normal((batch, sizes[0]), dtype=np.float32))
    targets = tensor.tensor(random.integers(0, sizes[-1], batch))

    def step() -> float:
        with new_dispose_scope():
            optimize.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimize.step()
            return float(loss.item())

    return step


def least_peak(sizes: tuple[int, ...], batch: int, states: int) -> int:
    """Return the bytes that must be live at the worst moment of a step.

    When backward is at a layer, there are the gradients of its parameters and those of all later layers, the
    outputs of all earlier ones, and the gradients of its own output and of its input.
    """
    parameters = [4 * (inner * outer + outer) for inner, outer in pairwise(sizes)]
    outputs = [4 * batch * size for size in sizes[1:]]
    at_linear = [
        sum(parameters[i:]) + sum(outputs[:i]) + outputs[i] + (outputs[i - 1] if i else 0)
        for i in range(len(parameters))
    ]
    at_relu = [
        sum(parameters[i + 1 :]) + sum(outputs[: i + 1]) + 2 * outputs[i] for i in range(len(parameters) - 1)
    ]
    held = sum(parameters) * (1 + states) + 4 * batch * sizes[0] + 8 * batch
    return held + max(*at_linear, *at_relu)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("sizes", "batch"), [WIDE, DEEP])
def test_a_step_takes_only_the_memory_that_backward_needs(sizes: tuple[int, ...], batch: int, optimizer: str):
    training(sizes, batch, optimizer)()  # what kernels keep from call to call is there
    before = memory.statistics().bytes_live
    step = training(sizes, batch, optimizer)
    step()
    step()
    with memory.measure() as third:
        step()
    least = least_peak(sizes, batch, OPTIMIZERS[optimizer][1])
    # The loss and where backward starts are a number each.
    assert least - 1024 <= third.peak_bytes - before <= least + 64


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_between_steps_an_optimizer_holds_its_state_alone(optimizer: str):
    make, states = OPTIMIZERS[optimizer]
    x = nn.Parameter(tensor.zeros((300, 200)))
    x.grad = tensor.ones((300, 200))
    before = memory.statistics().bytes_live
    optimize = make([x])
    optimize.step()
    assert memory.statistics().bytes_live - before == optimize.nbytes == states * 300 * 200 * 4


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_an_update_takes_pieces_whatever_the_order_of_memory(optimizer: str, dtype: str):
    random = np.random.default_rng(0)
    start, gradient = (
        (random.standard_normal((40, 20_000)) + 1j * random.standard_normal((40, 20_000))).astype(dtype)
        if dtype == "complex64"
        else random.standard_normal((40, 20_000), dtype=np.float32)
        for _ in range(2)
    )
    rows = nn.Parameter(tensor.tensor(start))
    columns = nn.Parameter(tensor.tensor(np.ascontiguousarray(start.T)).mT)
    assert columns.stride() == (1, 40)
    for x in (rows, columns):
        x.grad = tensor.tensor(gradient)
        optimize = OPTIMIZERS[optimizer][0]([x])
        optimize.step()
        with memory.measure() as second:
            optimize.step()
        assert second.peak_bytes_change <= 2 * 16_384 * 4
    np.testing.assert_allclose(columns.detach().numpy(), rows.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize(("sizes", "batch"), [WIDE, DEEP])
def test_a_step_takes_at_most_the_memory_of_pytorch_s(sizes: tuple[int, ...], batch: int, optimizer: str):
    pytest.importorskip("torch")
    peaks = pytest.importorskip("benchmarks.peaks")
    network = peaks.Network(sizes, batch)
    make = peaks.training_of(network, optimizer)
    ours, theirs = peaks.our_peak(make), peaks.torch_peak(make)
    assert ours < theirs if optimizer == "adam" else ours <= theirs


@pytest.mark.parametrize("sizes", [(16, 64, 28, 64), (64, 1, 28, 32)])
def test_a_step_of_a_convolution_takes_at_most_the_memory_of_pytorch_s(sizes: tuple[int, int, int, int]):
    pytest.importorskip("torch")
    peaks = pytest.importorskip("benchmarks.peaks")
    make = peaks.convolution_of(sizes)
    assert peaks.our_peak(make) <= peaks.torch_peak(make)
