"""Outputs of trained networks: ours in a scope without recording, PyTorch in its inference mode."""

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.contenders import Library
from benchmarks.harness import Case, Timer, repeated, timed
from benchmarks.networks import NETWORKS, Network, inference


def cases() -> Iterator[Case]:
    """Yield a case for each network."""
    for network in NETWORKS:
        yield Case(
            f"inference/{network.name}",
            partial(_timer, network),
            check=partial(_output, network),
            round_seconds=0.05,
            rounds=20,
        )


def _timer(network: Network, library: Library) -> Timer:
    return timed(repeated(inference(library, network, weights=network.weights())))


def _output(network: Network, library: Library) -> Sequence[float]:
    return [inference(library, network, weights=network.weights())()]
