"""The command ``disposescope``: ``run`` reports the leaks of a program, ``report`` summarizes a trace."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from disposescope.names import modules_in, shadowing_message, shadows

PROGRAM = "disposescope"


def main() -> None:
    """Run the command line, and exit."""
    if sys.argv[1:2] in (["--version"], ["-V"]):
        if sys.stdout is not None:
            sys.stdout.write(f"disposescope {_version()}\n")
        return
    found = shadows(("scopes",))
    for name, path in found.items():
        _write(
            f"{PROGRAM}: {shadowing_message(name, path)}. Rename that, or start this where it is not found: "
            "by the command `disposescope` (not `python -m`), without its folder in PYTHONPATH\n"
        )
    if found:
        sys.exit(2)
    _report_shadowing(sys.argv[1:])
    import_module("scopes.command.main").main()


def _report_shadowing(arguments: list[str]) -> None:
    """Report modules next to the program that shadow our packages. Exit if the program can't run."""
    if arguments[:1] != ["run"]:
        return
    beside = modules_in(_folder_of_program(arguments[1:]))
    for name in ("tensor", "nn"):
        if name in beside:
            _write(f"{PROGRAM}: `import {name}` in the program finds its own {beside[name]}\n")
    if "scopes" in beside:
        _write(
            f"{PROGRAM}: {beside['scopes']} has the name of the package `scopes` of disposescope. The "
            "command needs that package, so `import scopes` in the program would not find its own file. "
            "Rename the file, or move it into a package\n"
        )
        sys.exit(2)


def _write(text: str) -> None:
    """Write `text` to the standard error stream. Raise nothing if it can't be written."""
    if sys.stderr is None:
        return
    # Use another buffer, as in `scopes._shared.stderr`: what fails in that of the stream fails again at exit.
    number, encoding = sys.stderr.fileno(), sys.stderr.encoding
    with (
        suppress(OSError),
        open(number, "w", encoding=encoding, errors="backslashreplace", closefd=False) as file,
    ):
        file.write(text)


def _folder_of_program(arguments: list[str]) -> Path:
    for argument in arguments:
        if argument == "-m":
            break
        if argument.endswith((".py", ".pyc")) and Path(argument).is_file():
            return Path(argument).resolve().parent
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted
        return Path()


def _version() -> str:
    try:
        return version("disposescope")
    except PackageNotFoundError:
        return "(not installed)"
