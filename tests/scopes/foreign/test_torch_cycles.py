"""Memory that tensors and graphs in C++ keep for each other: a scope frees it, or a report names it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("torch")
import torch

import scopes
import scopes.torch
from scopes import new_dispose_scope
from scopes.adapters.torch.memory import SHOWS_SAVED

ROOT = Path(__file__).parents[3]
SIZE = 1000
ROUNDS = 60

pytestmark = pytest.mark.filterwarnings("ignore:Using backward.* with create_graph=True:UserWarning")


@contextmanager
def tracking() -> Iterator[None]:
    with scopes.track(), scopes.torch.owning():
        yield


EXACT = partial(scopes.torch.owning, exact=True)
MODES = {"owning": scopes.torch.owning, "exact": EXACT, "tracking": tracking}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


class Storages:
    """Counts the storages that are not free, of the tensors that it was called with."""

    def __init__(self) -> None:
        self.expired: list[Callable[[], bool]] = []

    def __call__(self, x: Any) -> Any:
        weak = torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())
        self.expired.append(weak.expired)
        return x

    def count(self) -> int:
        return sum(not expired() for expired in self.expired)


def leaf(watch: Storages, weight: Any) -> None:
    x = watch(torch.ones(SIZE, requires_grad=True))
    watch(x.tanh()).sum().backward(create_graph=True)
    watch(x.grad)


def retained_gradient(watch: Storages, weight: Any) -> None:
    y = watch(weight * 2)
    y.retain_grad()
    y.exp().sum().backward(create_graph=True)
    watch(y.grad)
    weight.grad = None


def full_backward_hook(watch: Storages, weight: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(SIZE, 1), torch.nn.Tanh())
    net.register_full_backward_hook(lambda *_: None)
    x = watch(torch.ones(1, SIZE, requires_grad=True))
    net(x).sum().backward(create_graph=True)
    net.zero_grad()


def packed(pack: Callable[[Any], Any], unpack: Callable[[Any], Any], watch: Storages, weight: Any) -> None:
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        watch(weight.exp()).sum()


def packed_on_the_cpu(watch: Storages, weight: Any) -> None:
    with torch.autograd.graph.save_on_cpu():
        watch(weight.exp()).sum()


FREED: dict[str, Callable[[Storages, Any], None]] = {
    "gradient of a leaf": leaf,
    "retained gradient": retained_gradient,
    "full backward hook": full_backward_hook,
    "packed as itself": partial(packed, lambda x: x, lambda x: x),
    "packed in a tuple": partial(packed, lambda x: (0, x), lambda pair: pair[1]),
    "packed in a dict": partial(packed, lambda x: {"x": [x]}, lambda found: found["x"][0]),
    "save_on_cpu": packed_on_the_cpu,
}


@each_mode
@pytest.mark.parametrize("leave", FREED.values(), ids=FREED)
def test_a_scope_frees_what_a_graph_and_its_tensor_keep(
    leave: Callable[[Storages, Any], None], mode: Callable[[], Any]
) -> None:
    watch, weight = Storages(), torch.ones(SIZE, requires_grad=True)
    with mode():
        for _ in range(ROUNDS):
            with new_dispose_scope():
                leave(watch, weight)
        assert len(watch.expired) >= ROUNDS
        assert watch.count() == 0


def test_a_gradient_that_is_moved_out_can_be_differentiated() -> None:
    with scopes.torch.owning():
        with new_dispose_scope() as scope:
            x = torch.ones(3, requires_grad=True)
            weight = scope.detach(torch.full((3,), 2.0).requires_grad_())
            (weight * x * x).sum().backward(create_graph=True)
            gradient = scope.detach(x.grad)
        weight.grad = None
        gradient.sum().backward()
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]


@each_mode
def test_a_packed_tensor_gives_the_same_second_derivative(mode: Callable[[], Any]) -> None:
    def second() -> list[float]:
        x = torch.linspace(0.0, 1.0, 5, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            (first,) = torch.autograd.grad((x.exp() * x.tanh()).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0].tolist()

    plain = second()
    with mode(), new_dispose_scope():
        assert second() == plain


class SavesItsResult(torch.autograd.Function):
    """Saves a view of its result: the graph and the result keep each other, until a backward."""

    calls: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        SavesItsResult.calls.append(ctx)
        result = x * 2
        ctx.save_for_backward(result.view(-1))
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


@pytest.fixture
def _clear() -> Iterator[None]:
    """Free the memory at the end, which other tests would see."""
    yield
    results = [ctx.saved_tensors[0]._base for ctx in SavesItsResult.calls]
    torch.autograd.backward(results, [*map(torch.ones_like, results)])  # it frees what the graphs saved
    SavesItsResult.calls.clear()


@pytest.mark.usefixtures("_clear")
@pytest.mark.parametrize("exact", [False, True])
def test_what_a_scope_cannot_free_is_one_row_with_its_bytes(exact: bool) -> None:
    weight = torch.ones(SIZE, requires_grad=True)
    with scopes.track(), scopes.torch.owning(exact=exact):
        for _ in range(ROUNDS):
            with new_dispose_scope(f"saved result, exact={exact}"):
                SavesItsResult.apply(weight).sum()
        (row,) = scopes.torch.still_held(f"saved result, exact={exact}").rows
    assert row.count == ROUNDS
    assert row.nbytes == ROUNDS * SIZE * 4
    assert row.is_growing
    assert row.site.lines[0].function == "SavesItsResult.forward"
    assert (row.by, row.holder) == ("a graph, for backward", None)


@pytest.mark.usefixtures("_clear")
def test_what_an_earlier_tracking_saw_is_no_growth_of_this_one() -> None:
    weight = torch.ones(SIZE, requires_grad=True)
    with scopes.track(), scopes.torch.owning():
        for _ in range(ROUNDS):
            with new_dispose_scope("saved earlier"):
                SavesItsResult.apply(weight).sum()
        (row,) = scopes.torch.still_held("saved earlier").rows
        assert row.is_growing
    with scopes.track(), scopes.torch.owning():
        for _ in range(ROUNDS):
            with new_dispose_scope("saved earlier"):
                (weight * 2).sum()
        (row,) = scopes.torch.still_held("saved earlier").rows
    assert (row.count, row.is_growing) == (ROUNDS, False)


@pytest.mark.skipif(not SHOWS_SAVED, reason="this version shows what a graph keeps only after its hooks")
@pytest.mark.usefixtures("_clear")
def test_the_bytes_include_all_that_the_graph_keeps() -> None:
    watch, weight = Storages(), torch.ones(SIZE, requires_grad=True)
    with scopes.track(), scopes.torch.owning():
        with new_dispose_scope("saved more"):
            watch(SavesItsResult.apply(watch(weight.exp())))
        (row,) = scopes.torch.still_held("saved more").rows
    assert watch.count() == 2
    assert (row.count, row.nbytes) == (1, 2 * SIZE * 4)
    assert not row.is_growing


@pytest.mark.skipif(not SHOWS_SAVED, reason="this version shows what a graph keeps only after its hooks")
@pytest.mark.usefixtures("_clear")
def test_what_several_graphs_keep_counts_once() -> None:
    weight = torch.ones(SIZE, requires_grad=True)
    with scopes.track(), scopes.torch.owning():
        with new_dispose_scope("shared"):
            hidden = weight.exp()
            for function in (torch.sin, torch.cos, torch.cosh):
                SavesItsResult.apply(function(hidden))  # which saves `hidden`
            del hidden
        report = scopes.torch.still_held("shared")
    assert report.nbytes == 4 * SIZE * 4


@pytest.mark.skipif(not SHOWS_SAVED, reason="this version shows what a graph keeps only after its hooks")
def test_memory_that_a_tracked_graph_holds_does_not_count_as_growth() -> None:
    weight, losses = torch.ones(SIZE, requires_grad=True), []
    with scopes.track(), scopes.torch.owning():
        for _ in range(ROUNDS):
            with new_dispose_scope("kept") as scope:
                hidden = weight * 2
                losses.append(scope.detach((hidden * hidden).sum()))
        (row,) = scopes.torch.still_held("kept").rows
        assert (row.count, row.nbytes, row.is_growing) == (ROUNDS, ROUNDS * SIZE * 4, False)
        assert row.holder is not None
        assert row.holder.text == "losses.append(scope.detach((hidden * hidden).sum()))"


PROGRAM = """
import torch
from scopes import new_dispose_scope

class Saves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x * 2
        ctx.save_for_backward({saved})
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

weight = torch.ones(10_000, requires_grad=True)
for _ in range(20):
    with new_dispose_scope("step"):
        Saves.apply(weight).sum().backward(retain_graph=True)
"""


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source)
    command = [sys.executable, "-m", "scopes", "run", "--torch", "--fail-on-leak", "program.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_the_report_of_a_run_names_what_was_not_freed_and_its_growth_is_a_leak(tmp_path: Path) -> None:
    done = run(PROGRAM.format(saved="result.view(-1)"), tmp_path)
    assert done.returncode == 1
    _, _, held = done.stderr.partition("Disposed, but not free:")
    assert "20  781.2 KiB  grows" in held
    assert "program.py:9 in Saves.forward" in held
    growing = "--fail-on-leak: Memory that disposed tensors could not free grows: "
    _, _, verdict = done.stderr.partition(growing)
    assert "program.py:9 in Saves.forward (781.2 KiB). " in verdict


def test_the_report_of_a_cured_run_is_without_it(tmp_path: Path) -> None:
    done = run(PROGRAM.format(saved="x"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Disposed, but not free" not in done.stderr
