"""What contains itself, or is nested deeper than any array, is refused with words: no RecursionError."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import nn
import tensor
from nn.data import default_collate
from scopes import dispose, disposing, new_dispose_scope
from tensor import autograd


def itself() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def behind_a_number() -> list[Any]:
    made: list[Any] = [1.0]
    made.append(made)
    return made


def each_twice() -> list[Any]:
    # 2**64 ways through it to NumPy's limit of dimensions.
    first: list[Any] = []
    second = [first, first]
    first += [second, second]
    return first


def deep_list() -> Any:
    made: Any = 1.0
    for _ in range(2_000):
        made = [made]
    return made


def deep_tuple() -> Any:
    made: Any = 1.0
    for _ in range(2_000):
        made = (made,)
    return made


def deep_dict() -> Any:
    made: Any = 1.0
    for _ in range(2_000):
        made = {"a": made}
    return made


LISTS = [itself, behind_a_number, each_twice, deep_list, deep_tuple]
ALL = [*LISTS, deep_dict]


@pytest.mark.parametrize("make", LISTS)
def test_data_is_refused(make):
    x = tensor.ones((3,))
    for call in (tensor.tensor, tensor.asarray, tensor.sum, lambda d: x + d, lambda d: x.__setitem__(0, d)):
        with pytest.raises((ValueError, TypeError)) as caught:
            call(make())
        assert len(str(caught.value)) < 1000


def test_the_error_says_why_and_what_to_write():
    with pytest.raises(ValueError, match="deeper than 64 dimensions, or a list contains itself"):
        tensor.tensor(itself())


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(
    "call",
    [
        tensor.zeros,
        tensor.rand,
        lambda d: tensor.zeros((2,), dtype=d),
        lambda d: tensor.ones((2,)).reshape(d),
        lambda d: tensor.ones((2,)).permute(d),
        lambda d: tensor.ones((2,)).sum(dim=d),
        lambda d: tensor.ones((2,)).to(d),
        lambda d: tensor.ones((2,)).norm(d),
        lambda d: tensor.broadcast_shapes(d, d),
        lambda d: tensor.ones((2,))[d],
        lambda d: nn.Linear(2, d),
        lambda d: nn.MSELoss(d),
        lambda d: nn.Linear(1, 1).load_state_dict({"weight": d, "bias": d}),
        lambda d: default_collate([d, d]),
        lambda d: tensor.save_file({"a": d}, "never.safetensors"),
    ],
)
def test_arguments_are_refused(call, make):
    with pytest.raises((ValueError, TypeError, IndexError)):
        call(make())


@pytest.mark.parametrize("make", ALL)
def test_a_checkpoint_refuses_arguments(make):
    x = tensor.ones((2,), requires_grad=True)
    with pytest.raises(ValueError, match="nested more than 100 levels deep, or contain themselves"):
        autograd.checkpoint(lambda x, _: x * 2, x, make())


@pytest.mark.parametrize("make", ALL)
def test_scopes_walk_it(make):
    with new_dispose_scope() as scope:
        scope.attach(make())
        scope.move_to_outer(make())
        assert not scope.contains(make())
        disposing(make)()
        dispose(make())


def test_a_module_of_any_depth_is_shown_walked_and_loaded():
    module: nn.Module = nn.Linear(1, 1)
    for _ in range(400):
        outer = nn.Module()
        outer.inner = module
        module = outer
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        assert repr(module).count("\n") == 800
        assert len(list(module.modules())) == 401
        module.load_state_dict(module.state_dict())
        module.train().eval().requires_grad_(False)
    finally:
        sys.setrecursionlimit(before)


def test_a_module_inside_of_others_is_indented():
    module = nn.Sequential(nn.Sequential(nn.ReLU()), nn.ReLU())
    assert repr(module).split("\n") == [
        "Sequential(",
        "  (0): Sequential(",
        "    (0): ReLU()",
        "  )",
        "  (1): ReLU()",
        ")",
    ]
