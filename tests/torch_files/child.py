"""Run a test file of PyTorch's with `tensor.torch` for its ``torch``; write a line of JSON for each test."""

from __future__ import annotations

import ast
import builtins
import faulthandler
import importlib
import json
import resource
import signal
import sys
import traceback
import types
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import tensor.torch as ours
from tests.torch_files import default_dtype
from tests.torch_files.standins import SETTINGS, absent, add_settings, internal, to_torch

# Parts of the names of tests that do not run: they fill more than 2 GiB, or call PyTorch's own references.
LARGE = ("64bit_indexing", "grid_sample_large_index", "interpolate_buffer_overflow", "affine_large_feature")
REFERENCES = "__refs_"
# Seconds a test may take, and bytes all of them.
SECONDS, MEMORY = 120, 12 << 30


class _Adapted(ast.NodeTransformer):
    """Reads what NumPy's dtypes lack, which ours are, from PyTorch's dtypes."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in ("is_floating_point", "is_complex", "is_signed"):
            node.value = ast.Call(ast.Name("_dtype", ast.Load()), [node.value], [])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Read ``super(self.__class__, self)``, which calls itself in a subclass, as ``super()``.

        And read ``x.new(y.shape)`` of PyTorch's older constructor as ``x.new_empty(y.shape)``.
        """
        self.generic_visit(node)
        is_new = isinstance(node.func, ast.Attribute) and node.func.attr == "new" and len(node.args) == 1
        if is_new and ast.unparse(node.args[0]).endswith((".shape", ".size()")):
            node.func.attr = "new_empty"  # type: ignore[attr-defined]
        if ast.unparse(node) == "super(self.__class__, self)":
            node.args = []
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        """Read a default dtype for a whole file as one of the runner, because ours is always float32."""
        self.generic_visit(node)
        for x in node.body:
            if ast.unparse(x).startswith("torch.set_default_dtype("):
                x.value.func = ast.Name("_set_default_dtype", ast.Load())  # type: ignore[attr-defined]
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """Read ``import torch.a.b as x`` as an import that gives the module itself."""
        kept: list[ast.stmt] = []
        for each in node.names:
            if each.name.startswith("torch.") and each.asname:
                text = f"{each.asname} = __import__({each.name!r}, None, None, ('__name__',))"
                kept.append(ast.copy_location(ast.parse(text).body[0], node))
            else:
                kept.append(ast.copy_location(ast.Import([each]), node))
        return kept

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Drop assertions about warnings that were recorded: which warnings there are is not compared."""
        self.generic_visit(node)
        recorded = {
            item.optional_vars.id
            for each in ast.walk(node)
            if isinstance(each, ast.With)
            for item in each.items
            if ast.unparse(item.context_expr) == "warnings.catch_warnings(record=True)"
            and isinstance(item.optional_vars, ast.Name)
        }
        if "_warning_" in node.name:
            recorded |= {argument.arg for argument in node.args.args[1:]}
        return _Without(recorded).visit(node) if recorded else node


class _Without(ast.NodeTransformer):
    """Drops the calls of ``self.assert...`` that mention one of `names`."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        mentioned = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if mentioned & self.names and ast.unparse(node).startswith("self.assert"):
            return ast.copy_location(ast.Pass(), node)
        return node


class Loader:
    """Executes files of a folder so that ``import torch`` in them gives `tensor.torch`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.builtins = {**vars(builtins), "__import__": self.import_module}
        self.face = types.ModuleType("tensor.torch")
        self.face.__getattr__ = self._attribute  # type: ignore[method-assign]

    def _attribute(self, name: str) -> Any:
        import torch

        if name == "_utils":
            return types.SimpleNamespace(_element_size=lambda dtype: dtype.itemsize)
        found = getattr(torch, name, None)
        # A dtype or layout that we lack is PyTorch's own: decorators list it, and our ops refuse it.
        if isinstance(found, (torch.dtype, torch.layout)) and not hasattr(ours, name):
            return found
        return getattr(ours, name)

    def load(self, name: str) -> types.ModuleType:
        return self.execute(name, self.folder / (name.replace(".", "/") + ".py"))

    def execute(self, name: str, path: Path) -> types.ModuleType:
        module = types.ModuleType(name)
        module.__file__ = str(path)
        vars(module)["__builtins__"] = self.builtins
        sys.modules[name] = module
        vars(module).update(_dtype=to_torch, _set_default_dtype=default_dtype.set_for_file)
        tree = ast.fix_missing_locations(_Adapted().visit(ast.parse(path.read_text(encoding="utf-8"))))
        exec(compile(tree, path, "exec"), vars(module))
        return module

    def import_module(
        self, name: str, names: Any = None, local: Any = None, given: Any = (), level: int = 0
    ) -> Any:
        if level == 0 and name.partition(".")[0] == "torch":
            module = self._of_torch(name)
            for each in given or ():
                if not hasattr(module, each):
                    # What `from x import y` looks for when x has no y.
                    sys.modules[f"{module.__name__}.{each}"] = absent(f"{name}.{each}")
            return module if given else self.face
        if name == "setuptools":
            # Of which a file imports a class of versions that a later setuptools lacks.
            version = types.SimpleNamespace(LooseVersion=str)
            return types.SimpleNamespace(distutils=types.SimpleNamespace(version=version))
        if level == 0 and (self.folder / (name.replace(".", "/") + ".py")).exists():
            return sys.modules.get(name) or self.load(name)
        return builtins.__import__(name, names, local, given, level)

    def _of_torch(self, name: str) -> Any:
        if name == "torch":
            return self.face
        if name == "torch.testing._internal.common_nn":
            # The tests of modules that this file lists are made with our modules and tensors.
            import torch

            path = Path(torch.__file__).with_name("testing") / "_internal/common_nn.py"
            if f"tensor.{name}" not in sys.modules:
                module = self.execute(f"tensor.{name}", path)
                vars(module)["new_module_tests"] = module.get_new_module_tests()  # its older name
            return sys.modules[f"tensor.{name}"]
        if name.startswith("torch.testing._internal") or name == "torch._prims_common":
            return internal(name)
        try:
            return importlib.import_module(f"tensor.{name}")
        except ImportError:
            found: Any = ours
            for part in name.split(".")[1:]:
                found = getattr(found, part, None)
            if found is not None:
                return found
            found = types.ModuleType(f"tensor.{name}")
            found.__getattr__ = lambda part: self._missing(name, part)
            # What `import a.b as c` looks for when a has no b.
            sys.modules[f"tensor.{name}"] = found
            return found

    def _missing(self, name: str, part: str) -> Any:
        if part.startswith("__"):
            raise AttributeError(part)
        if f"{name}.{part}" in SETTINGS:
            return SETTINGS[f"{name}.{part}"]
        # `from_dlpack` is a function of `tensor.torch` itself alone.
        return ours.from_dlpack if part == "from_dlpack" else absent(f"{name}.{part}")


class Outcomes(unittest.TestResult):
    """Writes the outcome of each test as it ends."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def write(self, test: Any, outcome: str, error: Any = None) -> None:
        line: dict[str, str] = {"test": test.id(), "outcome": outcome}
        if isinstance(error, str):
            line["error"] = error
        elif error is not None:
            value = error[1]
            while type(value) is Exception and value.__cause__ is not None:
                # PyTorch's own wrapper around an error of a sample.
                value = value.__cause__
            kind, trace = type(value), value.__traceback__
            last = [f for f in traceback.extract_tb(trace) if "/test/" in f.filename][-1:]
            line["error"] = f"{kind.__name__}: {value}"[:2000]
            line["line"] = f"{last[0].lineno}: {last[0].line}" if last else ""
            line["trace"] = "".join(traceback.format_tb(trace)[-2:])
            if issubclass(kind, AttributeError):
                line["absent"] = str(value.name)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.write(test, "started")
        signal.alarm(SECONDS)
        faulthandler.dump_traceback_later(2 * SECONDS, exit=True)

    def stopTest(self, test: Any) -> None:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSuccess(self, test: Any) -> None:
        self.write(test, "passed")

    def addError(self, test: Any, err: Any) -> None:
        self.write(test, "failed", err)

    addFailure = addError

    def addSkip(self, test: Any, reason: str) -> None:
        self.write(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.write(test, "passed")

    addUnexpectedSuccess = addSuccess

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.write(test, "failed", err)


def tests_of(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    return [y for x in suite for y in (tests_of(x) if isinstance(x, unittest.TestSuite) else [x])]


def add_old_names() -> None:
    """Give NumPy the names that test files use and NumPy 2 lacks."""
    old = {"product": np.prod, "msort": lambda a: np.sort(a, axis=0), "float_": np.float64}
    old |= {"complex_": np.complex128, "in1d": np.isin, "row_stack": np.vstack, "trapz": np.trapezoid}
    for name, value in old.items():
        if not hasattr(np, name):
            setattr(np, name, value)


def main() -> None:
    file, written = map(Path, sys.argv[1:3])
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    sys.path.insert(0, str(file.parent))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    add_old_names()
    add_settings()

    def late(*_: Any) -> None:
        raise TimeoutError(f"a test takes more than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    known = (
        {json.loads(line)["test"] for line in written.read_text(encoding="utf-8").splitlines()}
        if written.exists()
        else set()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = Loader(file.parent).load(file.stem)
        outcomes = Outcomes(written)
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            name = test.id()
            if name in known or pattern not in name:
                continue
            if any(each in name for each in LARGE):
                outcomes.write(test, "skipped", "it fills more than 2 GiB")
            elif REFERENCES in name:
                outcomes.write(test, "failed", "AttributeError: tensor.torch has no _refs")
            else:
                test.run(outcomes)


if __name__ == "__main__":
    main()
