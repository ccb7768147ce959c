"""Training programs of frameworks give the same losses to the bit inside scopes, and raise no error."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from tests.scopes.foreign.frameworks import PROGRAMS, run

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def plain() -> dict[str, list[float]]:
    """Losses without scopes, by program."""
    return {}


@pytest.mark.parametrize("mode", ["owning", "exact"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_the_same_to_the_bit(name: str, mode: str, plain: dict[str, list[float]]) -> None:
    for package in PROGRAMS[name][1]:
        pytest.importorskip(package)
    if name not in plain:
        plain[name] = run(name, "plain")
    assert run(name, mode) == plain[name]
