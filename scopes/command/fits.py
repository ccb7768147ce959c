"""The command ``disposescope fits train.py --memory 8GiB``."""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from scopes._shared.sizes import parse_size
from scopes._shared.stderr import write_to_stderr
from scopes._shared.tracebacks import clear_frames_of
from scopes.command.options import PROGRAM
from scopes.command.program import CannotRunError, run

if TYPE_CHECKING:
    import argparse

_DOES_NOT_FIT = 1
_UNKNOWN = 2


def fits(options: argparse.Namespace) -> NoReturn:
    """Tell what the training of a program needs, and exit: 0 if it fits, 1 if not, 2 if that is unknown."""
    clear_frames_of("runpy")
    clear_frames_of("disposescope")
    try:
        programs = import_module("scopes.adapters.torch.fitting_programs")  # loads PyTorch
    except ImportError as missing:
        _fail(str(missing))
    limit = None if options.memory is None else parse_size(options.memory)

    def program() -> BaseException | None:
        return run(options.program, options.arguments, is_module=options.is_module)

    try:
        # The standard output is for the report.
        with redirect_stdout(sys.stderr):
            report = programs.fit_program(program, limit, is_real=options.real)
    except CannotRunError as reason:
        write_to_stderr(f"{PROGRAM}: {reason}")
        sys.exit(_UNKNOWN)
    except programs.NotFakeError as error:
        _fail(f"{error}\nWrite --real to run and measure two real steps instead")
    except programs.NoStepError as error:
        _fail(str(error))
    except Exception as error:  # noqa: BLE001  # any error of the program
        traceback.print_exception(error)
        _fail("the program failed before its second optimizer step")
    if options.html is not None:
        report.to_html(options.html)
    text = json.dumps(report.to_dict(), ensure_ascii=False, indent=1) if options.json else str(report)
    if sys.stdout is None:
        _fail("can't write the report: the standard output is closed")
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except (OSError, UnicodeError) as error:
        _fail(f"can't write the report: {error}")
    sys.exit(_DOES_NOT_FIT if report.fits is False else 0)


def _fail(text: str) -> NoReturn:
    write_to_stderr(f"{PROGRAM}: {text}")
    sys.exit(_UNKNOWN)
