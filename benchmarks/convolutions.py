"""Training steps of a 3x3 convolution: forward, the mean square of the output, backward and SGD."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import OURS, TORCH, Library
from benchmarks.harness import Case, Timer, repeated, timed
from benchmarks.networks import CHECKING_RATE, TIMING_RATE, Step

# Batch, channels, height and width, channels of the output.
Sizes = tuple[int, int, int, int]
SIZES: tuple[Sizes, ...] = ((32, 16, 32, 32), (16, 64, 28, 64), (8, 32, 56, 32), (64, 1, 28, 32))


def cases() -> Iterator[Case]:
    """Yield a case for each size."""
    for sizes in SIZES:
        yield Case(
            f"convolutions/{name_of(sizes)}",
            partial(_timer, sizes),
            contenders=(OURS, TORCH),
            check=partial(_losses, sizes),
            round_seconds=0.2,
            rounds=20,
        )


def name_of(sizes: Sizes) -> str:
    """Return its name in tables, such as ``Conv2d 3x3, 32 x 16 x 32 x 32 to 32``."""
    batch, channels, side, outputs = sizes
    return f"Conv2d 3x3, {batch} x {channels} x {side} x {side} to {outputs}"


def training(library: Library, sizes: Sizes, rate: float) -> Step:
    """Create layer, data and optimizer. Return the step, which returns the loss."""
    batch, channels, side, outputs = sizes
    random = np.random.default_rng(0)
    model = library.nn.Conv2d(channels, outputs, 3, padding=1)
    state: dict[str, Any] = {}
    for name, x in model.state_dict().items():
        state[name] = library.array(random.uniform(-0.1, 0.1, tuple(x.shape)).astype(np.float32))
    model.load_state_dict(state)
    optimizer = library.optim.SGD(model.parameters(), lr=rate)
    # As after another layer, the gradient of the input is computed too.
    data = library.array(
        random.standard_normal((batch, channels, side, side), dtype=np.float32), requires_grad=True
    )

    def step() -> float:
        with library.scope():
            optimizer.zero_grad()
            data.grad = None
            output = model(data)
            loss = (output * output).mean()
            loss.backward()
            optimizer.step()
            return float(loss.item())

    return step


def _timer(sizes: Sizes, library: Library) -> Timer:
    return timed(repeated(training(library, sizes, TIMING_RATE)))


def _losses(sizes: Sizes, library: Library) -> Sequence[float]:
    step = training(library, sizes, CHECKING_RATE)
    return [step() for _ in range(4)]
