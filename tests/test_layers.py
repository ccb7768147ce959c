"""Imports point one way: scopes <- tensor <- nn, and inside a package too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What each package may import at run time, beside the standard library and itself.
ALLOWED = {
    "scopes": set(),
    "tensor": {"numpy", "scopes"},
    "nn": {"numpy", "scopes", "tensor"},
}
# What one module may import besides: only who has it loads that module.
HOSTS = {"scopes.pytest_plugin": {"pytest"}}
FOR_TYPES_ALONE = {"typing_extensions"}
OWN = set(ALLOWED)


def files(package: str) -> dict[str, Path]:
    """Each module of `package` by its dotted name."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def imports(path: Path) -> Iterator[tuple[str, list[str], bool, bool]]:
    """Yield the module, the names, whether inside a function, and whether for types alone."""

    def walk(node: ast.AST, deep: bool, types: bool) -> Iterator[tuple[str, list[str], bool, bool]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, [], deep, types
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or "", [alias.name for alias in node.names], deep, types
        elif isinstance(node, ast.If) and is_type_checking(node):
            for child in node.body:
                yield from walk(child, deep, True)
            for child in node.orelse:
                yield from walk(child, deep, types)
        else:
            deep = deep or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            for child in ast.iter_child_nodes(node):
                yield from walk(child, deep, types)

    yield from walk(ast.parse(path.read_text()), False, False)


@pytest.mark.parametrize("package", ALLOWED)
def test_each_package_imports_only_what_is_above_it(package: str) -> None:
    for name, path in files(package).items():
        allowed = ALLOWED[package] | HOSTS.get(name, set())
        for module, _, deep, types in imports(path):
            top = module.partition(".")[0]
            if top == package or top in sys.stdlib_module_names or top in allowed:
                continue
            if types and top in FOR_TYPES_ALONE:
                continue
            # An optional extra is imported where it is used.
            assert deep, f"{path} imports {module}"
            assert top not in OWN, f"{path} imports {module}"


@pytest.mark.parametrize("package", ALLOWED)
def test_no_package_imports_the_private_modules_of_another(package: str) -> None:
    for path in files(package).values():
        for module, names, _, types in imports(path):
            top = module.partition(".")[0]
            private = any(part.startswith("_") for part in [*module.split(".")[1:], *names])
            assert types or top == package or top not in OWN or not private, f"{path} imports {module}"


@pytest.mark.parametrize("package", ALLOWED)
def test_no_function_imports_our_own_packages(package: str) -> None:
    for path in files(package).values():
        for module, _, deep, _ in imports(path):
            assert not (deep and module.partition(".")[0] in OWN), f"{path} imports {module} in a function"


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_inside_a_package_form_no_cycle(package: str) -> None:
    modules = files(package)
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for module, names, _, types in imports(path):
            if types or module not in modules:
                continue
            inner = {f"{module}.{part}" for part in names} & set(modules)
            # `from package import _module` needs the module, not what the package's face hands on.
            graph[name] |= inner
            if len(inner) < len(names) or not names:
                graph[name].add(module)
    order = list(TopologicalSorter(graph).static_order())
    assert set(order) == set(modules)


@pytest.mark.parametrize("package", ALLOWED)
def test_no_module_imports_from_its_own_packages_face(package: str) -> None:
    for name, path in files(package).items():
        for module, names, _, types in imports(path):
            if module == package and name != package and not types:
                assert all(f"{package}.{part}" in files(package) for part in names), (
                    f"{path}: {module} {names}"
                )


@pytest.mark.parametrize("package", ALLOWED)
def test_files_hold_one_idea_in_at_most_400_lines(package: str) -> None:
    for path in files(package).values():
        assert len(path.read_text().splitlines()) <= 400, path


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_of_ours_imports_a_module_that_needs_its_host(host: str) -> None:
    for package in ALLOWED:
        for path in files(package).values():
            assert host not in {module for module, _, _, _ in imports(path)}, path
