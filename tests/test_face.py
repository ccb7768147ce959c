"""The public face: each name exists, is documented and exported once, and nothing private leaks."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from tests.modules import INNER, PACKAGES, host_of, is_public, modules_of, package_of

# Some of its names are made with what that library has.
HANDS_ON = {"nn.parallel": "ray"}

MODULES = [
    name
    for package in PACKAGES
    for name in modules_of(package)
    if is_public(name)
    and ((host := HANDS_ON.get(name, host_of(name))) is None or find_spec(host) is not None)
]


def exports(name: str) -> dict[str, object]:
    module = importlib.import_module(name)
    return {export: getattr(module, export) for export in module.__all__}


@pytest.mark.parametrize("name", MODULES)
def test_each_name_of_all_exists_and_is_listed_once(name: str) -> None:
    module = importlib.import_module(name)
    names = list(module.__all__)
    assert len(names) == len(set(names))
    assert [export for export in names if not hasattr(module, export)] == []
    assert [export for export in names if export.startswith("_") and not export.startswith("__")] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_no_public_name_that_it_does_not_export(name: str) -> None:
    module = importlib.import_module(name)
    shown = {
        key
        for key, value in vars(module).items()
        # "@": pytest's own, in the package of a plugin.
        if not key.startswith(("_", "@"))
        and not (isinstance(value, ModuleType) and value.__name__.startswith(name))
    }
    assert shown - {"TYPE_CHECKING"} - set(module.__all__) == set()


# Cython sets the module of these classes.
COMPILED_CLASSES = {"Handle", "Node"}
# Modules for code below the public names, such as layers in C.
FOR_LAYERS = {"tensor.lowlevel", "tensor.kernels"}


@pytest.mark.parametrize("name", [name for name in MODULES if name.partition(".")[0] != "scopes"])
def test_a_public_class_has_the_name_that_users_import(name: str) -> None:
    for key, value in exports(name).items():
        is_own = isinstance(value, type) and package_of(value.__module__) == package_of(name)
        if is_own and name not in FOR_LAYERS and key not in COMPILED_CLASSES:
            assert is_public(value.__module__)
            assert getattr(importlib.import_module(value.__module__), value.__name__) is value


@pytest.mark.parametrize("name", PACKAGES)
def test_the_source_of_a_class_is_its_own_or_is_not_available(name: str) -> None:
    # `inspect` looks in the file of `__module__`. From Python 3.13 on, it takes the line there by its number.
    for key, value in exports(name).items():
        if isinstance(value, type) and package_of(value.__module__) == package_of(name):
            try:
                source = inspect.getsource(value)
            except (OSError, TypeError):
                continue
            assert f"class {value.__name__}" in source, key


@pytest.mark.parametrize(
    "name", ["nn.functional", "nn.utils", "tensor.fft", "tensor.linalg", "tensor.memory"]
)
def test_a_public_function_has_the_module_that_users_import(name: str) -> None:
    functions = {key: value for key, value in exports(name).items() if inspect.isroutine(value)}
    assert {key: value.__module__ for key, value in functions.items()} == dict.fromkeys(functions, name)


@pytest.mark.parametrize("name", ["nn.layers.linear Linear", "tensor._tensor Tensor", "nn.optim.adam Adam"])
def test_pickles_with_the_module_that_defines_a_class_load(name: str) -> None:
    module, cls = name.split()
    found = pickle.loads(f"c{module}\n{cls}\n.".encode())
    assert found is getattr(importlib.import_module(found.__module__), cls)
    assert found.__module__ != module


def said_to_checkers(name: str) -> dict[str, str]:
    """Return the names that are in the stub of a package and load on demand, and the module of each."""
    package = importlib.import_module(name)
    body = ast.parse(Path(inspect.getfile(package)).with_suffix(".pyi").read_text(encoding="utf-8")).body
    eager = vars(package).keys() - package._ON_DEMAND.keys()
    return {
        alias.name: node.module or ""
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) not in eager
    }


OF_TENSOR = ["scopes", "tensor", "tensor.autograd", "tensor.kernels", "tensor.memory"]
OF_NN = ["nn", "nn.data", "nn.functional", "nn.optim", "nn.optim.lr_scheduler", "nn.utils"]


@pytest.mark.parametrize("name", OF_TENSOR + OF_NN)
def test_a_name_loaded_at_first_use_comes_from_the_module_that_checkers_see(name: str) -> None:
    package = importlib.import_module(name)
    said = said_to_checkers(name)
    assert set(said) <= set(dir(package))
    for export, module in said.items():
        found = getattr(importlib.import_module(module), export)
        assert inspect.unwrap(getattr(package, export)) is inspect.unwrap(found)
        assert getattr(package, export) is getattr(package, export)


def loaded_by(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_of_tensor_loads_nothing_that_waits_for_its_first_use() -> None:
    packages = {"scopes", "tensor", "tensor.autograd", "tensor.memory"}
    modules: set[str] = set()
    namespaces: set[str] = set()
    for package in packages:
        names = said_to_checkers(package)
        modules |= {*names.values()}
        namespaces |= {f"{package}.{name}" for name, module in names.items() if module == package}
    assert namespaces == {"tensor.fft", "tensor.linalg", "tensor.autograd.graph"}
    assert loaded_by("tensor") & ((modules - packages) | namespaces) == set()


def test_import_of_nn_loads_no_layer_function_or_optimizer() -> None:
    waiting = {module for package in OF_NN for module in said_to_checkers(package).values()}
    others = {"nn.data", "nn.functional", "nn.init", "nn.module.backward_hooks", "nn.optim", "nn.utils"}
    others |= {"tensor.autograd.checkpointing", "tensor.io.torch_files", "tensor.kernels.updates"}
    folders = {name.rpartition(".")[0] for name in waiting}
    assert folders > {"nn.functional", "nn.layers", "nn.optim"}
    assert loaded_by("nn") & ((waiting | others) - {"nn"}) == set()


@pytest.mark.parametrize("name", sorted(INNER))
def test_a_folder_that_users_do_not_import_from_is_described_and_hands_nothing_on(name: str) -> None:
    module = importlib.import_module(name)
    assert inspect.getdoc(module)
    assert not hasattr(module, "__all__")


def documented(owner: str, value: object) -> list[str]:
    """Return the public functions, classes and methods without a docstring."""
    if not isinstance(value, type) and not inspect.isfunction(inspect.unwrap(value)):
        return []
    missing = [] if inspect.getdoc(value) else [owner]
    if isinstance(value, type):
        for key, member in vars(value).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            is_public = not key.startswith("_")
            if (
                is_public
                and inspect.isfunction(inspect.unwrap(function))
                and not inspect.getdoc(getattr(value, key))
            ):
                missing.append(f"{owner}.{key}")
    return missing


@pytest.mark.parametrize("name", MODULES)
def test_each_public_function_class_and_method_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(importlib.import_module(name))
    missing = [gap for key, value in exports(name).items() for gap in documented(f"{name}.{key}", value)]
    assert missing == []


def made_at_import(path: Path) -> Iterator[str]:
    """Return the statements of a file that make functions, or write docstrings, while the program runs."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(x, ast.Attribute) and x.attr == "__doc__" for x in targets):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in {"FunctionType", "make_dataclass"} or {x.arg for x in node.keywords} & {"co_name"}:
                yield ast.unparse(node)


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_and_docstrings_stand_in_the_source(package: str) -> None:
    sources = [path for path in modules_of(package).values() if path.suffix == ".py"]
    assert [made for path in sources for made in made_at_import(path)] == []


OF_SCOPES = [name for name in MODULES if name.partition(".")[0] == "scopes"]


@pytest.mark.parametrize("name", OF_SCOPES)
def test_public_names_of_scopes_say_where_users_find_them(name: str) -> None:
    said = {
        export: getattr(value, "__module__", name)
        for export, value in exports(name).items()
        if isinstance(value, type) or callable(value)
    }
    # A name of `scopes` may be in `scopes.lowlevel` too.
    assert {export: module for export, module in said.items() if module not in {name, "scopes"}} == {}


@pytest.mark.parametrize("name", OF_SCOPES)
def test_examples_of_public_names_of_scopes_hold(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for export, value in exports(name).items():
        if getattr(value, "__module__", name) == name:
            for found in doctest.DocTestFinder().find(inspect.unwrap(value), export, module=False, globs={}):  # type: ignore[arg-type]
                runner.run(found)
    assert runner.failures == 0
