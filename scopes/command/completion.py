"""Completion in a shell: ``disposescope completion bash``."""

from __future__ import annotations

from scopes._shared.extras import how_to_install
from scopes.command.options import make_parser

# The arguments that are files, or may be: those of the user's program.
_FILES = ("FILE", "script.py", "trace.json", "arguments")


def completion_for(shell: str) -> str:
    """Return the script with which `shell` completes the command, its options and file names.

    Raises
    ------
    ModuleNotFoundError
        If shtab is not installed.
    """
    try:
        import shtab  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"completion needs shtab, which is not installed: {how_to_install('completion')}", name="shtab"
        ) from None
    parser, commands = make_parser()
    for command in commands.values():
        for action in command._actions:
            if (action.metavar or action.dest) in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))
