"""Some of the random programs of `tests.fuzz`; many more, and PyTorch where it is installed: `make soak`."""

from __future__ import annotations

import pytest

from tests.fuzz import compare


@pytest.mark.parametrize("seed", range(2))
def test_random_programs_compute_what_numpy_computes(seed):
    found, _ = compare(300, seed)
    assert found == []


@pytest.mark.soak
def test_fifty_thousand_random_programs_compute_what_numpy_and_pytorch_compute():
    try:
        import torch
    except ImportError:
        torch = None
    found, _ = compare(50_000, 1, torch)
    assert found == []
