"""The command ``disposescope diff before.dspool after.dspool``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NoReturn

from scopes._shared.sizes import parse_size
from scopes._shared.stderr import write_to_stderr
from scopes.command.options import PROGRAM
from scopes.reports.differences import differences
from scopes.reports.run_record import NoRecordError
from scopes.reports.spool import read_record

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from scopes.reports.run_record import RunRecord

_WRONG = 2


def run(options: argparse.Namespace) -> NoReturn:
    """Write the differences of two records, and exit."""
    before, after = _read(options.before), _read(options.after)
    found = differences(before, after, (str(options.before), str(options.after)))
    text = json.dumps(found.to_dict(), ensure_ascii=False, indent=1) if options.json else str(found)
    if sys.stdout is None:
        _fail("can't write the differences: the standard output is closed")
    try:
        if options.html is not None:
            found.to_html(options.html)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except (OSError, UnicodeError) as error:
        _fail(f"can't write the differences: {error}")
    limit = options.fail_on_growth
    # Without any growth a limit of 0 bytes does not fail.
    sys.exit(1 if limit is not None and found.largest_growth >= max(parse_size(limit), 1) else 0)


def _read(path: Path) -> RunRecord:
    try:
        return read_record(path)
    except OSError as error:
        _fail(f"can't read {path}: {error.strerror}")
    except NoRecordError as error:
        _fail(str(error))


def _fail(text: str) -> NoReturn:
    write_to_stderr(f"{PROGRAM}: {text}")
    sys.exit(_WRONG)
