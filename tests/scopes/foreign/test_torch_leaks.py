"""PyTorch programs with a leak: a command names the line and its holder, wherever memory was highest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
from tests.scopes.foreign.torch_leaks import ALL
from tests.scopes.forked import Forks
from tests.scopes.leaky_programs import PEAKS, Leaky

each_program = pytest.mark.parametrize("leaky", ALL.values(), ids=ALL)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks("torch") as forks:
        yield forks


@each_program
@pytest.mark.parametrize("peak", PEAKS)
def test_the_leaking_line_is_first_with_its_holder(
    forks: Forks, leaky: Leaky, peak: str, tmp_path: Path
) -> None:
    leaky.check(forks.run(leaky.at(peak).leaking, tmp_path, "--torch", "--fail-on-leak"))


@each_program
def test_the_cured_program_has_no_leak(forks: Forks, leaky: Leaky, tmp_path: Path) -> None:
    done = forks.run(leaky.at(" ".join(PEAKS)).cured, tmp_path, "--torch", "--fail-on-leak")
    assert done.status == 0, done.stderr
    assert "--fail-on-leak: No line keeps more and more" in done.stderr
