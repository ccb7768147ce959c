"""Training steps of recurrent layers: forward, the mean square of the output, backward and SGD."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import OURS, TORCH, Library
from benchmarks.harness import Case, Timer, repeated, timed
from benchmarks.networks import CHECKING_RATE, TIMING_RATE, Step

# The kind, and steps, batch, input and hidden size, layers.
LAYERS = (
    ("LSTM", (50, 32, 128, 128, 1)),
    ("LSTM", (20, 64, 64, 256, 1)),
    ("LSTM", (35, 20, 200, 200, 2)),
    ("GRU", (50, 32, 128, 128, 1)),
    ("RNN", (50, 32, 128, 128, 1)),
)


def cases() -> Iterator[Case]:
    """Yield a case for each layer."""
    for kind, sizes in LAYERS:
        yield Case(
            f"recurrent/{kind} {' x '.join(map(str, sizes))}",
            partial(_timer, kind, sizes),
            contenders=(OURS, TORCH),
            check=partial(_losses, kind, sizes),
            round_seconds=0.2,
            rounds=20,
        )


def _step(library: Library, kind: str, sizes: tuple[int, ...], rate: float) -> Step:
    steps, batch, features, hidden, layers = sizes
    random = np.random.default_rng(0)
    model = getattr(library.nn, kind)(features, hidden, layers)
    state: dict[str, Any] = {}
    for name, x in model.state_dict().items():
        state[name] = library.array(random.uniform(-0.1, 0.1, tuple(x.shape)).astype(np.float32))
    model.load_state_dict(state)
    optimizer = library.optim.SGD(model.parameters(), lr=rate)
    data = library.array(random.standard_normal((steps, batch, features), dtype=np.float32))

    def step() -> float:
        with library.scope():
            optimizer.zero_grad()
            output, _ = model(data)
            loss = (output * output).mean()
            loss.backward()
            optimizer.step()
            return float(loss.item())

    return step


def _timer(kind: str, sizes: tuple[int, ...], library: Library) -> Timer:
    return timed(repeated(_step(library, kind, sizes, TIMING_RATE)))


def _losses(kind: str, sizes: tuple[int, ...], library: Library) -> Sequence[float]:
    step = _step(library, kind, sizes, CHECKING_RATE)
    return [step() for _ in range(4)]
