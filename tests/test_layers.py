"""Imports point one way: scopes <- tensor <- nn, and inside a package from folder to folder too."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from scopes import DisposeScope
from tests.modules import modules_of as files
from tests.modules import package_of

# What each package may import at run time, beside the standard library and itself.
ALLOWED = {
    "scopes": set(),
    "tensor": {"numpy", "scopes"},
    "nn": {"numpy", "scopes", "tensor"},
    # PyTorch's face lies in the folder of `tensor`, because that is how its users import it, and above `nn`,
    # which it hands on: a package of its own here, which nobody imports.
    "tensor.torch": {"numpy", "scopes", "tensor", "nn"},
}
# What one module may import besides. Only programs that have this library load the module.
HOSTS = {
    "scopes.testing.plugin": {"pytest"},
    "scopes.testing.peaks": {"pytest"},
    "scopes.integrations.accelerate": {"accelerate"},
    "scopes.integrations.ignite": {"ignite"},
    "scopes.integrations.lightning": {"lightning"},
    "scopes.integrations.skorch": {"skorch"},
    "scopes.integrations.stable_baselines3": {"stable_baselines3"},
    "scopes.integrations.transformers": {"transformers"},
    "nn.parallel.jobs": {"ray"},
}
FOR_TYPES_ALONE = {"typing_extensions"}
# Declarations that come with Cython.
WITH_CYTHON = {"cpython", "cython", "libc", "libcpp"}
OWN = set(ALLOWED)
# Folders, and modules beside them, from the bottom up: each imports from itself and from those before it,
# for types too. A package's face imports from all of them.
ORDER = {
    "scopes": "_version _shared core tracking reports adapters integrations testing command __main__ "
    "lowlevel torch jax cupy notebook",
    "tensor": "_errors _devices _dtypes _bfloat16 _numeric_limits memory core tape kernels ops creation "
    "autograd io methods _advice _tensor linalg fft lowlevel",
    "tensor.torch": "calling promotion functions lu_factors solving linalg masked fft randomness accelerator "
    "cuda backends typed creation joining composing special signal windows serialization autograd nn onnx "
    "optim trees transforms mapping func utils distributions amp profiler settings testing version",
    "nn": "module init functional utils layers optim data parallel",
}
# The class that all folders of `tensor` add their methods to: they name it in annotations, and only there. It
# is the one exception: a function that takes and returns tensors says so, and the class has it as a method.
ASSEMBLED = "tensor._tensor"
# Folders of what no known program uses. Only the modules that list names import from there.
RARE = "rare"
LISTING = {"nn", "nn.functional", "nn.optim", "tensor.methods.linear_algebra"}
LISTING |= {"tensor.torch.composing", "tensor.torch.lu_factors", "tensor.torch.solving"}
# Who still imports from a folder after its own. Each entry is needed, so that the list can only shrink.
EXCEPTIONS: dict[str, set[str]] = {}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


Import = tuple[str, list[str], bool, bool]


@cache
def imports(path: Path) -> list[Import]:
    """Return of each import the module, the names, whether in a function, and whether for types alone."""

    def walk(node: ast.AST, deep: bool, types: bool) -> Iterator[Import]:
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

    if path.suffix in {".py", ".pyi"}:
        return list(walk(ast.parse(path.read_text(encoding="utf-8")), False, False))
    return list(compiled_imports(path))


def imports_of_stub(path: Path) -> list[Import]:
    """Return the imports of the stub beside a compiled module. They are for types alone."""
    stub = path.with_suffix(".pyi")
    if path.suffix == ".py" or not stub.exists():
        return []
    return [(module, names, deep, True) for module, names, deep, _ in imports(stub)]


def compiled_imports(path: Path) -> Iterator[Import]:
    """Do the same for a compiled module: each import and cimport of its source and of its declarations."""
    pattern = r"^( *)(?:from (\S+) )?c?import (\([^)]*\)|.*)"
    for source in {path, path.with_suffix(".pxd")}:
        text = source.read_text(encoding="utf-8") if source.exists() else ""
        for indent, module, listed in re.findall(pattern, text, re.MULTILINE):
            assert not module.startswith("."), f"{source} imports relatively"
            names = [part.split()[0] for part in listed.strip("()").split(",") if part.split()]
            for name in [module] if module else names:
                if name.partition(".")[0] not in WITH_CYTHON:
                    yield name, names if module else [], bool(indent), False


@pytest.mark.parametrize("package", ALLOWED)
def test_each_package_imports_only_the_packages_before_it(package: str) -> None:
    for name, path in files(package).items():
        allowed = ALLOWED[package] | HOSTS.get(name, set())
        for module, _, deep, types in imports(path):
            top = package_of(module)
            if top == package or top in sys.stdlib_module_names or top in allowed:
                continue
            if types and top in FOR_TYPES_ALONE:
                continue
            # An optional extra is imported where it is used.
            assert deep, f"{path} imports {module}"
            assert top not in OWN, f"{path} imports {module}"


def part_of(module: str) -> str:
    """Return the folder of a module, or the module's own name at a package's root; "" for the face."""
    return f"{module}.".removeprefix(f"{package_of(module)}.").partition(".")[0]


def targets(module: str, names: list[str], modules: Mapping[str, Path]) -> set[str]:
    """Return the modules that ``from module import names`` takes something from, our own ones."""
    if module not in modules:
        return set()
    inner = {f"{module}.{part}" for part in names} & set(modules)
    # `from package import module` needs the module, not what the package's face hands on.
    return inner if names and len(inner) == len(names) else inner | {module}


@pytest.mark.parametrize("package", ALLOWED)
def test_folders_import_only_from_those_before_them(package: str) -> None:
    modules = files(package)
    rank = {part: i for i, part in enumerate(ORDER[package].split())}
    assert set(rank) == {part_of(name) for name in modules} - {""}
    against: dict[str, set[str]] = {}
    for name, path in modules.items():
        for module, names, _, types in imports(path) if name != package else ():
            for target in targets(module, names, modules):
                if types and target == ASSEMBLED:
                    continue
                there = part_of(target)
                if there == "" or rank[there] > rank[part_of(name)]:
                    against.setdefault(name, set()).add(there)
    assert against == {name: parts for name, parts in EXCEPTIONS.items() if name in modules}


@pytest.mark.parametrize("package", ALLOWED)
def test_only_modules_that_list_names_import_from_a_rare_folder(package: str) -> None:
    for name, path in files(package).items():
        used = {module for module, _, _, _ in imports(path) if RARE in module.split(".")}
        assert not used or name in LISTING or RARE in name.split("."), f"{path} imports {used}"


@pytest.mark.parametrize("package", ALLOWED)
def test_no_function_imports_our_own_packages(package: str) -> None:
    for path in files(package).values():
        for module, _, deep, _ in imports(path):
            assert not (deep and package_of(module) in OWN), f"{path} imports {module} in a function"


def test_imports_form_no_circle_also_with_those_for_types() -> None:
    modules = {name: path for package in ALLOWED for name, path in files(package).items()}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for module, names, _, types in [*imports(path), *imports_of_stub(path)]:
            for target in targets(module, names, modules) - {name}:
                if types and target == ASSEMBLED:
                    continue
                graph[name].add(target)
                # Who comes from outside of a folder runs its `__init__` first.
                package = package_of(target)
                folder = ".".join(part for part in (package, part_of(target)) if part)
                if not types and folder != target and not f"{name}.".startswith(f"{folder}."):
                    graph[name].add(folder)
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert set(order) == set(modules)


@pytest.mark.parametrize("package", ALLOWED)
def test_no_module_imports_from_its_own_packages_face(package: str) -> None:
    for name, path in files(package).items():
        for module, names, _, types in imports(path):
            if module == package and name != package and not types:
                assert all(f"{package}.{part}" in files(package) for part in names), (
                    f"{path}: {module} {names}"
                )


@pytest.mark.parametrize("host", HOSTS)
def test_no_module_of_the_library_imports_a_module_that_needs_its_host(host: str) -> None:
    for package in ALLOWED:
        for path in files(package).values():
            assert host not in {module for module, _, _, types in imports(path) if not types}, path


def test_the_core_of_scopes_names_no_other_library() -> None:
    folder = files("scopes")["scopes.core"].parent
    found = {
        path.name: word
        for path in folder.iterdir()
        if path.is_file()
        for word in ("torch", "jax", "cupy")
        if word in path.read_text(encoding="utf-8").lower()
    }
    assert found == {}


def test_a_scope_is_one_class() -> None:
    assert DisposeScope.__mro__ == (DisposeScope, object)
