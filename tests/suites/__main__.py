"""Run other projects' own tests plain and inside scopes, and compare the outcome of each test.

    make test-suites TORCHMETRICS=folder TIMM=folder TRANSFORMERS=folder EINOPS=folder PYTORCH=folder

A scope is around a whole test (``--torch-scopes``), or around each call of the library that the test makes.
The latter is for suites with `calls`. In their plain runs the functions are wrapped too, without a scope.

The folders are checkouts, at the installed versions. A suite without a folder is left out. The result is a
table in Markdown. The status is 1 if a test passes plain, fails in a scope, and is no listed exception.
Such a test runs again before it counts, plain and in a scope, because some tests are random. The status is
also 1 if the process of a suite ends before its last test, as after a crash.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tests.suites.table import EXCEPTIONS, SUITES, Suite

PLUGINS = Path(__file__).with_name("plugins")
# By mode, the option of pytest. The last two open a scope around each call of the library, not around a test.
MODES = {
    "plain": "",
    "owning": "--torch-scopes",
    "exact": "--torch-scopes-exact",
    "calls": "--call-scopes=owning",
    "calls-exact": "--call-scopes=exact",
}


class Run(NamedTuple):
    """What one run of a suite gave: (outcome, seconds, error, calls) by test."""

    tests: dict[str, tuple[str, float, str, int]]
    seconds: float
    log: str
    code: int

    def fault(self) -> str:
        """Say how the process ended, unless it ran all tests; pytest returns 0 or 1 then."""
        if self.code in (0, 1):
            return ""
        last = next(reversed(self.tests), "none")
        return (
            f"pytest ended with {self.code}, {len(self.tests)} tests done (last: {last}):\n{self.log[-3000:]}"
        )

    def passed(self) -> set[str]:
        return {name for name, (outcome, *_) in self.tests.items() if outcome == "passed"}

    def calls(self) -> int:
        """Return how many calls the tests made that pass."""
        return sum(calls for outcome, _, _, calls in self.tests.values() if outcome == "passed")


def run(suite: Suite, checkout: Path, mode: str, given: argparse.Namespace, *only: str) -> Run:
    """Run the suite in a process of its own; `only`: these tests of it."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder, "outcomes.json")
        names = ("suite_outcomes", *suite.plugins, *(["suite_calls"] if suite.calls else []))
        plugins = [word for name in names for word in ("-p", name)]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider", "-o", "addopts="]
        command += [f"--call={each}" for each in suite.calls]
        command += ["-o", "faulthandler_timeout=600"]
        command += ["--outcomes", str(outcomes), *suite.options, *filter(None, [MODES[mode]])]
        command += only if only else [*suite.tests, f"--each={given.each}"]
        if given.workers and not only:
            command += ["-n", str(given.workers)]
        environment = {
            **os.environ,
            # A suite with calls tests the installed library, not the folder of the checkout.
            **({"PYTHONSAFEPATH": "1"} if suite.calls else {}),
            **dict(suite.environment),
            "PYTHONPATH": str(PLUGINS),
            # One of einops' tests starts `python`.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            # torchmetrics keeps what its tests compare with.
            "PYTEST_REFERENCE_CACHE": str(given.cache),
        }
        began = time.perf_counter()
        done = subprocess.run(
            command, cwd=checkout / suite.folder, env=environment, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - began
        lines = outcomes.read_text(encoding="utf-8").splitlines() if outcomes.exists() else ()
        tests: dict[str, Any] = {name: tuple(found) for name, *found in map(json.loads, lines)}
        return Run(tests, seconds, done.stdout + done.stderr, done.returncode)


def worse(
    suite: Suite, checkout: Path, mode: str, plain: Run, given: argparse.Namespace
) -> tuple[Run, dict[str, str]]:
    """Run the suite in `mode`; return the run, and the error of each test that passes plain alone."""
    scoped = run(suite, checkout, mode, given)
    names = sorted(plain.passed() - scoped.passed())
    if not scoped.tests or not names:
        return scoped, dict.fromkeys(names, "the run wrote no outcomes")
    # Once more, as some are random.
    again, again_scoped = (run(suite, checkout, each, given, *names) for each in ("plain", mode))
    still = again.passed() - again_scoped.passed()
    unknown = ("failed", 0.0, "it never ended", 0)
    found = {**scoped.tests, **again_scoped.tests}
    return scoped, {name: found.get(name, unknown)[2] for name in sorted(still)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites")
    for key in dict.fromkeys(suite.package for suite in SUITES.values()):
        parser.add_argument(f"--{key}", type=Path, metavar="FOLDER", help="a checkout of its repository")
    parser.add_argument("--only", nargs="*", help="suites that begin with one of these names")
    parser.add_argument("--each", type=int, default=1, metavar="N", help="run one test of N")
    parser.add_argument("--workers", type=int, default=0, help="processes, by pytest-xdist")
    parser.add_argument("--modes", nargs="*", choices=[*MODES][1:], default=[*MODES][1:])
    given = parser.parse_args()
    print(f"PyTorch {version('torch')}, Python {sys.version.partition(' ')[0]}\n")
    columns = "".join(f" passed, {mode} | exceptions | time |" for mode in given.modes)
    print(f"| suite | tests | calls | passed, plain | time |{columns}")
    print("|---|---|---|---|---|" + "---|---|---|" * len(given.modes), flush=True)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        given.cache = cache
        for name, suite in SUITES.items():
            checkout: Path | None = getattr(given, suite.package)
            if checkout is None or (given.only and not any(name.startswith(each) for each in given.only)):
                continue
            plain = run(suite, checkout, "plain", given)
            if plain.fault() or not plain.passed():
                faults.append(f"{name}, plain: {plain.fault() or 'no test passes'}")
            counts = Counter(outcome for outcome, *_ in plain.tests.values())
            row = f"| {name} ({suite.package} {version(suite.package)}) | {len(plain.tests):,} "
            row += f"| {plain.calls():,} " if suite.calls else "| "
            row += f"| {counts['passed']:,} | {plain.seconds:.0f} s |"
            for mode in given.modes:
                if mode.startswith("calls") and not suite.calls:
                    row += " | | |"
                    continue
                scoped, found = worse(suite, checkout, mode, plain, given)
                if scoped.fault():
                    faults.append(f"{name}, {mode}: {scoped.fault()}")
                known = EXCEPTIONS.get((name, mode), {})
                listed = {test for test in found if any(fnmatchcase(test, each) for each in known)}
                row += f" {len(plain.passed()) - len(found):,} | {len(listed)} | {scoped.seconds:.0f} s |"
                faults += [
                    f"{name}, {mode}: {test}\n    {error[:600]}"
                    for test, error in found.items()
                    if test not in listed
                ]
                if given.each == 1:
                    faults += [
                        f"{name}, {mode}: nothing that is like {each!r} fails: remove this exception"
                        for each in known
                        if not any(fnmatchcase(test, each) for test in listed)
                    ]
            print(row, flush=True)
    for fault in faults:
        print(f"\n{fault}", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
