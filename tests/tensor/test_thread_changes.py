"""Threads that change the same tensors and scopes at once: each change is one step, and all is counted."""

from __future__ import annotations

import contextvars
import gc
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext

import pytest

import nn
import scopes
import tensor
from scopes import DisposeScope, ScopeDisposedError, TensorDisposedError, new_dispose_scope
from tensor import Tensor, memory
from tensor.lowlevel import writing, writing_all
from tensor.ops.dispatch import view as view_by
from tensor.tape.rules import RULES
from tests.threads import run_at_once

THREADS = 16
SIZES = [1, 10, 3_000, 140_000]  # of float64; the largest comes from the pool


class Changer:
    """One thread. No lock guards what it shares with others: any step may find a tensor or a scope ended."""

    def __init__(self, me: int, tensors: list[Tensor], open_scopes: list[DisposeScope]) -> None:
        self.random = random.Random(me)
        self.tensors = tensors
        self.scopes = open_scopes
        # What this thread has seen end, which must stay so.
        self.ended: list[Tensor] = []
        # Clones that nobody writes to, each with its sum.
        self.clones: list[tuple[Tensor, float]] = []
        self.failures: list[str] = []
        self.done: Counter[str] = Counter()

    def run(self, rounds: int, begin: threading.Barrier) -> None:
        steps: list[Callable[[], None]] = [
            *[self.make, self.write, self.add, self.copy, self.look, self.view, self.read] * 3,
            *[self.dispose, self.attach, self.detach, self.move, self.move_many, self.parameter] * 2,
            *[
                self.end_a_scope,
                self.empty_a_scope,
                self.donate,
                self.move_handle,
                self.export,
                self.backward,
            ],
        ]
        begin.wait()
        for _ in range(rounds):
            step = self.random.choice(steps)
            try:
                with tensor.no_grad():  # writes reach parameters too
                    step()
                self.done[step.__name__] += 1
            except (TensorDisposedError, ScopeDisposedError):
                pass  # another thread was quicker
            except Exception as error:  # noqa: BLE001  # told by the test's own thread
                self.failures.append(f"{step.__name__}: {error!r}")
            if self.failures:
                break
        self.check()

    def check(self) -> None:
        if not all(x.is_invalid for x in self.ended):
            self.failures.append("a tensor came back")
        if any(x.sum().item() != total for x, total in self.clones):
            self.failures.append("a clone changed")

    def pick(self) -> Tensor:
        return self.random.choice(self.tensors)

    def put(self, x: Tensor) -> None:
        self.tensors[self.random.randrange(len(self.tensors))] = x

    def has_ended(self, x: Tensor) -> None:
        if not x.is_invalid:
            self.failures.append("a tensor that has ended is not empty")
        self.ended = [*self.ended[-20:], x]

    def make(self) -> None:
        n = self.random.choice(SIZES)
        with new_dispose_scope() as scope:
            x = tensor.full((n,), self.random.randrange(1 << 10), dtype="float64")
            if self.random.random() < 0.8:
                scope.detach(x)
            self.put(x)

    def write(self) -> None:
        self.pick().fill_(self.random.randrange(1 << 10))

    def add(self) -> None:
        x = self.pick()
        x += 1

    def copy(self) -> None:
        x = self.pick().clone()
        self.clones = [*self.clones[-5:], (x, x.sum().item())]
        self.put(x.clone())

    def look(self) -> None:
        self.check()
        self.ended.clear()

    def view(self) -> None:
        x = self.pick()
        match self.random.randrange(4):
            case 0:
                self.put(x.alias())
            case 1:
                self.put(x.detach())
            case 2:
                self.put(x.reshape((-1,)))
            case _:
                self.put(x[len(x) // 2 :])

    def read(self) -> None:
        x = self.pick()
        assert x.ndim == 1
        assert x.shape[0] >= 1
        assert repr(x)
        assert (x + 1).numel() >= 1

    def dispose(self) -> None:
        x = self.pick()
        x.dispose()
        self.has_ended(x)

    def attach(self) -> None:
        self.random.choice(self.scopes).attach(*self.random.sample(self.tensors, 3))

    def detach(self) -> None:
        self.pick().detach_from_dispose_scope()

    def move(self) -> None:
        if self.random.random() < 0.5:
            self.pick().move_to_outer_dispose_scope()
        else:
            self.pick().move_to_other_dispose_scope(self.random.choice([*self.scopes, self.pick()]))

    def move_many(self) -> None:
        self.random.choice(self.scopes).move_to_other(self.random.choice(self.scopes), self.tensors)

    def parameter(self) -> None:
        x = self.pick()
        parameter = nn.Parameter(x)
        self.has_ended(x)
        self.put(parameter)

    def end_a_scope(self) -> None:
        k = self.random.randrange(len(self.scopes))
        scope, self.scopes[k] = self.scopes[k], contextvars.copy_context().run(new_dispose_scope)
        scope.dispose()

    def empty_a_scope(self) -> None:
        self.random.choice(self.scopes).dispose_everything_but(self.pick())

    def donate(self) -> None:
        x = self.pick()
        donated = x.donate()
        self.has_ended(x)
        self.put(donated + 1)

    def move_handle(self) -> None:
        x = self.pick()
        handle = x.move_handle()
        self.has_ended(x)
        self.put(Tensor.from_handle(handle))
        assert handle.is_invalid

    def export(self) -> None:
        array = self.pick().detach().numpy()
        array += 1
        assert array.sum() >= 0

    def backward(self) -> None:
        x = self.pick()
        with tensor.enable_grad():
            weight = tensor.ones((1,), dtype="float64", requires_grad=True)
            (weight * x).sum().backward()
        assert weight.grad is not None


@pytest.mark.parametrize("is_tracked", [False, True], ids=["plain", "tracked"])
@pytest.mark.parametrize("rounds", [500, pytest.param(30_000, marks=pytest.mark.soak)])
def test_sixteen_threads_that_change_the_same_tensors_and_scopes_leave_all_whole_and_counted(
    window, rounds, is_tracked
) -> None:
    gc.collect()
    before = memory.statistics()
    tensors = [tensor.full((n,), 1, dtype="float64") for n in SIZES * 3]
    context = contextvars.copy_context()
    open_scopes = [context.run(new_dispose_scope) for _ in range(4)]
    changers = [Changer(me, tensors, open_scopes) for me in range(THREADS)]
    begin = threading.Barrier(THREADS)
    with scopes.track() if is_tracked else nullcontext():
        run_at_once(
            (threading.Thread(target=each.run, args=(rounds, begin)) for each in changers), switch_after=1e-6
        )
    assert {failure for each in changers for failure in each.failures} == set()
    assert len(sum([each.done for each in changers], Counter())) == 19
    gc.collect()
    owned = {id(x): x for scope in open_scopes for x in scope.disposables_view}
    clones = [x for each in changers for x, _ in each.clones]
    alive = {id(x): x for x in [*owned.values(), *tensors, *clones] if not x.is_invalid}
    assert window().live_count == len(alive) + len([x for x in alive.values() if x.grad is not None])
    for scope in open_scopes:
        assert len(scope) == len(scope.disposables_view)
        scope.dispose()
    for x in [*tensors, *clones]:
        x.dispose()
    assert all(x.is_invalid for x in owned.values())
    figures = window()
    created = figures.created_in_scope_count + figures.created_outside_scope_count
    assert created == figures.disposed_in_scope_count + figures.disposed_outside_scope_count > 0
    assert figures.live_count == 0
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_pinned, change.bytes_external) == (0, 0, 0)
    assert change.bytes_allocated == change.bytes_freed > 0


def test_view_created_during_a_write_has_the_new_memory_and_a_clone_the_old() -> None:
    x = tensor.zeros((4, 3))
    clone = x.clone()

    def find(array):
        out = array[1:]
        x.fill_(1)  # as another thread may, in between: the clone keeps this array's memory
        return out

    view = view_by(RULES["getitem"], find, x)
    view.fill_(2)
    assert clone.tolist() == [[0] * 3] * 4
    assert x.tolist() == [[1] * 3] + [[2] * 3] * 3
    x[3] = 5
    assert view.tolist() == [[2] * 3, [2] * 3, [5] * 3]


@pytest.mark.parametrize("size", SIZES)
def test_a_tensor_whose_scope_ends_in_the_middle_of_a_write_stays_ended_and_leaves_no_byte(size: int) -> None:
    before = memory.statistics()
    with new_dispose_scope() as scope:
        x = tensor.zeros((size,))
        clone = x.clone()
        scope.detach(clone)
        with writing(x) as array:
            scope.dispose_everything()  # as another thread may
            array[...] = 1
        del array
        assert x.is_invalid
        assert clone.tolist() == [0] * size
    clone.dispose()
    assert (memory.statistics() - before).bytes_live == 0


@pytest.mark.parametrize("is_of_several", [False, True], ids=["of one", "of several"])
@pytest.mark.parametrize("size", SIZES)
def test_a_clone_taken_in_the_middle_of_a_write_never_changes(size: int, is_of_several: bool) -> None:
    x = tensor.zeros((size,))
    for last in (2, 4, 6):
        before = x.tolist()
        with writing_all([x]) if is_of_several else writing(x) as arrays:
            array = arrays[0] if is_of_several else arrays
            array[0] = 1
            clone = x.clone()  # as another thread may
            array[...] = last
        assert clone.tolist() == [1, *before[1:]]
        assert x.tolist() == [last] * size
