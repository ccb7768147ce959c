"""Make small changes to the library, one at a time, and see which tests notice them: ``make mutants``.

    python -m tests.mutants --count 40 --seed 7 scopes tensor/memory

The seed draws the changes: a comparison turned, ``and`` and ``or`` exchanged, a condition negated, a
constant one larger or smaller, a ``not`` removed, None returned, a statement left out. Each change is made
in a copy of the tree (``build/mutants``), never in the checkout. A changed compiled module is compiled
there. Then the tests of its package, and those directly in ``tests``, run until one fails; tests that share
rare names with the changed code run first. A test that hangs counts as failed. A test that fails without
the change too does not count. ``mutants.toml`` lists changes that no test can notice.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tokenize
import tomllib
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "mutants"
TREE, BUILD, PYTHON = WORK / "tree", WORK / "build", WORK / "venv/bin/python"
FOLDERS = ["scopes", "tensor/memory", "tensor/core", "tensor/tape", "nn/module", "nn/optim"]
MOST_BYTES = 12 << 30  # of one process: a wrong size must not fill the machine
IMPORT = "the import"  # instead of a test, if none has begun
MARK = f"DISPOSESCOPE_MUTANTS={os.getpid()}"  # in the environment of each process that tests start

TURNED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+"}
TURNED |= {"and": "or", "or": "and", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}
TURNED |= {"True": "False", "False": "True"}
# Lines that declare names, and docstrings. An error's text is not changed either, nor what `repr` says.
DECLARING = re.compile(
    r"@|(from|c?import|include|class|c?p?def|ctypedef|async|extern|global|nonlocal|assert|with|type|DEF|IF)\b"
    r"|__\w+__ = |[rf]*[\"']|if TYPE_CHECKING|else:|try:|finally:"
)
# A call, an exit, or an assignment to something that is no local variable, which would only be undefined.
STATEMENT = re.compile(
    r"(raise|break|continue|del)\b|[\w.]+(\[.*\])?\(.*\)$|\w+(\.\w+|\[[^\]]*\])+ = |[\w.\[\]]+ \S?\S= ", re.S
)
ANNOTATION = re.compile(r"[\w.]+: [^=\n]*(= |$)")

Tokens = list[tokenize.TokenInfo]


@dataclass(frozen=True)
class Mutant:
    """A change of a file: the characters from `start` to `end` become `now`."""

    file: str
    source: str
    start: int
    end: int
    now: str
    around: tuple[str, ...]  # the functions and classes that it is in

    @property
    def place(self) -> str:
        return f"{self.file}:{self.source.count(chr(10), 0, self.start) + 1}"

    @property
    def text(self) -> str:
        return self.source[: self.start] + self.now + self.source[self.end :]

    def lines(self) -> tuple[str, str]:
        """Return the lines before and after the change, with single spaces."""
        begin, stop = self.source.rfind("\n", 0, self.start) + 1, self.source.find("\n", self.end)
        after = self.source[begin : self.start] + self.now + self.source[self.end : stop]
        return " ".join(self.source[begin:stop].split()), " ".join(after.split())


def logical_lines(source: str) -> Iterator[tuple[Tokens, tuple[str, ...]]]:
    """Yield the tokens of each logical line, and the functions and classes that it is in."""
    around: list[str] = []
    line: Tokens = []
    name = ""
    inside = 0  # of a formatted string, which Python 3.12 and later divide into tokens
    for token in tokenize.generate_tokens(io.StringIO(source.replace("except?", "except ")).readline):
        kind = tokenize.tok_name[token.type]
        inside += (kind == "FSTRING_START") - (kind == "FSTRING_END")
        if kind == "INDENT":
            around.append(name)
        elif kind == "DEDENT":
            around.pop()
        elif kind == "NEWLINE":
            yield line, tuple(filter(None, around))
            text = " ".join(each.string for each in line)
            declared = re.match(r"(?:async )?(?:c?p?def|c?def class|class) (?:[^(]* )?(\w+) [(:]", text)
            name, line = declared[1] if declared else "", []
            if re.match(r"ctypedef|cdef (extern|cppclass|struct|union|enum)\b", text):
                name = "extern"  # declarations of C++, no code
        elif kind not in ("NL", "COMMENT", "ENDMARKER", "FSTRING_END") and not inside:
            line.append(token)


def mutants_of(file: str) -> Iterator[Mutant]:
    """Yield each change that can be made to `file`."""
    source = (ROOT / file).read_text(encoding="utf-8")
    begins = [0]
    for text in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(text))
    for line, around in logical_lines(source):
        spots = [(begins[t.start[0] - 1] + t.start[1], begins[t.end[0] - 1] + t.end[1]) for t in line]
        if spots and not {"extern", "__repr__", "__str__"} & set(around):
            for start, end, now in changes(source, [token.string for token in line], spots):
                yield Mutant(file, source, start, end, now, around)


def changes(source: str, words: list[str], spots: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of one logical line, whose tokens are `words` at `spots`."""
    begin, stop = spots[0][0], spots[-1][1]
    whole = source[begin:stop]
    if DECLARING.match(whole):
        return
    if STATEMENT.match(whole):
        yield begin, stop, "pass"
    if words[0] == "raise":
        return
    if words[0] in ("if", "elif", "while") and words[-1] == ":":
        first, last = spots[1][0], spots[-2][1]
        yield first, last, f"not ({source[first:last]})"
    if words[0] == "return" and words[1:] not in ([], ["None"], ["True"], ["False"]):
        yield spots[1][0], stop, "None"
    annotation = ANNOTATION.match(whole)
    for index, (word, (start, end)) in enumerate(zip(words, spots, strict=True)):
        if annotation and start < begin + annotation.end():
            continue
        pair = " ".join(words[index : index + 2])
        if re.fullmatch(r"\d+", word):
            yield start, end, str(int(word) + 1)
            if int(word):
                yield start, end, str(int(word) - 1)
        elif pair in ("is not", "not in"):
            yield start, spots[index + 1][1], TURNED[pair]
        elif word == "not" and words[index - 1] != "is":
            yield start, end + 1, ""
        elif word == "in" and ("for" in words[:index] or words[index - 1] == "not"):
            continue
        # A space on both sides: not a sign, and in Cython not a cast.
        elif word in ("True", "False") or (word in TURNED and source[start - 1] == source[end] == " "):
            yield start, end, TURNED[word]


def drawn(count: int, seed: int, folders: list[str]) -> list[Mutant]:
    """Draw `count` changes in `folders`; those that need no compiler come first."""
    paths = [path for folder in folders for path in (ROOT / folder, *sorted((ROOT / folder).rglob("*")))]
    files = [str(path.relative_to(ROOT)) for path in paths if path.suffix in (".py", ".pyx")]
    every = [mutant for file in files for mutant in mutants_of(file)]
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    return sorted(chosen, key=lambda mutant: mutant.file if mutant.file.endswith(".pyx") else "")


def prepare() -> None:
    """Bring the copy of the tree up to date, compile it, and make an environment that imports it alone."""
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    names = {name for name in listed.split("\n") if (ROOT / name).is_file()}
    for path in [path for path in TREE.rglob("*") if path.suffix not in (".so", ".pyi")]:
        if path.is_file() and str(path.relative_to(TREE)) not in names:
            path.unlink()
    for name in names:
        copy = TREE / name
        if not copy.exists() or copy.read_bytes() != (ROOT / name).read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy)
    venv.create(PYTHON.parents[1], symlinks=True)
    # Paths alone: the .pth files in these folders, of which one leads to the checkout, are not read.
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(PYTHON.parents[1])}))
    paths = [str(TREE), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "mutants.pth").write_text("\n".join(paths), encoding="utf-8")
    flags = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}"]
    if not compiled("cmake", "-S", str(TREE), "-B", str(BUILD), *flags) or not built("all"):
        sys.exit("The tree does not compile as it is.")
    shutil.copytree(BUILD / "stubs", TREE, dirs_exist_ok=True)


def compiled(*command: str) -> bool:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True).returncode == 0


def built(target: str) -> bool:
    """Compile a module that has changed, or all, and return whether the compiler accepts it."""
    done = compiled("ninja", "-C", str(BUILD), target)
    for module in BUILD.rglob("*.so"):
        copy = TREE / module.relative_to(BUILD)
        if not copy.exists() or copy.stat().st_mtime < module.stat().st_mtime:
            copy.unlink(missing_ok=True)  # a process that still ends may use it
            shutil.copyfile(module, copy)
    return done


def names_in(text: str) -> set[str]:
    """Return the names in a text, and the words in them, without the s of a plural."""
    names = set(re.findall(r"[a-zA-Z]\w+", text))
    return names | {part.lower().removesuffix("s") for part in re.findall(r"[a-zA-Z][a-z]+", text)}


def tests_for(mutant: Mutant) -> list[str]:
    """Return the examples of the changed file, and the tests that may notice it, likely ones first."""
    package = mutant.file.partition("/")[0]
    paths = sorted([*(ROOT / "tests" / package).rglob("test_*.py"), *(ROOT / "tests").glob("test_*.py")])
    texts = {path: names_in(path.read_text(encoding="utf-8")) for path in paths}
    module = mutant.file.rpartition(".")[0].replace("/", ".")
    sources = [path for path in (ROOT / package).rglob("*.py*") if path.suffix in (".py", ".pyx")]
    users = [path for path in sources if f" {module} " in path.read_text(encoding="utf-8")]
    code = mutant.source
    near = code[: mutant.start].rpartition("\n\n")[2] + code[mutant.start :].partition("\n\n")[0]
    weights = dict.fromkeys(names_in(near), 0.3)
    weights |= dict.fromkeys(names_in(" ".join(re.findall(r"^(?:def|class) (\w+)", code, re.M))), 0.5)
    weights |= dict.fromkeys(names_in(" ".join(path.stem for path in users)), 0.5)
    weights |= dict.fromkeys(names_in(module.partition(".")[2]), 1.0)
    weights |= dict.fromkeys(mutant.around, 2.0)

    def score(path: Path) -> float:
        total = 0.0
        for name, weight in weights.items():
            if name in texts[path]:
                total += weight * math.log(len(texts) / sum(name in words for words in texts.values()))
            if name in names_in(path.stem):
                total += 3 * weight
        return total * 0.7 if "subprocess" in texts[path] else total  # it takes longer

    first = [mutant.file] if mutant.file.endswith(".py") else []
    return first + [str(path.relative_to(ROOT)) for path in sorted(paths, key=score, reverse=True)]


def failure(files: list[str], seconds: float, known: list[str]) -> str:
    """Run the tests in `files`, but for `known` ones, until one fails. Return it, or "" if none does.

    The likeliest file is run first, then the next three, then all others: to import them all takes longer
    than most changes need to be noticed.
    """
    for batch in (files[:2], files[2:5], files[5:]):
        found = failing_test([*batch, *known], seconds) if batch else ""
        if found:
            return found
    return ""


def failing_test(arguments: list[str], seconds: float) -> str:
    """Run pytest in the copy, and return the test that fails, or what else ended the run; or ""."""
    scratch = tempfile.mkdtemp(
        prefix="mutants-"
    )  # home and temporary folder of a change that may break anything
    name, _, number = MARK.partition("=")
    environment = os.environ | {name: number, "HOME": scratch, "TMPDIR": scratch, "COLUMNS": "200"}
    options = ["-x", "-v", "--tb=no", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=300"]
    process = subprocess.Popen(
        ["nice", "-n", "19", str(PYTHON), "-m", "pytest", *options, *arguments],
        cwd=TREE,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES)),
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"no test within {seconds:.0f} s"
    finally:
        end(process)
        shutil.rmtree(scratch, ignore_errors=True)
    if process.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output, re.M)
    # A crash, and the stack of a test that hangs, are printed in the line of the test.
    ends = r" \w+ +\[ *\d+%\]| (?:Fatal Python error|Timeout \().*"
    running = re.findall(rf"^(\w+/\S+::.+?)(?:{ends})?$", output, re.M)
    return failed[1] if failed else running[-1] if running else IMPORT


def end(process: subprocess.Popen[str]) -> None:
    """End a run of tests, and what these have started in sessions of their own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if MARK.encode() in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)


def set_source(mutant: Mutant, text: str) -> bool:
    """Write the file in the copy, compile it if need be, and return whether it compiles."""
    (TREE / mutant.file).write_text(text, encoding="utf-8")
    return not mutant.file.endswith(".pyx") or built(mutant.file.removesuffix(".pyx").replace("/", "."))


def outcome(mutant: Mutant, files: list[str], seconds: float, is_sound: dict[str, bool]) -> str:
    """Make a change, and return which test notices it. `is_sound` says which tests pass without one."""
    unsound: list[str] = []
    try:
        while True:
            if not set_source(mutant, mutant.text):
                return "does not compile"
            failed = failure(files, seconds, unsound)
            if not failed or failed.startswith("no test"):
                return f"SURVIVED {failed}"
            if failed not in is_sound or failed == IMPORT:
                set_source(mutant, mutant.source)
                again = ["--collect-only", *files[:2]] if failed == IMPORT else [failed]
                is_sound[failed] = not failing_test(again, seconds)
            if is_sound[failed]:
                return f"noticed by {failed}"
            unsound += ["--deselect", failed]
    finally:
        set_source(mutant, mutant.source)


def main() -> None:
    """Draw changes, try each, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", default=FOLDERS, help="the folders or files to change")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1800, help="the longest run of tests for one change")
    parser.add_argument("--files", type=int, default=1000, help="how many of the likeliest test files to run")
    parser.add_argument("--only", default="", help="only changes at this place: nn/optim/adam.py:31")
    parser.add_argument("--list", action="store_true", help="print the changes without making them")
    chosen = parser.parse_args()
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["equivalent"]
    reasons = {tuple(entry[key] for key in ("file", "in", "was", "now")): entry["why"] for entry in listed}
    if not chosen.list:
        prepare()
    counts: Counter[str] = Counter()
    is_sound: dict[str, bool] = {}
    for mutant in drawn(chosen.count, chosen.seed, chosen.folders):
        if not mutant.place.startswith(chosen.only):
            continue
        was, now = mutant.lines()
        why = reasons.get((mutant.file, ".".join(mutant.around), was, now))
        if why or chosen.list:
            result = f"equivalent: {why}" if why else ""
        else:
            result = outcome(mutant, tests_for(mutant)[: chosen.files], chosen.seconds, is_sound)
        counts[result.partition(" ")[0]] += 1
        print(f"{mutant.place}\n    - {was}\n    + {now}\n    {result}", flush=True)
    print(dict(counts))
    sys.exit(1 if counts["SURVIVED"] else 0)


if __name__ == "__main__":
    main()
