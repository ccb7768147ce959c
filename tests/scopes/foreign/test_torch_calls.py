"""PyTorch's functions give the same under scopes: the classes of results, and the lines of warnings."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("torch")
import numpy as np
import torch

import scopes
import scopes.torch
from scopes import new_dispose_scope


@contextmanager
def tracking() -> Iterator[None]:
    with scopes.track(), scopes.torch.owning():
        yield


MODES = {
    "owning": scopes.torch.owning,
    "exact": lambda: scopes.torch.owning(exact=True),
    "tracking": tracking,
}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


class Left(torch.Tensor):
    pass


class Right(torch.Tensor):
    pass


class GradientAs(torch.autograd.Function):
    """The identity, with a gradient of another class."""

    @staticmethod
    def forward(ctx: Any, x: Any, kind: type) -> Any:
        ctx.kind = kind
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.as_subclass(ctx.kind), None


@each_mode
def test_a_backward_adds_gradients_of_two_unrelated_subclasses(mode: Callable[[], Any]) -> None:
    weight = torch.ones(3, requires_grad=True)
    with mode(), new_dispose_scope():
        (GradientAs.apply(weight, Left) + GradientAs.apply(weight, Right)).sum().backward()
    assert type(weight.grad) is torch.Tensor
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]


def classes() -> list[type]:
    x = torch.ones(3, 2).as_subclass(Left)
    results = [
        x * 2,
        torch.stack([x, x]),
        torch.vmap(lambda row: row * 2)(x),
        torch.func.grad(lambda x: (x * x).sum())(x),
        torch.nn.Linear(2, 2)(x),
        x.requires_grad_().exp().as_subclass(torch.Tensor),
    ]
    return [type(result) for result in results]


@each_mode
def test_results_from_subclasses_have_the_same_classes(mode: Callable[[], Any]) -> None:
    plain = classes()
    assert set(plain) == {Left, torch.Tensor}
    with mode(), new_dispose_scope():
        assert classes() == plain


@each_mode
def test_results_of_a_subclass_are_owned_as_others_are(mode: Callable[[], Any]) -> None:
    x = torch.ones(3, 2).as_subclass(Left)
    with mode(), new_dispose_scope() as scope:
        results = [x * 2, *x.unbind(), torch.stack([x, x]), x.clone().view(2, 3)]
        assert all(type(result) is Left and result in scope for result in results)
        assert x not in scope


def read_only() -> Any:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    return array


WARNING = {
    "attribute": lambda: torch.ones(2, 3, 4).T,
    "function": lambda: torch.add(torch.ones(3), 1, out=torch.ones(7)),
    "method": lambda: (torch.ones(3, requires_grad=True) * 2).grad,
    "from_numpy": lambda: torch.from_numpy(read_only()),
    "frombuffer": lambda: torch.frombuffer(b"12345678", dtype=torch.float32),
}


@pytest.fixture
def _warning_always() -> Iterator[None]:
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@each_mode
@pytest.mark.parametrize("warn", WARNING.values(), ids=WARNING)
@pytest.mark.usefixtures("_warning_always")
def test_a_warning_names_the_line_of_the_user(warn: Callable[[], Any], mode: Callable[[], Any]) -> None:
    with mode(), new_dispose_scope(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn()
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, warn.__code__.co_firstlineno)]


@each_mode
@pytest.mark.usefixtures("_warning_always")
def test_a_warning_that_is_an_error_leaves_the_scope_usable(mode: Callable[[], Any]) -> None:
    with mode(), new_dispose_scope() as scope:
        with pytest.raises(UserWarning, match="deprecated"):
            WARNING["attribute"]()
        assert torch.ones(3) * 2 in scope


def test_compiled_functions_are_compiled_whole_while_tracking() -> None:
    counter = importlib.import_module("torch._dynamo.testing").CompileCounterWithBackend("eager")
    compiled = torch.compile(lambda x: (x * 2).sum(), backend=counter, fullgraph=True)
    for _ in range(3):
        with tracking(), new_dispose_scope() as scope:
            assert compiled(torch.ones(3)).item() == 6.0
            assert torch.ones(3) * 2 in scope
    assert counter.frame_count == 1
