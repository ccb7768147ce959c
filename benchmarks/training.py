"""Whole training steps: forward, loss, backward and optimizer, from the same weights on the same batch."""

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.contenders import Library
from benchmarks.harness import Case, Timer, repeated, timed
from benchmarks.networks import CHECKING_RATE, TIMING_RATE, Network, training, trainings


def cases() -> Iterator[Case]:
    """Yield a case for each network and optimizer."""
    for name, network, optimizer in trainings():
        yield Case(
            f"training/{name}",
            partial(_timer, network, optimizer),
            check=partial(_losses, network, optimizer),
            round_seconds=0.05,
            rounds=20,
        )


def _timer(network: Network, optimizer: str, library: Library) -> Timer:
    return timed(repeated(training(library, network, optimizer, TIMING_RATE, weights=network.weights())))


def _losses(network: Network, optimizer: str, library: Library) -> Sequence[float]:
    step = training(library, network, optimizer, CHECKING_RATE, weights=network.weights())
    return [step() for _ in range(4)]
