"""What the end of a scope looks at: the living tensors of its block, and young objects only if it must."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from scopes import TensorDisposedError, new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch.noting import can_note  # noqa: E402


def is_disposed(x: Any) -> bool:
    return bool(getattr(x, "is_invalid", False))


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the arguments of the calls of ``gc.get_objects`` by scopes."""
    made: list[Any] = []
    get_objects = gc.get_objects

    def noting(generation: int | None = None) -> list[Any]:
        made.append(generation)
        return get_objects(generation)

    monkeypatch.setattr(gc, "get_objects", noting)
    return made


def test_a_training_step_whose_results_have_names_lists_no_objects(lists: list[Any]) -> None:
    if not can_note:
        pytest.skip("this Python or this PyTorch lets no births be noted")
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    gc.disable()
    try:
        with scopes.torch.owning():
            for i in range(3):
                if i == 2:
                    lists.clear()
                with new_dispose_scope():
                    optimizer.zero_grad()
                    out = model(torch.ones(2, 3))
                    loss = (out**2).mean()
                    loss.backward()
                    optimizer.step()
                assert is_disposed(out)
                assert is_disposed(loss)
    finally:
        gc.enable()
    assert lists == []


def test_a_name_of_a_validation_loss_with_its_graph_explains_it(lists: list[Any]) -> None:
    if not can_note:
        pytest.skip("this Python or this PyTorch lets no births be noted")
    weight = torch.ones(3, requires_grad=True)
    with scopes.torch.owning():
        for i in range(3):
            if i == 2:
                lists.clear()
            with new_dispose_scope():
                out = weight.exp()
                loss = (out * out).sum()
            assert is_disposed(out)
            assert is_disposed(loss)
    assert [each for each in lists if each is None] == []


class Table(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """A data set that remembers a tensor: a keeper, if it is older than the scope."""

    def __init__(self) -> None:
        self.row: Any = None


def nothing() -> None:
    pass


COLLECTIONS: dict[str, Callable[[], object]] = {
    "none": nothing,
    "young": lambda: gc.collect(0),
    "all": gc.collect,
    "frozen": lambda: gc.freeze(),  # scopes replace this function
}
each_collection = pytest.mark.parametrize("collect", COLLECTIONS.values(), ids=COLLECTIONS)


@pytest.fixture(autouse=True)
def _unfrozen() -> Any:
    yield
    gc.unfreeze()


@each_collection
@pytest.mark.parametrize("after", ["the keeper", "the scope's beginning", "both"])
def test_a_keeper_made_just_before_the_scope_is_older(after: str, collect: Callable[[], object]) -> None:
    with scopes.torch.owning():
        table = Table()
        if after != "the scope's beginning":
            collect()
        with new_dispose_scope():
            if after != "the keeper":
                collect()
            table.row = torch.ones(2)
        assert not is_disposed(table.row)


def test_an_older_keeper_is_found_though_python_froze_it_and_the_scope() -> None:
    program = """
import gc
freeze = gc.freeze  # scopes replace it later
import torch, scopes.torch
from scopes import new_dispose_scope

class Table(torch.utils.data.Dataset):
    row = None

with scopes.torch.owning():
    table = Table()
    with new_dispose_scope():
        freeze()
        table.row = torch.ones(2)
print(table.row.sum().item())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0"]


@each_collection
@pytest.mark.parametrize("after", ["the scope's beginning", "the keeper"])
def test_a_keeper_made_in_the_scope_is_newer(after: str, collect: Callable[[], object]) -> None:
    with scopes.torch.owning():
        with new_dispose_scope():
            if after == "the scope's beginning":
                collect()
            table = Table()
            if after == "the keeper":
                collect()
            table.row = torch.ones(2)
        assert is_disposed(table.row)


@each_collection
@pytest.mark.parametrize("after", ["the scope's beginning", "the module"])
def test_a_module_made_in_the_scope_keeps_its_tensors(after: str, collect: Callable[[], object]) -> None:
    modules: list[Any] = []
    with scopes.torch.owning(), new_dispose_scope():
        if after == "the scope's beginning":
            collect()
        modules.append(torch.nn.Linear(2, 2))
        if after == "the module":
            collect()
        modules[0].mask = torch.ones(2)
        modules[0].masks = [torch.ones(3)]
    assert modules[0].mask.sum().item() == 2.0
    assert modules[0].masks[0].sum().item() == 3.0


@pytest.mark.parametrize("is_open_before", [False, True])
def test_a_scope_older_than_the_block_knows_the_modules_of_the_block(is_open_before: bool) -> None:
    modules: list[Any] = []
    with new_dispose_scope(), scopes.torch.owning():
        if is_open_before:
            gc.collect()
        modules.append(torch.nn.Linear(2, 2))
        modules[0].mask = torch.ones(2)
    assert modules[0].mask.sum().item() == 2.0


@each_collection
def test_the_age_of_a_keeper_depends_on_the_scope(collect: Callable[[], object]) -> None:
    with scopes.torch.owning(), new_dispose_scope():
        between = Table()
        with new_dispose_scope():
            newest = Table()
            between.row, newest.row = torch.ones(2), torch.zeros(2)
            collect()
        assert not is_disposed(between.row)
        assert is_disposed(newest.row)
        collect()
    assert is_disposed(between.row)


def a_subclass(parent: type, **members: Any) -> Any:
    return type("Made", (parent,), members)


class Strict(type(torch.Tensor)):  # type: ignore[misc]
    """A metaclass derived from PyTorch's, with its own initialization."""

    def __init__(cls, *args: Any) -> None:
        super().__init__(*args)
        cls.made_by = "Strict"


WAYS: dict[str, Callable[[], Any]] = {
    "a subclass": lambda: a_subclass(torch.Tensor),
    "a subclass of a subclass": lambda: a_subclass(a_subclass(torch.Tensor)),
    "a subclass that tells no base class": lambda: a_subclass(
        torch.Tensor, __init_subclass__=classmethod(lambda _: None)
    ),
    "a subclass of one that tells no base class": lambda: a_subclass(
        a_subclass(torch.Tensor, __init_subclass__=classmethod(lambda _: None))
    ),
    "a derived metaclass": lambda: Strict("Made", (torch.Tensor,), {}),
    "a metaclass made later": lambda: type("Later", (type(torch.Tensor),), {})("Made", (torch.Tensor,), {}),
}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("exact", [False, True])
def test_a_tensor_may_change_its_class_to_one_made_in_the_block(make: Callable[[], Any], exact: bool) -> None:
    with scopes.torch.owning(exact=exact):
        with new_dispose_scope() as scope:
            kind = make()
            x, kept, plain = torch.ones(2), torch.ones(3), torch.ones(4).as_subclass(kind)
            x.__class__ = kept.__class__ = kind
            plain.__class__ = torch.Tensor
            scope.detach(kept)
            del plain
        assert is_disposed(x)
        assert kept.sum().item() == 3.0
        assert type(kept) is kind
        kept.__class__ = torch.Tensor
        # Their memory is used again.
        with new_dispose_scope():
            del x, kept
            others = [torch.ones(2) for _ in range(100)]
        assert all(is_disposed(each) for each in others)


def test_a_new_instance_of_a_class_made_in_the_block_has_an_owner() -> None:
    with scopes.torch.owning(), new_dispose_scope() as scope:
        x = torch.ones(2).as_subclass(a_subclass(torch.Tensor))
        assert x in scope
    with pytest.raises(TensorDisposedError):
        x + 1


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_attach_imports_the_adapter_of_the_library(library: str) -> None:
    pytest.importorskip(library)
    ones = {"torch": "torch.ones(3)", "jax": "jax.numpy.ones(3)"}[library]
    program = f"""
import sys, {library}
from scopes import TensorDisposedError, new_dispose_scope
with new_dispose_scope() as scope:
    x, others = {ones}, {{"a": [{ones}], "b": "text"}}
    assert scope.attach(x) is x
    scope.attach(others)
    print(x in scope, others["a"][0] in scope, "scopes.{library}" in sys.modules)
try:
    x + 1
except TensorDisposedError as error:
    print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "True", "ended"]


def test_attach_of_arrays_of_numpy_imports_no_adapter() -> None:
    program = """
import sys, numpy
from scopes import new_dispose_scope
with new_dispose_scope() as scope:
    scope.attach({"x": numpy.ones(3)})
print(any(name in sys.modules for name in ("torch", "jax", "cupy")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]
