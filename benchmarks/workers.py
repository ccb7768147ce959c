"""Contenders in separate processes, which take turns and share no thread pool or allocator.

The parent writes a line of JSON to a worker and reads one back. The requests: ``build`` a case, ``check`` it,
take a ``turn`` of it, ``drop`` it.
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
    """A process for one contender, until the end of a ``with`` block.

    Parameters
    ----------
    contender
        The name of the contender.
    python
        The interpreter that runs the process.
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
        self._process.communicate()  # closes its input, which ends it

    @property
    def process(self) -> int:
        """The id of the process."""
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
        """Return a timer whose turns run in the worker."""
        self._ask("build", case)
        return lambda repetitions: float(self._ask("turn", repetitions))

    def drop(self) -> None:
        """Free the objects of the last case."""
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
    """Answer requests until the input ends."""

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
    os.dup2(2, 1)  # a case may print, which must not count as an answer
    serve(sys.argv[1], sys.stdin, own_output)
