"""Run PyTorch's own test files on `tensor.torch`.

    python -m tests.torch_files --pytorch FOLDER [--only test_indexing.py]

FOLDER is a checkout of PyTorch. Each file runs in a process of its own; ``import torch`` in it gives
`tensor.torch`. The result is a table in Markdown, and each failure that no rule excuses and no entry of
`differences` explains. The status is 1 if there is one. A run of all files lists the entries of rules that
excused nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.torch_files.differences import difference_of
from tests.torch_files.refusals import rule_of, unused

FILES = (
    "test_indexing.py",
    "test_view_ops.py",
    "test_shape_ops.py",
    "test_type_promotion.py",
    "test_sort_and_select.py",
    "test_scatter_gather_ops.py",
    "test_reductions.py",
    "test_tensor_creation_ops.py",
    "test_numpy_interop.py",
    "test_dlpack.py",
    "test_torch.py",
    "test_binary_ufuncs.py",
    "test_unary_ufuncs.py",
    "test_spectral_ops.py",
    "test_linalg.py",
    "test_optim.py",
    "test_nn.py",
    "test_autograd.py",
)
COLUMNS = ("passed", "failed", "refused by rule", "listed", "skipped")


def run(file: Path, written: Path, pattern: str) -> dict[str, dict[str, str]]:
    """Run the tests of a file, in a new process after each that ends it; return what each gave."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu"}
    command = [sys.executable, "-m", "tests.torch_files.child", str(file), str(written), pattern]
    while True:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = (
            [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
            if written.exists()
            else []
        )
        if done.returncode == 0:
            break
        if not lines or lines[-1]["outcome"] != "started":
            raise RuntimeError(f"{file.name} ends with {done.returncode}:\n{done.stderr[-3000:]}")
        crash = {"test": lines[-1]["test"], "outcome": "failed"}
        crash["error"] = f"the process ends with {done.returncode}:\n{done.stderr[-2000:]}"
        with written.open("a", encoding="utf-8") as out:
            out.write(json.dumps(crash) + "\n")
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        # The first failure of a test stands, as of its first subtest.
        if line["test"] not in found or found[line["test"]]["outcome"] != "failed":
            found[line["test"]] = line
    return found


def kind_of(test: str, failure: dict[str, str]) -> str:
    """Return the column of a failure: refused by a rule, listed as a difference, or failed."""
    if rule_of(test, failure.get("absent"), failure.get("error", "")):
        return "refused by rule"
    return "listed" if difference_of(test, failure.get("line", "")) else "failed"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torch_files")
    parser.add_argument("--pytorch", type=Path, required=True, metavar="FOLDER", help="a checkout of PyTorch")
    parser.add_argument("--only", nargs="*", metavar="FILE", help="these files of its folder test")
    parser.add_argument("--tests", default="", metavar="TEXT", help="tests that have this in their names")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the outcomes of all tests stay")
    given = parser.parse_args()
    print(f"| file | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}", flush=True)
    failures: list[str] = []
    excused: set[tuple[str, str]] = set()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in given.only or FILES:
            written = (given.keep or Path(folder)) / f"{name}.jsonl"
            written.unlink(missing_ok=True)
            counts: Counter[str] = Counter()
            for test, line in run(given.pytorch / "test" / name, written, given.tests).items():
                outcome = line["outcome"]
                if outcome == "failed":
                    outcome = kind_of(test, line)
                    failure = test, line.get("absent"), line.get("error", "")
                    rule = rule_of(*failure)
                    if rule is not None:
                        excused.add((rule.title, str(rule.entry_for(*failure))))
                counts[outcome] += 1
                if outcome == "failed":
                    error = line.get("error", "").partition("To execute this test")[0]
                    failures.append(f"{test}, line {line.get('line')}\n    {error[:600].strip()}")
            print(f"| {name} | {' | '.join(f'{counts[each]:,}' for each in COLUMNS)} |", flush=True)
    for text in failures:
        print(f"\n{text}", file=sys.stderr)
    if given.only is None and not given.tests:
        print("\nentries of rules that excused nothing:", *unused(excused), sep="\n    ", file=sys.stderr)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
