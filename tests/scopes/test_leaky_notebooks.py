"""Leaks in notebooks: the twelve programs in a cell with ``%%leaks``, and what only notebooks keep."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scopes.leaky_programs import PROGRAMS, Leaky

pytest.importorskip("IPython")

ROOT = Path(__file__).parents[2]
SHELL = Path(__file__).with_name("notebook_shell.py")

each_program = pytest.mark.parametrize("leaky", PROGRAMS.values(), ids=PROGRAMS)


def run(*cells: str) -> str:
    """Run the cells in a process of their own, and return what they show."""
    done = subprocess.run(
        [sys.executable, str(SHELL)],
        input=json.dumps(cells),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@each_program
def test_the_leaking_line_is_first_with_its_holder_and_is_marked_as_growing(leaky: Leaky) -> None:
    shown = run("%load_ext disposescope", f"%%leaks\n{leaky.leaking}")
    _, _, report = shown.partition("In[2] has ended")
    first, *_ = re.findall(r"In\[2\]:(\d+)", report)
    assert int(first) == leaky.line + 1, shown  # below the magic
    holder = re.sub(r" of (program\\.py|\.\*)$", "", leaky.holder)
    assert re.search(f"# leaks\n *held by {holder}(?: \\(.* of .*\\))?\n", report), shown
    assert re.search(rf"^\d lines? keeps? more and more: .*In\[2\]:{first} ", report, re.MULTILINE), shown


@each_program
def test_in_the_fixed_program_no_line_is_marked_as_growing(leaky: Leaky) -> None:
    shown = run("%load_ext disposescope", f"%%leaks\n{leaky.cured}")
    assert re.search(r"^No line keeps more and more\. The check covers .* at \d+ moments", shown, re.M), shown


def test_values_that_cells_have_shown_are_named_by_out_and_the_cell() -> None:
    showing = ["tensor.ones((50_000,)) * 2"] * 6
    shown = run("import scopes, tensor\nscopes.track().__enter__()", *showing, "print(scopes.leaks())")
    _, _, report = shown.partition("6 alive")
    rows = re.findall(r"In\[(\d)\]:1 in <module>\n.*\n *held by Out\[(\d)\], a global\n", report)
    assert sorted(rows) == [(str(n), str(n)) for n in range(2, 7)], shown  # five lines have their holder


def test_tensors_of_a_failed_cell_are_held_by_the_last_error() -> None:
    failing = """
def train():
    history = []
    for step in range(200):
        history.append(tensor.ones((1000,)) * step)
    raise ValueError("not finite")

train()
"""
    shown = run(
        "import scopes, tensor\nscopes.track().__enter__()",
        "kept = tensor.ones((1_000_000,))",
        failing,
        "print(scopes.leaks())",
    )
    _, _, report = shown.partition("201 alive")
    first, second = re.findall(r"In\[(\d)\]:\d", report)
    assert (first, second) == ("3", "2"), shown  # what grows comes before what is larger
    assert (
        "held by sys.last_value.__traceback__ (local 'history' of train() in the traceback)[...]\n" in report
    ), shown


def test_a_batch_that_a_loop_has_left_and_a_state_that_grows_from_cell_to_cell_are_named() -> None:
    step = "for batch in [tensor.ones((1000,))]:\n    state = state + (batch * weight).tanh()"
    shown = run(
        "import scopes, tensor\nscopes.track().__enter__()",
        "state, weight = tensor.zeros((1000,)), tensor.ones((1000,), requires_grad=True)",
        *[step] * 20,
        "print(scopes.leaks())",
    )
    first, second, *_ = re.findall(r"In\[22\]:\d in <module>\n.*\n *held by (.*)\n", shown)
    assert (first, second) == ("state, a global", "batch, a global"), shown


def test_a_cell_that_fails_shows_its_report_and_its_error() -> None:
    shown = run(
        "%load_ext disposescope\nimport tensor",
        "%%leaks\nkept = [tensor.ones((1000,)) for _ in range(3)]\n1 / 0",
    )
    assert "In[2] has ended.\n3 alive, 11.72 KiB" in shown
    assert "ZeroDivisionError" in shown


def test_leaks_magic_takes_the_number_of_lines_to_record() -> None:
    shown = run(
        "%load_ext disposescope\nimport tensor",
        "def make():\n    return tensor.ones((1000,))",
        "%%leaks 2\nkept = make()",
        "%%leaks all\nkept = make()",
    )
    assert "In[2]:2 in make < In[3]:2 in <module>" in shown
    assert "%%leaks all: it takes the number of lines to record for each tensor" in shown
