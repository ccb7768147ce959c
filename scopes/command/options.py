"""Options of the command ``disposescope``, and its settings in ``pyproject.toml``."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scopes._shared.files import require_ours
from scopes._shared.sizes import format_bytes, parse_size
from scopes.command.attach import METHODS
from scopes.reports.runs import LEAST_GROWTH
from scopes.reports.spool import is_spool

PROGRAM = "disposescope"

_EXAMPLES = """examples:
  disposescope run train.py --epochs 3          the program's own arguments follow its name
  disposescope run -m package.train             a module, as python -m does
  disposescope run torchrun --nproc-per-node 4 train.py
                                                an installed Python script, if there is no file of that name
  disposescope run --html page.html train.py    also write the report as a page
  disposescope run --record run.dspool train.py keep the record, which outlives a kill of the program
  disposescope run --fail-on-leak train.py      exit with 1 if a line keeps more and more, for CI

The table [tool.disposescope] of pyproject.toml has settings with the names of the options, such as
fail-on-leak = true
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line. Exit with an error if one is wrong.

    `command` is "run", "fits", "attach", "report", "diff" or "completion".
    """
    parser, commands = make_parser()
    run = commands["run"]
    if arguments[:1] == ["run"]:
        run.set_defaults(**_settings(run.error))
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        command = commands[options.command]
        command.error(_unknown(unknown[0], _names_of(command), options.command))
    name = options.command
    if name in ("run", "fits") and options.program is None:
        commands[name].error(
            f"write the program: {PROGRAM} {name} train.py, or {PROGRAM} {name} -m package.module"
        )
    if name == "fits":
        _take_own(options)
    return options


def make_parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of command lines, and those of its commands, by their names."""
    parser = argparse.ArgumentParser(PROGRAM, description="Find out what keeps memory.", allow_abbrev=False)
    commands = parser.add_subparsers(
        title="commands",
        required=True,
        metavar="run | fits | attach | report | diff | completion",
        dest="command",
    )
    _add_run(commands)
    _add_fits(commands)
    _add_attach(commands)
    report = commands.add_parser(
        "report", help="show the record of a run, or summarize a trace", allow_abbrev=False
    )
    report.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a file of run --record, run --json, track(survive=...) or run --trace",
    )
    report.add_argument("--html", type=_writable, metavar="FILE", help="also write a record as an HTML page")
    report.add_argument("--json", action="store_true", help="print a record as JSON")
    _add_diff(commands)
    completion = commands.add_parser(
        "completion", help="print a script that completes this command in a shell (shtab)", allow_abbrev=False
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell")
    return parser, commands.choices


def _add_run(commands: Any) -> argparse.ArgumentParser:
    run: argparse.ArgumentParser = commands.add_parser(
        "run",
        allow_abbrev=False,
        usage=f"{PROGRAM} run [options] (script.py | -m module) [arguments]",
        help="run a program with tracking, and report what is alive at its end, by the line that created it",
        description="Run a program with tracking. When it ends or fails, write a report to the standard\n"
        "error stream: what is alive, by the line that created it. The exit status is that of the program,\n"
        "or 1 if it succeeded and a file of the report could not be written. Each Python that the program\n"
        "starts is in the report too: subprocesses, forks, ranks of torchrun, workers of data loaders.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--html", type=_writable, metavar="FILE", help="also write the report as an HTML page")
    run.add_argument("--json", type=_writable, metavar="FILE", help="also write the report as JSON")
    run.add_argument(
        "--record",
        type=_record,
        metavar="FILE",
        help="keep the record of the run, such as run.dspool, which outlives a kill of the program "
        "(default: a temporary file)",
    )
    run.add_argument(
        "--annotate",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="also write growing lines as annotations for GitHub (default: if GITHUB_ACTIONS is true)",
    )
    run.add_argument("--trace", type=_writable, metavar="FILE", help="write a timeline for Perfetto")
    run.add_argument(
        "--snapshot",
        type=_writable,
        metavar="FILE",
        help="write allocations for PyTorch's memory viewer (https://pytorch.org/memory_viz)",
    )
    run.add_argument(
        "--depth",
        type=_positive,
        default=1,
        metavar="N",
        help="the number of lines to record for each tensor",
    )
    run.add_argument(
        "--live",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="show what is alive while the program runs (rich)",
    )
    torch = run.add_mutually_exclusive_group()
    torch.add_argument(
        "--torch",
        action="store_true",
        default=None,
        help="make scopes own PyTorch's tensors: scopes.torch.enable()",
    )
    torch.add_argument(
        "--no-torch", dest="torch", action="store_false", default=None, help="do not track PyTorch's tensors"
    )
    run.add_argument(
        "--fail-on-leak",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="exit with status 1 if the memory of a line keeps growing, also in a child process",
    )
    run.add_argument(
        "--leak-threshold",
        type=_size,
        default=format_bytes(LEAST_GROWTH),
        metavar="SIZE",
        help="how much the memory of a line must grow to be a leak (default: %(default)s)",
    )
    run.add_argument(
        "--every", type=_seconds, metavar="SECONDS", help="also print the report at this interval"
    )
    run.add_argument(
        "--counts",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="also print how many disposables were created and disposed, in scopes and outside",
    )
    run.add_argument("-m", dest="is_module", action="store_true", help="run a module, as python -m does")
    run.add_argument(
        "program",
        metavar="script.py",
        nargs="?",
        help="the program: a file, or an installed Python script such as torchrun",
    )
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    return run


def _add_fits(commands: Any) -> argparse.ArgumentParser:
    fits: argparse.ArgumentParser = commands.add_parser(
        "fits",
        allow_abbrev=False,
        usage=f"{PROGRAM} fits [--memory SIZE] (script.py | -m module) [arguments]",
        help="tell the memory that a training with PyTorch needs, and the largest batch that fits",
        description="Run a program on fake tensors, without memory for tensors and without arithmetic,\n"
        "up to its second optimizer step. Print the memory at the peak by part, module and line. The\n"
        "exit status is 0 if it fits, 1 if it does not, and 2 if that is unknown.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fits.add_argument("--memory", type=_size, metavar="SIZE", help="the memory to fit into, such as 8GiB")
    fits.add_argument("--html", type=_writable, metavar="FILE", help="also write the report as an HTML page")
    fits.add_argument("--json", action="store_true", help="print the report as JSON instead of text")
    fits.add_argument(
        "--real",
        action="store_true",
        help="run and measure two real steps, for a program that needs values of tensors",
    )
    fits.add_argument("-m", dest="is_module", action="store_true", help="run a module, as python -m does")
    fits.add_argument("program", metavar="script.py", nargs="?", help="the program")
    fits.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    return fits


def _take_own(options: argparse.Namespace) -> None:
    """Take ``--memory SIZE`` after the program too, as in ``fits train.py --memory 8GiB``.

    A program with an option of this name gets it after ``--``.
    """
    given: list[str] = options.arguments
    own = given.index("--") if "--" in given else len(given)
    mine, theirs = given[:own], given[own + 1 :]
    if options.memory is None and "--memory" in mine and mine.index("--memory") + 1 < len(mine):
        at = mine.index("--memory")
        options.memory = mine[at + 1]
        del mine[at : at + 2]
    options.arguments = [*mine, *theirs]


def _add_attach(commands: Any) -> argparse.ArgumentParser:
    attach: argparse.ArgumentParser = commands.add_parser(
        "attach",
        allow_abbrev=False,
        help="report what lives in a process that runs already, and what grows",
        description="Print what lives in a running Python process, by type, shape and holder. Then track\n"
        "what it creates for some time, print the growth by line, and leave the process as it was. Ctrl-C\n"
        "prints the growth so far.",
        epilog="The exit status says why a process can't be attached to: docs/attach.md lists them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    attach.add_argument("pid", type=_pid, metavar="PID", help="the number of the process")
    attach.add_argument(
        "--for",
        dest="seconds",
        type=_duration,
        default=60.0,
        metavar="TIME",
        help="how long to track: 90, 60s, 5m or 1h; 0 for what lives now alone (default: 60s)",
    )
    attach.add_argument(
        "--depth",
        type=_positive,
        default=1,
        metavar="N",
        help="the number of lines to record for each tensor",
    )
    attach.add_argument(
        "--leak-threshold",
        type=_size,
        default=format_bytes(LEAST_GROWTH),
        metavar="SIZE",
        help="how much the memory of a line must grow to be a leak (default: %(default)s)",
    )
    attach.add_argument(
        "--wait",
        type=_duration,
        default=30.0,
        metavar="TIME",
        help="how long to wait for an answer of the process (default: 30s)",
    )
    attach.add_argument(
        "--method",
        choices=METHODS,
        help="how to attach (default: sys.remote_exec from Python 3.14 on, else gdb, else lldb)",
    )
    return attach


def _add_diff(commands: Any) -> argparse.ArgumentParser:
    diff: argparse.ArgumentParser = commands.add_parser(
        "diff",
        allow_abbrev=False,
        help="compare the records of two runs, by the line that created what they kept",
        description="Compare the records of two runs. Lines are matched by their function and text, so they\n"
        "may have moved. The exit status is 0 whatever differs, 1 with --fail-on-growth if a line or\n"
        "all lines together grew by that much, and 2 if a file can't be read or written.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    files = "a file of run --record, or of run --json"
    diff.add_argument("before", type=Path, metavar="before.dspool", help=files)
    diff.add_argument("after", type=Path, metavar="after.dspool", help=files)
    diff.add_argument("--html", type=_writable, metavar="FILE", help="also write the report as an HTML page")
    diff.add_argument("--json", action="store_true", help="print the report as JSON instead of text")
    diff.add_argument(
        "--fail-on-growth",
        type=_size,
        metavar="SIZE",
        help="exit with status 1 if a line keeps this much more than before, or all lines together",
    )
    return diff


def _names_of(command: argparse.ArgumentParser) -> list[str]:
    return [name for action in command._actions for name in action.option_strings if name.startswith("--")]


def _unknown(given: str, names: Iterable[str], command: str) -> str:
    close = get_close_matches(given.partition("=")[0], list(names), n=1)
    advice = f"did you mean {close[0]}?" if close else f"`{PROGRAM} {command} --help` lists the options"
    return f"there is no option {given}: {advice}"


def _writable(text: str) -> Path:
    path = _placed(text)
    try:
        return require_ours(path)
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _record(text: str) -> Path:
    path = _placed(text)
    try:
        if path.exists() and not is_spool(path):
            raise argparse.ArgumentTypeError(
                f"{text!r} exists, and is not a record of a run: name another file, or remove it"
            )
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def _placed(text: str) -> Path:
    """Return `text` as a path in a folder that exists."""
    # Make the path absolute, because the program may change the working directory. Check it now, because the
    # program may run for hours.
    try:
        path = Path(text).absolute()
    except FileNotFoundError:
        raise argparse.ArgumentTypeError(
            f"{text!r} can't be written: the working directory was deleted. Write an absolute path"
        ) from None
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"{text!r} can't be written: there is no folder {str(path.parent)!r}"
        )
    return path


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines: write 1 or more")
    return int(text)


def _size(text: str) -> str:
    """Return `text`, as the user wrote it, if it is a size."""
    if text.isdecimal() and int(text) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} has no unit: write {text}B or {text}MiB")
    try:
        parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write a number of seconds above 0")
    return seconds


def _pid(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a process: `ps` lists them")
    return int(text)


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def _duration(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write 90, 60s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2]]


# What `pyproject.toml` can set, with how its text is read. The others are true or false.
_READ: dict[str, Callable[[str], object]] = {
    "html": _writable,
    "json": _writable,
    "record": _record,
    "trace": _writable,
    "snapshot": _writable,
    "depth": _positive,
    "every": _seconds,
    "leak-threshold": _size,
}
_SWITCHES = ("annotate", "counts", "fail-on-leak", "live", "torch")


def _settings(fail: Callable[[str], object]) -> dict[str, object]:
    """Return the settings of the nearest ``pyproject.toml``, that of the folder or of one above it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return {}
    files = [folder / "pyproject.toml" for folder in (here, *here.parents)]
    file = next((each for each in files if each.is_file()), None)
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get(PROGRAM, {})
    except (OSError, ValueError) as error:
        fail(f"can't read the settings in {file}: {error}")
    found: dict[str, object] = {}
    for name, value in table.items():
        try:
            found[name.replace("-", "_")] = _setting(name, value, file.parent)
        except argparse.ArgumentTypeError as error:
            fail(f"{name} in [tool.{PROGRAM}] of {file}: {error}")
    return found


def _setting(name: str, value: object, folder: Path) -> object:
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise argparse.ArgumentTypeError(f"{value!r} is not true or false")
        return value
    if name not in _READ:
        close = get_close_matches(name, [*_READ, *_SWITCHES], n=1)
        advice = f"did you mean {close[0]}?" if close else f"there are {', '.join([*_READ, *_SWITCHES])}"
        raise argparse.ArgumentTypeError(f"there is no such setting: {advice}")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise argparse.ArgumentTypeError(f"{value!r} is neither a text nor a number")
    if name == "leak-threshold" and isinstance(value, int):
        value = f"{value} B"
    read = _READ[name]
    return read(str(folder / str(value)) if read in (_writable, _record) else str(value))
