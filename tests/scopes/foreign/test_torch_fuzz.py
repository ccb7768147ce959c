"""Some of the random programs of `tests.fuzz_torch`; many more: `make soak`."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from tests.fuzz_torch import compare


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_random_programs_give_the_same_bits_under_scopes(seed: int) -> None:
    found, counts = compare(100, seed)
    assert found == []
    assert counts["clear errors"] > 0


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_ten_thousand_random_programs_give_the_same_bits_under_scopes() -> None:
    found, _ = compare(10_000, 1)
    assert found == []
