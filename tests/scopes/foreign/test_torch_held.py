"""`still_held()` knows the memory of disposed tensors that is still held, also without tracking."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import scopes
import scopes.torch
from scopes import dispose, new_dispose_scope
from scopes.adapters.torch import disposal

SIZE = 1000
ROUNDS = 20

pytestmark = pytest.mark.skipif(not disposal.can_count, reason="this version does not count references")
both_modes = pytest.mark.parametrize("exact", [False, True])


class SavesItsResult(torch.autograd.Function):
    """Saves a view of its result: the graph and the result keep each other, until a backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        result = x * 2
        ctx.save_for_backward(result.view(-1))
        contexts.append(ctx)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


contexts: list[Any] = []


def free() -> None:
    """Free what `SavesItsResult` keeps."""
    for ctx in contexts:
        result = ctx.saved_tensors[0]._base
        result.backward(torch.ones_like(result))
    contexts.clear()


@both_modes
def test_a_cycle_in_cpp_is_a_row_with_its_operation_scope_and_bytes(exact: bool) -> None:
    weight = torch.ones(SIZE, requires_grad=True)
    try:
        with scopes.torch.owning(exact=exact), new_dispose_scope("train"):
            for _ in range(ROUNDS):
                with new_dispose_scope():
                    SavesItsResult.apply(weight).sum()
        gc.collect()
        (row,) = scopes.torch.still_held().rows
        assert (row.count, row.nbytes) == (ROUNDS, ROUNDS * SIZE * 4)
        assert (row.by, row.op) == ("a graph, for backward", "SavesItsResultBackward")
        assert row.scope == ("train", "(unnamed)")
        assert row.site.lines == ()
        assert "SavesItsResultBackward, an unknown line, because tracking was off" in str(
            scopes.torch.still_held("train")
        )
        assert scopes.torch.still_held("other").rows == ()
    finally:
        free()
    assert scopes.torch.still_held().rows == ()


def view(x: Any) -> Any:
    return x.view(-1)[:10]


def array(x: Any) -> Any:
    return x.numpy()


def capsule(x: Any) -> Any:
    return torch.utils.dlpack.to_dlpack(x)


@both_modes
@pytest.mark.parametrize("export", [view, array, capsule])
def test_what_a_view_or_an_export_holds_is_a_row_until_it_is_free(
    export: Callable[[Any], Any], exact: bool
) -> None:
    with scopes.torch.owning(exact=exact), new_dispose_scope("step") as scope:
        x = torch.ones(SIZE)
        kept = scope.detach(export(x))
    (row,) = scopes.torch.still_held("step").rows
    assert (row.count, row.nbytes, row.op) == (1, SIZE * 4, "")
    del kept
    gc.collect()
    assert scopes.torch.still_held().rows == ()


def test_memory_that_is_free_is_not_kept_in_a_list() -> None:
    weight = torch.ones(SIZE, requires_grad=True)
    with scopes.torch.owning():
        for _ in range(10):
            with new_dispose_scope():
                (torch.ones(SIZE) * weight).relu().sum().backward()
    disposal.forget_freed()
    assert disposal.storages == {}


def test_views_of_a_living_tensor_hold_nothing() -> None:
    data = torch.ones(ROUNDS, SIZE)
    with scopes.torch.owning():
        for k in range(ROUNDS):
            with new_dispose_scope():
                data[k].sum()
                data.t()[k : k + 2].t()
    assert scopes.torch.still_held().rows == ()


def test_a_tensor_that_is_disposed_without_a_scope_has_none() -> None:
    x = torch.ones(SIZE)
    kept = x[:10]
    dispose(x)
    (row,) = scopes.torch.still_held().rows
    assert (row.scope, row.nbytes) == ((), SIZE * 4)
    del kept
