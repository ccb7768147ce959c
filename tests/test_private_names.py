"""Tests use the library by its public names. Where no public way exists, the reason is here."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("disposescope", "nn", "scopes", "tensor")
# Public, though they begin with an underscore: names of namedtuples and of IPython, and methods of a
# subclass of `Disposable`.
PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_repr_html_", "_finalize", "_release"}

#: By file: the private names that it uses, and why.
REASONS: dict[str, dict[str, str]] = {
    "modules.py": {"_shared _steps": "a list of all modules"},
    "test_layers.py": {"_tensor": "which modules import which"},
    "test_face.py": {"_ON_DEMAND": "compares the table with the stub and with the names of the package"},
    "test_hints.py": {
        "_advice _NAMES": "all names that have advice, to try each; the advice itself is an error"
    },
    # nn
    "nn/parallel_jobs.py": {
        "_regions": "shortens the time that a worker waits, in a job that is under way",
        "_actor": "ends the process of the board, as a machine that fails does",
    },
    "nn/parallel_training.py": {"_region": "waits until another worker has given up, which nothing prints"},
    "torch_face/test_forms.py": {"_pair _triple": "PyTorch's names, which programs import"},
    "nn/samples.py": {"_unpadded": "the op of the second derivative, which only derivatives call"},
    "nn/test_budgets.py": {
        "_SMALL": "tries small tensors, which a budget leaves in memory",
        "_LEAST_PART": "divides small nodes, as large ones are",
    },
    "nn/test_convolutions.py": {
        "_PIECE_BYTES _LEAST_PLACES": "divides small inputs into pieces, as large ones are"
    },
    "nn/test_parallel_exchange.py": {"_LEFT": "what a worker tells others in shared memory"},
    "nn/test_workers.py": {
        "_workers _name": "kills one worker, or removes its shared memory, at a certain moment",
        "_MAX_OUT": "reaches the limit of files with five files",
    },
    # scopes
    "scopes/test_compound.py": {
        "_raise_if_disposed": "the least subclass of Disposable has no method that uses it"
    },
    "scopes/test_memory_limits.py": {
        "_shared": "reads limits from files that the test writes, since a process cannot make its own"
    },
    "scopes/test_scope.py": {
        "_outer": "ended scopes that an open one keeps; `current_dispose_scope()` skips them"
    },
    "scopes/test_spill.py": {
        "_file": "changes bytes in the file, which has no name on Linux",
        "_shared": "the file that budgets write to, by itself",
    },
    "scopes/test_threads.py": {
        "_ended_scope": "which scope has disposed an object, without the text of an error"
    },
    "scopes/test_timeline.py": {
        "_shared": "the guard of an object that one thread uses at a time",
        "_kept _new_events _common_paths": "what a timeline keeps, which must stay within a bound; "
        "the scopes of its samples are only drawn",
        "_entering _sampling _sampled_at _is_stuck _MAX_WAIT": "stops another thread at a certain moment",
    },
    "scopes/test_guard.py": {"_shared": "the guard of objects that one thread uses at a time, by itself"},
    "scopes/test_old_pickles.py": {"_shared _figures _statistics": "modules that old pickles name"},
    "scopes/test_tracebacks.py": {"_shared _packages": "forgets a library of the test again"},
    "scopes/test_tracking.py": {"_codes": "what tracking keeps of collected code, which must not grow"},
    "scopes/foreign/test_cupy.py": {"_Blocks": "calls a hook of the memory pool, which runs only with a GPU"},
    "scopes/foreign/test_torch_whole_steps.py": {"_steps": "makes writes to the file fail"},
    "scopes/foreign/test_torch_budgets.py": {"_file": "cuts the file short, which has no name on Linux"},
    "scopes/foreign/test_torch_import.py": {
        "_ON_DEMAND": "compares the table with the modules that it names"
    },
    "scopes/foreign/test_torch_keeping.py": {
        "_INSTALLED": "a folder of the test counts as installed, without pip",
        "_CONSTANTS _holds_constants _verdict_on": "names in other libraries, which these may remove",
        "_is_keeper _is_installed_at": "a cache of this package has no tensors: a search takes only time",
        "_uses_torch": "a module that a library loads later, without installing one",
        "_MAX_ENTRIES": "fills the report with one row",
    },
    "scopes/foreign/test_torch_keeping_frameworks.py": {
        "_INSTALLED": "a folder of the test counts as installed, without pip"
    },
    "scopes/foreign/test_torch_owning.py": {
        "_Functions": "an error while `owning()` begins",
        "_apply": "a name of PyTorch that frameworks replace",
    },
    "scopes/foreign/test_torch_ways.py": {
        "_INSTALLED": "a folder of the test counts as installed, without pip",
        "_searches": "searches for holders become rare in a long run, and a test may come late",
    },
    # tensor
    "tensor/test_steps_in_blocks.py": {
        "_shared": "the file that budgets write to, whose writes fail here",
        "_formula": "uses a parameter in the middle of a step",
    },
    "tensor/test_budget_faults.py": {"_shared": "the file that budgets write to, whose writes fail here"},
    "tensor/test_budgets.py": {
        "_shared": "the file that budgets write to, whose reads fail here",
        "_file _read_at": "a file that can't be read; it has no name on Linux",
        "_tape": "what a budget keeps of freed nodes, which must not grow",
    },
    "tensor/test_files.py": {"_write": "an error, or the end of the process, between two tensors of a file"},
    "tensor/test_idle_tensors.py": {
        "_live_array _buffer": "holds the array as a running op does",
        "_tape _filed _write": "another thread's call during the write to the file",
    },
    "tensor/test_memory_model.py": {"_array": "x.numpy() exports, and the tensor stops sharing"},
    "tensor/test_memory_threads.py": {"_array": "x.numpy() exports, and the tensor stops sharing"},
    "tensor/test_saved_values.py": {"_array": "x.numpy() exports, and the tensor stops sharing"},
    "tensor/test_timeline.py": {
        "_kept": "the samples of memory, of which a file merges equal ones",
        "_PERIOD": "so that no sample is due by the clock",
    },
}


def is_private(name: str) -> bool:
    return re.fullmatch(r"_[A-Za-z]\w*", name) is not None and name not in PUBLIC


@cache
def names_of_the_library() -> frozenset[str]:
    """Return the private names that the library defines: modules, functions, classes and attributes."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.suffix == ".py":
                found.update(defined_in(ast.parse(path.read_text(encoding="utf-8"))), [path.stem])
            elif path.suffix in (".pyx", ".pxd"):
                lines = re.findall(r"^ *(?:c?p?def|class|@)\b.*|^ *[\w.]+ = ", path.read_text("utf-8"), re.M)
                found.update(re.findall(r"\b_[A-Za-z]\w*", "\n".join(lines)), [path.stem])
    return frozenset(filter(is_private, found))


def defined_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def used_in(tree: ast.AST) -> Iterator[str]:
    """Yield each name that code imports, reads as an attribute or sets by its name, also in strings."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                yield name
            case ast.Import(names=aliases):
                yield from parts_of(alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases):
                yield from parts_of(f"{module}.{alias.name}" for alias in aliases)
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "delattr")
                | ast.Attribute(attr="setattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                yield name
            case ast.Constant(value=str(text)) if re.fullmatch(r"\w+(\.\w+)+", text):
                yield from parts_of([text])
            case ast.Constant(value=str(text)) if "\n" in text or "import " in text:
                try:
                    code = ast.parse(textwrap.dedent(text))
                except (SyntaxError, ValueError):
                    continue  # no program
                yield from set(used_in(code)) - set(defined_in(code))


def parts_of(paths: Iterable[str]) -> Iterator[str]:
    """Yield the parts of the dotted names that are in the library."""
    for path in paths:
        if path.startswith(tuple(f"{package}." for package in PACKAGES)):
            yield from path.split(".")


def private_names_in(source: str) -> set[str]:
    """Return the private names of the library that the source of a test uses and does not define."""
    tree = ast.parse(source)
    return (set(used_in(tree)) & names_of_the_library()) - set(defined_in(tree))


def test_private_names_are_used_only_where_no_public_way_exists() -> None:
    without_reason, without_use = [], []
    paths = {str(path.relative_to(ROOT / "tests")): path for path in sorted((ROOT / "tests").rglob("*.py"))}
    for file in paths.keys() - {"test_private_names.py"} | REASONS.keys():
        used = private_names_in(paths[file].read_text(encoding="utf-8")) if file in paths else set()
        given = {name for names in REASONS.get(file, {}) for name in names.split()}
        without_reason += [f"{file}: {name}" for name in used - given]
        without_use += [f"{file}: {name}" for name in given - used]
    assert not without_reason, "use a public name, or give the reason in REASONS"
    assert not without_use, "remove the reason of a name that the file no longer uses"


def test_private_names_are_found_in_each_form() -> None:
    source = """
import tensor._tensor
from scopes.adapters.torch import keepers
from tensor._advice import _NAMES

PROGRAM = "import tensor\\ntensor.ones(2)._array"


class Own:
    def _write(self):
        self._write()


def test(monkeypatch):
    x = keepers._INSTALLED
    monkeypatch.setattr(keepers, "_is_keeper", None)
    monkeypatch.setattr("tensor.tape.recipes._SMALL", 0)
    assert not x._no_such_name
"""
    assert private_names_in(source) == {
        *("_tensor", "_advice", "_NAMES", "_array"),
        *("_INSTALLED", "_is_keeper", "_SMALL"),
    }
