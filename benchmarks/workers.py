"""Contenders in processes of their own, which take turns: no thread pool or allocator of one helps another.

The parent writes a line of JSON to a worker and reads one back. What is asked: ``build`` a case and
``check`` it, take a ``turn`` of it, ``drop`` it.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, TextIO

from benchmarks import ROOT
from benchmarks.catalogue import case_of
from benchmarks.contenders import library
from benchmarks.harness import Timer, frozen, turns

Ask = Callable[[str, Any], Any]


class Worker:
    """A process that works for one contender, until the end of a ``with``.

    Parameters
    ----------
    contender
        Which one.
    python
        The interpreter that it runs on.
    """

    def __init__(self, contender: str, python: str = sys.executable) -> None:
        self.contender = contender
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.workers", contender],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # closes its input, upon which it ends

    @property
    def process(self) -> int:
        """Its id."""
        return self._process.pid

    def versions(self) -> dict[str, str]:
        """Return the versions of its Python and of NumPy."""
        found: dict[str, str] = self._ask("versions")
        return found

    def check(self, case: str) -> list[float]:
        """Return the figures of the check of the case of that name."""
        figures: list[float] = self._ask("check", case)
        return figures

    def build(self, case: str) -> Timer:
        """Return a timer whose turns are taken there."""
        self._ask("build", case)
        return lambda repetitions: float(self._ask("turn", repetitions))

    def drop(self) -> None:
        """Let go what the last case was built of."""
        self._ask("drop")

    def _ask(self, what: str, argument: object = None) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([what, argument]) + "\n")
            stdin.flush()
            answer = stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(
                f"the process of {self.contender} has ended at {what!r}: see its traceback above"
            )
        return json.loads(answer)


def serve(contender: str, questions: TextIO, answers: TextIO) -> None:
    """Answer until the questions end."""

    def ask() -> tuple[str, Any]:
        line = questions.readline()
        what, argument = json.loads(line) if line else ("end", None)
        return what, argument

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    while (question := ask())[0] != "end":
        what, argument = question
        if what == "versions":
            answer({"python": platform.python_version(), "numpy": version("numpy")})
        elif what == "check":
            case = case_of(argument)
            answer([float(figure) for figure in case.check(library(contender))] if case.check else [])
        elif what == "build":
            case = case_of(argument)
            timer = turns(case, case.build(library(contender)))
            with frozen():
                answer(None)
                while (question := ask())[0] == "turn":
                    answer(timer(question[1]))
            del timer
            answer(None)


if __name__ == "__main__":
    own_output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a case prints must not pass for an answer
    serve(sys.argv[1], sys.stdin, own_output)
