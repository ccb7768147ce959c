"""Runs programs under ``disposescope run``, each in a fork of this process.

A fork has the libraries that this process has imported, so a program starts in milliseconds.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """What a program left: its exit status, and all that it wrote to the standard error stream."""

    status: int
    stderr: str


def run_forked(source: str, folder: Path, *options: str) -> Ended:
    """Run `source` as ``disposescope run OPTIONS program.py`` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.py").write_text(source)
    child = os.fork()
    if child == 0:
        _run_in_child(folder, options)
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), (folder / "stderr").read_text(errors="replace"))


def _run_in_child(folder: Path, options: tuple[str, ...]) -> None:
    """Run the command, and leave the process without the exit functions of the parent's libraries."""
    status = 70
    try:
        os.chdir(folder)
        errors = os.open("stderr", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["disposescope", "run", *options, "program.py"]
        sys.orig_argv = [sys.executable, *sys.argv]
        from scopes._command import main

        main()
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:  # noqa: BLE001  # the child must not return into the tests of the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
