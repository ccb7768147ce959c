"""What the markers of limits count during a test, without pytest around it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import scopes
import tensor
from scopes.testing.peak_limits import Limits
from tests.things import Thing


@pytest.fixture(autouse=True)
def _tracked() -> Iterator[None]:
    with scopes.track():
        yield


@pytest.mark.parametrize("seed", range(20))
def test_the_peak_of_living_objects_is_that_of_a_model(seed: int) -> None:
    draw = random.Random(seed)
    older = [Thing() for _ in range(3)]
    alive: list[Thing] = []
    count = peak = 0
    with Limits(10, None) as limits:
        for _ in range(80):
            if older and draw.random() < 0.05:
                older.pop().dispose()  # it was never counted
            if alive and draw.random() < 0.4:
                alive.pop(draw.randrange(len(alive))).dispose()
                count -= 1
            else:
                alive.append(Thing())
                count += 1
            peak = max(peak, count)
    assert limits.live_peak == peak
    verdict = limits.verdict()
    if peak <= 10:
        assert verdict is None
        return
    assert verdict is not None
    first, second, third, *rows = verdict.splitlines()
    assert first == f"limit_live_tensors allows 10 tensors at the same time. The peak of the test was {peak}."
    assert second.startswith("The limit was exceeded at ")
    assert third == "Alive at that moment: 11 disposables, 44 bytes:"
    assert rows


def test_what_is_created_in_a_pause_does_not_count() -> None:
    with Limits(2, None) as limits:
        kept = [Thing()]
        limits.pause()
        kept += [Thing() for _ in range(5)]
        limits.resume()
        kept.append(Thing())
        assert (limits.live_peak, limits.verdict()) == (2, None)
        kept.append(Thing())
    assert limits.live_peak == 3
    assert limits.verdict() is not None
    kept.append(Thing())  # after the block nothing counts
    assert limits.live_peak == 3


@pytest.mark.parametrize("more", [0, 1])
def test_memory_may_reach_the_limit_and_not_exceed_it(more: int) -> None:
    before = tensor.ones((50_000,))
    with Limits(None, 40_000) as limits:
        for _ in range(3):
            tensor.ones((10_000,))
        kept = [tensor.ones((5_000,)), tensor.ones((5_000 + more,))]
    verdict = limits.verdict()
    assert len(kept) == 2
    assert before.shape == (50_000,)
    if not more:
        assert verdict is None
        return
    assert verdict is not None
    assert verdict.startswith(
        "limit_tensor_memory allows 39.06 KiB at the same time. The peak of the test was"
    )
    assert "The limit was exceeded at " in verdict
    assert "Alive at that moment: 2 disposables, 39.07 KiB:" in verdict


def test_memory_of_one_operation_alone_is_said_to_be_that() -> None:
    x = tensor.ones((300, 300))
    with Limits(None, 100_000) as limits:
        (x + x).sum().item()
    verdict = limits.verdict()
    assert verdict is not None
    assert "allows 97.66 KiB" in verdict


def test_both_limits_are_told_and_without_a_limit_nothing_is() -> None:
    with Limits(1, 1_000) as limits, Limits(None, None) as none:
        kept = [tensor.ones((1_000,)) for _ in range(2)]
    verdict = limits.verdict()
    assert verdict is not None
    assert len(kept) == 2
    assert verdict.index("limit_live_tensors allows 1 ") < verdict.index("\n\nlimit_tensor_memory allows ")
    assert none.live_peak == 2
    assert none.verdict() is None
