"""Runs programs under ``disposescope run`` in forks of one process, which has imported the libraries.

So a program starts in milliseconds. ``python -m tests.scopes.forked LIBRARY`` is that process: it reads a
line of JSON for each program, with its folder and the options, and answers with the exit status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """What a program left: its exit status, and all that it wrote to the standard error stream."""

    status: int
    stderr: str


class Forks:
    """The process that runs programs, which use `library`."""

    def __init__(self, library: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.scopes.forked", library],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate("")

    def run(self, source: str, folder: Path, *options: str) -> Ended:
        """Run `source` as ``disposescope run OPTIONS program.py`` in `folder`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        (folder / "program.py").write_text(source, encoding="utf-8")
        self._process.stdin.write(f"{json.dumps([str(folder), *options])}\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return Ended(status, (folder / "stderr").read_text(encoding="utf-8", errors="replace"))


def _serve(library: str) -> None:
    import_module("scopes.command.main")
    for name in ("torch", "scopes.torch") if library == "torch" else ("tensor", "nn", "nn.functional"):
        import_module(name)
    if library == "torch":
        # The first use finds out which packages are installed.
        with import_module("scopes.torch").owning():
            import_module("torch").ones(2).add(1)
    for line in sys.stdin:
        folder, *options = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(Path(folder), options)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(folder: Path, options: list[str]) -> None:
    """Run the command, and leave the process without the exit functions of the parent's libraries."""
    status = 70
    try:
        os.chdir(folder)
        os.dup2(os.open("stderr", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 2)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        sys.argv = ["disposescope", "run", *options, "program.py"]
        sys.orig_argv = [sys.executable, *sys.argv]
        import_module("scopes.command.main").main()
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:  # noqa: BLE001  # the child must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1])
