"""The program that type checkers read (`tests/typing`) also runs; `make check` runs them over it."""

from __future__ import annotations

from tests.typing.program import main


def test_the_program_that_type_checkers_read_runs_and_learns():
    history = main()
    assert history.losses[-1] < history.losses[0]
