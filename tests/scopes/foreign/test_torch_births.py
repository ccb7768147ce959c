"""Scopes own PyTorch's new tensors without a mode that sees each call: their births are noted."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import scopes
from scopes import ScopeLimitError, TensorDisposedError, new_dispose_scope
from scopes.adapters import foreign

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch import owning  # noqa: E402
from scopes.lowlevel import owner_of  # noqa: E402


@pytest.fixture(autouse=True)
def _noted() -> None:
    if not owning.can_note:
        pytest.skip("this Python or this PyTorch lets no births be noted")


def is_disposed(x: Any) -> bool:
    return bool(getattr(x, "is_invalid", False))


def modes() -> int:
    return int(torch._C._len_torch_function_stack())


def test_no_mode_is_active_unless_a_tracker_or_a_limit_asks() -> None:
    with scopes.torch.owning():
        assert modes() == 0
        with scopes.track():
            assert modes() == 1
            x = torch.ones(3)
            (row,) = scopes.leaks().rows
            assert row.site.text == "x = torch.ones(3)"
        assert modes() == 0
        with new_dispose_scope(limit="1 KiB"):
            assert modes() == 1
            with pytest.raises(ScopeLimitError):
                torch.ones(1000)
        assert modes() == 0
        assert x.sum().item() == 3.0


@pytest.mark.parametrize("exact", [False, True])
def test_new_tensors_are_owned_after_others_were_refused_by_a_limit(exact: bool) -> None:
    with scopes.torch.owning(exact=exact):
        with new_dispose_scope(limit="1 KiB"):
            for _ in range(100):
                with pytest.raises(ScopeLimitError):
                    torch.ones(1000)
        with new_dispose_scope() as scope:
            xs = [torch.ones(3) for _ in range(200)]
            assert all(x in scope for x in xs)


PROGRAM = """
import torch
import scopes.torch
from scopes import new_dispose_scope
from scopes.adapters.torch import owning
with scopes.torch.owning(), new_dispose_scope() as scope:
    print(torch._C._len_torch_function_stack(), owning.can_note, torch.ones(1) in scope)
"""


@pytest.mark.parametrize(("value", "printed"), [("0", "1 False True"), ("1", "0 True True")])
def test_an_environment_variable_chooses_the_mode(value: str, printed: str) -> None:
    environment = os.environ | {"DISPOSESCOPE_TORCH_NOTES": value}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == printed


def test_end_of_tracking_keeps_the_users_mode_active() -> None:
    with scopes.torch.owning():
        tracking = scopes.track()
        tracking.__enter__()
        with torch.device("meta"):
            tracking.__exit__(None, None, None)
            assert torch.ones(1).device.type == "meta"
        assert torch.ones(1).device.type == "cpu"
        assert modes() == 0


def test_each_task_of_asyncio_owns_what_it_made() -> None:
    async def task(count: int) -> list[Any]:
        with new_dispose_scope() as scope:
            made = [torch.ones(count)]
            await asyncio.sleep(0.01 * count)
            made.append(made[0] + 1)
            await asyncio.sleep(0)
            assert [owner_of(x) for x in made] == [scope, scope]
        return made

    async def main() -> list[list[Any]]:
        return await asyncio.gather(*(task(count) for count in (3, 1, 2)))

    with scopes.torch.owning():
        made = asyncio.run(main())
    assert all(is_disposed(x) for xs in made for x in xs)


def test_collections_in_one_thread_end_nothing_of_another() -> None:
    others: list[Any] = []
    mine: list[Any] = []

    def work() -> None:
        for i in range(500):
            x = torch.ones(5) + i
            if i % 50 == 0:
                others.append(x)

    with scopes.torch.owning():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            with new_dispose_scope():
                mine.append(torch.ones(5) * 2)
                gc.collect(0)
        for thread in threads:
            thread.join()
    assert len(others) == 30
    assert not any(is_disposed(x) for x in others)
    assert all(is_disposed(x) for x in mine)


def test_a_thread_owns_what_it_made_though_another_collects() -> None:
    found: list[bool] = []
    made, collected = threading.Event(), threading.Event()

    def work() -> None:
        with scopes.torch.owning(), new_dispose_scope() as scope:
            x = torch.ones(3)
            made.set()
            collected.wait(60)
            found.append(owner_of(x) is scope)
        found.append(is_disposed(x))

    thread = threading.Thread(target=work)
    thread.start()
    made.wait(60)
    gc.collect()
    collected.set()
    thread.join()
    assert found == [True, True]


@pytest.fixture(params=["on", "off", "frozen"])
def collector(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "off":
        gc.disable()
    yield request.param
    gc.enable()
    gc.unfreeze()


def test_a_scope_ends_all_that_it_made_however_the_collector_runs(collector: str) -> None:
    with scopes.torch.owning(), new_dispose_scope():
        before = [torch.ones(2) for _ in range(10)]
        if collector == "frozen":
            assert owner_of(before[0]) is not None
            gc.collect()
            gc.freeze()
        kept = [[torch.ones(2)] for _ in range(3000)]
    assert all(is_disposed(x) for (x,) in kept)
    assert all(is_disposed(x) for x in before)


def test_reused_memory_of_a_freed_tensor_does_not_set_an_owner() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    with scopes.torch.owning(), new_dispose_scope():
        for _ in range(200):
            torch.ones(2) + 1
        thread_made: list[Any] = []
        thread = threading.Thread(target=lambda: thread_made.extend(torch.ones(2) for _ in range(200)))
        thread.start()
        thread.join()
        for _ in range(200):
            torch.ones(2) + 1
    assert not any(is_disposed(x) for x in thread_made)
    assert not is_disposed(weight)


def test_gradients_that_are_read_in_a_scope_stay_the_same_objects() -> None:
    model = torch.nn.Linear(2, 2)
    raw = torch.ones(2, requires_grad=True)
    with scopes.torch.owning(), new_dispose_scope():
        (model(torch.ones(1, 2)).sum() + (raw * raw).sum()).backward()
        gradients = [raw.grad, *(x.grad for x in model.parameters())]
    assert not any(is_disposed(x) for x in gradients)
    assert gradients[0] is raw.grad


@pytest.mark.parametrize("export", [lambda x: x.numpy(), np.asarray, lambda x: np.from_dlpack(x)])
def test_arrays_of_numpy_outlive_the_scope_of_their_tensor(export: Any) -> None:
    with scopes.torch.owning(), new_dispose_scope():
        x = torch.ones(1000)
        array = export(x)
        memory = torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())
    assert is_disposed(x)
    assert not memory.expired()
    assert array.sum() == 1000.0
    del array
    assert memory.expired()


def test_what_hooks_of_backward_make_is_left_alone_and_tracked() -> None:
    kept = []
    model = torch.nn.Linear(2, 2)
    model.register_full_backward_hook(lambda module, given, got: kept.append(got[0] * 1.0))
    with scopes.track(), scopes.torch.owning(), new_dispose_scope():
        model(torch.ones(1, 2, requires_grad=True)).sum().backward()
        assert any("kept.append" in row.site.text for row in scopes.leaks().rows)
    with scopes.torch.owning(), new_dispose_scope():
        model(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert [x.tolist() for x in kept] == [[[1.0, 1.0]]] * 2


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("order", ["made before", "open before"])
def test_a_pack_hook_older_than_the_block_keeps_its_own_tensor(exact: bool, order: str) -> None:
    weight = torch.ones(3, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x)

    def step() -> Any:
        with new_dispose_scope() as scope:
            return scope.detach((weight.exp() * weight).sum())

    if order == "made before":
        with scopes.torch.owning(exact=exact), hooks:
            loss = step()
    else:
        with hooks, scopes.torch.owning(exact=exact):
            loss = step()
    loss.backward()
    assert torch.allclose(weight.grad, torch.full((3,), 2 * 2.718281828))


class Remembering(torch.autograd.Function):  # type: ignore[misc, name-defined]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.doubled = x * 2
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.doubled


@pytest.mark.parametrize("exact", [False, True])
def test_a_graph_keeps_the_attributes_of_a_function(exact: bool) -> None:
    weight = torch.ones(3, requires_grad=True)
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        loss = scope.detach(Remembering.apply(weight).sum())
    loss.backward()
    assert weight.grad.tolist() == [2.0] * 3


class Wrapped(torch.Tensor):  # type: ignore[misc, name-defined]
    """Holds another tensor, and is known by it."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [x.inner if isinstance(x, Wrapped) else x for x in args]
        return cls(func(*plain, **(kwargs or {})))


@pytest.mark.parametrize("strict", [False, True])
def test_inner_tensors_of_a_wrapper_end_or_stay_with_it(strict: bool) -> None:
    with scopes.torch.owning(strict=strict), new_dispose_scope() as scope:
        kept = scope.detach(Wrapped(torch.ones(2)) * 3)
        gone = Wrapped(torch.ones(2)) * 3
    assert kept.inner.tolist() == [3.0, 3.0]
    assert is_disposed(gone)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_results_of_compiled_functions_are_owned_and_their_constants_are_not(backend: str) -> None:
    compiled = torch.compile(lambda x: x * torch.tensor([1.0, 2.0, 3.0]), backend=backend)
    for _ in range(2):
        with scopes.torch.owning(), new_dispose_scope() as scope:
            y = compiled(torch.ones(3))
            assert y in scope
            assert y.tolist() == [1.0, 2.0, 3.0]
        with pytest.raises(TensorDisposedError):
            y + 1


def test_owning_uses_a_mode_if_allocations_cannot_be_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owning, "can_note", False)
    with scopes.torch.owning(), new_dispose_scope() as scope:
        assert modes() == 1
        assert torch.ones(2) in scope
    assert modes() == 0


def test_watch_refuses_classes_with_their_own_allocation() -> None:
    assert not foreign.record_kind(dict)
    assert not foreign.exclude_attribute(len)


def _gradients_by_a_function_that_returns_a_constant(table: Any) -> Any:
    class Constant(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return table

    x = torch.ones(3, requires_grad=True)
    return torch.autograd.grad(Constant.apply(x).sum(), x)


RETURNING: dict[str, Callable[[Any], Any]] = {
    "grad": lambda table: torch.func.grad(lambda x: (x.sum(), {"table": table}), has_aux=True)(torch.ones(3)),
    "grad_and_value": lambda table: torch.func.grad_and_value(lambda x: (x.sum(), [table]), has_aux=True)(
        torch.ones(3)
    ),
    "vmap": lambda table: torch.func.vmap(lambda x: table, out_dims=None)(torch.ones(2, 3)),
    "autograd.grad": _gradients_by_a_function_that_returns_a_constant,
}


@pytest.mark.parametrize("exact", [False, True], ids=["notes", "operators"])
@pytest.mark.parametrize("is_tracked", [False, True], ids=["untracked", "tracked"])
@pytest.mark.parametrize("function", RETURNING)
def test_a_tensor_that_a_function_returns_and_did_not_make_stays(
    function: str, exact: bool, is_tracked: bool
) -> None:
    table = torch.ones(3)
    with scopes.track() if is_tracked else nullcontext(), scopes.torch.owning(exact=exact):
        for _ in range(2):
            with new_dispose_scope() as scope:
                RETURNING[function](table)
                assert table not in scope
    assert table.tolist() == [1.0, 1.0, 1.0]


def test_a_long_log_of_births_is_cleared() -> None:
    def many(x: Any) -> Any:
        kept = [x * n for n in range(3000)]
        return sum(kept), torch.ones(2)

    with scopes.torch.owning(exact=True), new_dispose_scope() as scope:
        gradient, aux = torch.func.grad(lambda x: many(x), has_aux=True)(torch.ones(()))
        assert gradient in scope
        assert aux in scope
        assert gradient.item() == sum(range(3000))
