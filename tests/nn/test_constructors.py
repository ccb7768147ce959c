"""Constructors and docstrings stand in the source, and few classes are above a layer or an optimizer."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from typing import Any

import pytest

import nn
import tensor
from tests.modules import PACKAGES, modules_of, package_of

FACES = ("nn", "nn.optim", "nn.optim.lr_scheduler", "nn.optim.swa_utils", "nn.data")
# The most own classes of an optimizer, a scheduler, a sampler or a layer, itself included. Lazy layers have
# those of the layer that they become, and three more: itself, the mixin, and the base class of lazy norms.
MOST_OWN_CLASSES = 5


def classes() -> list[type[Any]]:
    """Return the public classes of `FACES` that have a constructor of their own or of a base."""
    exports = [
        getattr(module, name) for module in map(importlib.import_module, FACES) for name in module.__all__
    ]
    # Python writes the constructor of a dataclass.
    found = [value for value in exports if isinstance(value, type) and not dataclasses.is_dataclass(value)]
    return [cls for cls in found if any("__init__" in vars(base) for base in cls.__mro__[:-1])]


CLASSES = classes()
FLAT = [
    cls
    for cls in CLASSES
    if issubclass(cls, (nn.optim.Optimizer, nn.optim.lr_scheduler.LRScheduler, nn.data.Sampler, nn.Module))
]
LAYERS = [cls for cls in FLAT if issubclass(cls, nn.Module)]
OPTIMIZERS = [cls for cls in FLAT if issubclass(cls, nn.optim.Optimizer) and cls is not nn.optim.Optimizer]


# The sources of all classes by name; `__module__` names the module that exports a class.
SOURCES = {
    node.name: node
    for path in modules_of("nn").values()
    if path.suffix == ".py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
}


def name_of(cls: type) -> str:
    return cls.__name__


def test_each_module_has_classes_that_are_checked() -> None:
    assert {"Conv2d", "MSELoss", "Adam", "StepLR", "AveragedModel", "RandomSampler", "DataLoader"} <= set(
        map(name_of, CLASSES)
    )
    assert {"Conv2d", "MSELoss", "LSTM"} <= set(map(name_of, LAYERS))
    assert {"Adam", "SGD", "LBFGS"} <= set(map(name_of, OPTIMIZERS))
    assert {"StepLR", "RandomSampler"} <= set(map(name_of, FLAT))


@pytest.mark.parametrize("cls", CLASSES, ids=name_of)
def test_the_source_of_a_constructor_has_the_parameters_of_the_class(cls: type[Any]) -> None:
    (constructor,) = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__))).body
    assert isinstance(constructor, ast.FunctionDef)
    assert constructor.name == "__init__"
    written = {node.arg for node in ast.walk(constructor.args) if isinstance(node, ast.arg)}
    assert written == {"self", *inspect.signature(cls).parameters}


@pytest.mark.parametrize("cls", FLAT, ids=name_of)
def test_a_docstring_is_the_one_in_the_source(cls: type[Any]) -> None:
    assert inspect.getdoc(cls) == ast.get_docstring(SOURCES[cls.__name__])


@pytest.mark.parametrize(
    "cls", [cls for cls in FLAT if not issubclass(cls, (nn.data.Sampler, nn.Module))], ids=name_of
)
def test_the_section_parameters_describes_each_parameter_in_order(cls: type[Any]) -> None:
    (section,) = re.findall(r"^Parameters\n-+\n((?:.+\n)+)", inspect.getdoc(cls) or "", re.MULTILINE)
    names = [name for entry in re.findall(r"^\w.*", section, re.MULTILINE) for name in entry.split(", ")]
    assert names == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("cls", FLAT, ids=name_of)
def test_few_own_classes_are_above_a_class_that_users_make(cls: type[Any]) -> None:
    own = [base.__name__ for base in cls.__mro__ if package_of(base.__module__) in PACKAGES]
    most = MOST_OWN_CLASSES + 3 * issubclass(cls, nn.LazyModuleMixin)
    assert len(own) <= most, own


@pytest.mark.parametrize("cls", OPTIMIZERS, ids=name_of)
def test_a_subclass_calls_the_constructor_from_its_own(cls: type[Any]) -> None:
    class Mine(cls):  # type: ignore[misc]
        note: str

        def __init__(self, params: Any, note: str) -> None:
            super().__init__(params, lr=0.5)
            self.note = note

    optimizer = Mine([nn.Parameter(tensor.ones((2, 2)))], note="mine")
    assert (optimizer.note, optimizer.param_groups[0]["lr"]) == ("mine", 0.5)
    assert optimizer.defaults == {**cls([nn.Parameter(tensor.ones((2, 2)))]).defaults, "lr": 0.5}
