"""Each name that an error tells to write is there."""

from __future__ import annotations

import importlib
import re

import pytest

import tensor
from tensor import Tensor
from tensor._advice import _NAMES

METHODS = sorted(
    name
    for name in dir(Tensor)
    if not name.startswith("_") and callable(getattr(Tensor, name)) and not hasattr(tensor, name)
)
NAME = re.compile(r"\b((?:tensor|torch|nn)(?:\.[A-Za-z_]\w*)+)")


def is_there(name: str) -> bool:
    """Tell whether the dotted `name` is found, as a module or as an attribute."""
    first, *parts = name.split(".")
    found = importlib.import_module("tensor.torch" if first == "torch" else first)
    for part in parts:
        if not hasattr(found, part):
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ImportError:
                return False
        else:
            found = getattr(found, part)
    return True


def advice_on(name: str) -> str:
    """Return the error for a name that `tensor` does not have."""
    with pytest.raises(AttributeError) as error:
        getattr(tensor, name)
    return str(error.value)


def names_in(hint: str) -> list[str]:
    return NAME.findall(hint)


@pytest.mark.parametrize("name", [*METHODS, *_NAMES])
def test_hints_name_only_existing_functions(name: str) -> None:
    missing, _, hint = advice_on(name).partition(": ")
    assert missing == f"module 'tensor' has no attribute {name!r}"
    assert [each for each in names_in(hint) if not is_there(each)] == []


def test_a_method_is_named_as_one() -> None:
    assert {"abs_", "lerp_", "backward", "numpy"} <= set(METHODS)
    assert "write x.lerp_(...)" in advice_on("lerp_")
    assert names_in("write torch.nn.Linear, tensor.no_such") == ["torch.nn.Linear", "tensor.no_such"]
    assert not is_there("tensor.no_such")
