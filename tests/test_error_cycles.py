"""An error that a library function raises is in no cycle, so that its traceback keeps no caller's tensors.

A variable of the frame that raises an error would refer to the error, whose traceback refers to the frame.
The callers' frames, and the tensors in them, would then live until the garbage collector runs.
"""

from __future__ import annotations

import ast
import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nn
import tensor
from tensor import linalg

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "fail",
    [
        lambda: nn.Cov2d,  # type: ignore[attr-defined]
        lambda: tensor.no_such_name,  # type: ignore[attr-defined]
        lambda: linalg.inv(tensor.zeros((2, 2))),
        lambda: linalg.cholesky(-tensor.eye(2)),
        lambda: tensor.fft.fft(tensor.ones((2,)), norm="none"),  # type: ignore[arg-type]
    ],
)
def test_an_error_leaves_nothing_to_the_collector(fail: Callable[[], object]) -> None:
    def call() -> weakref.ref[tensor.Tensor]:
        x = tensor.ones((3,))
        with pytest.raises((AttributeError, ValueError, tensor.linalg.LinAlgError)):
            fail()
        return weakref.ref(x)

    gc.collect()
    gc.disable()
    try:
        assert call()() is None
    finally:
        gc.enable()


def _raised_variables(function: ast.AST) -> Iterator[ast.Raise]:
    """Yield each ``raise error`` of a variable that stays: one that is assigned, and not deleted."""
    nodes = list(ast.walk(function))
    assigned = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    deleted = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Del)}
    kept = assigned - deleted
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id in kept:
            yield node


# The process ends with this error.
ALLOWED = ["scopes/command/main.py in _run"]


def test_no_function_keeps_an_error_that_it_raises() -> None:
    found = [
        f"{file.relative_to(ROOT)} in {function.name}"
        for package in ("scopes", "tensor", "nn", "disposescope")
        for file in sorted((ROOT / package).rglob("*.py"))
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for _ in _raised_variables(function)
    ]
    assert found == ALLOWED
