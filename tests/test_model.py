"""Scopes, tensors and parameters driven at random against a simple model.

The model knows a list of open scopes, an owner for each live object, eight counters, and for each storage a
plain list of values. After each step ownership, validity, values and counters must be as in the model.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import nn
import tensor
from scopes import (
    DisposeScope,
    DisposeStatistics,
    ScopeDisposedError,
    current_dispose_scope,
    new_dispose_scope,
    statistics,
)
from tensor import Tensor, TensorDisposedError

SIZE = 3


@dataclass(eq=False)
class Thing:
    """What the model knows of one tensor: its storage's values, which of them it shows, its owner."""

    x: Tensor | None
    values: list[float]
    shown: slice
    owner: DisposeScope | None
    alive: bool = True


@dataclass(eq=False)
class Figures:
    created: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    disposed: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    attached: int = 0
    detached: int = 0
    finalized: int = 0

    def as_statistics(self) -> DisposeStatistics:
        return DisposeStatistics(
            created_outside_scope_count=self.created[False],
            disposed_outside_scope_count=self.disposed[False],
            created_in_scope_count=self.created[True],
            disposed_in_scope_count=self.disposed[True],
            attached_to_scope_count=self.attached,
            detached_from_scope_count=self.detached,
            finalized_count=self.finalized,
        )


class Lifetimes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        gc.collect()
        self.before = statistics.snapshot()
        self.figures = Figures()
        self.scopes: list[DisposeScope] = []
        self.ended: list[DisposeScope] = []
        self.things: list[Thing] = []
        self.numbers = count(1)

    def teardown(self) -> None:
        for scope in reversed(self.scopes):
            scope.dispose()

    # The model's side

    @property
    def current(self) -> DisposeScope | None:
        return self.scopes[-1] if self.scopes else None

    def live(self) -> list[Thing]:
        return [thing for thing in self.things if thing.alive]

    def note_new(self, x: Tensor, values: list[float], shown: slice) -> None:
        self.figures.created[self.current is not None] += 1
        self.things.append(Thing(x, values, shown, self.current))

    def note_end(self, thing: Thing) -> None:
        if thing.alive:
            thing.alive = False
            self.figures.disposed[thing.owner is not None] += 1
            thing.owner = None

    def pick(self, data: st.DataObject, of: list[Thing]) -> Thing:
        return of[data.draw(st.integers(0, len(of) - 1), label="thing")]

    def pick_live(self, data: st.DataObject) -> Thing:
        return self.pick(data, self.live())

    def pick_scope(self, data: st.DataObject) -> DisposeScope:
        return data.draw(st.sampled_from(self.scopes), label="scope")

    has_live = precondition(lambda self: bool(self.live()))
    has_scope = precondition(lambda self: bool(self.scopes))
    has_both = precondition(lambda self: bool(self.live()) and bool(self.scopes))

    # What a user does

    @precondition(lambda self: len(self.scopes) < 5)
    @rule()
    def open_a_scope(self) -> None:
        outer = self.current
        scope = new_dispose_scope(f"scope {next(self.numbers)}")
        assert scope.outer_scope is outer
        self.scopes.append(scope)

    @has_scope
    @rule(data=st.data())
    def end_any_scope(self, data: st.DataObject) -> None:
        scope = self.pick_scope(data)
        self.scopes.remove(scope)
        self.ended.append(scope)
        for thing in self.live():
            if thing.owner is scope:
                self.note_end(thing)
        scope.dispose()

    @rule()
    def make_a_tensor(self) -> None:
        values = [float(next(self.numbers)) for _ in range(SIZE)]
        self.note_new(tensor.tensor(values), list(values), slice(None))

    @has_live
    @rule(data=st.data())
    def alias(self, data: st.DataObject) -> None:
        thing = self.pick_live(data)
        self.note_new(thing.x.alias(), thing.values, thing.shown)

    @has_live
    @rule(data=st.data())
    def view(self, data: st.DataObject) -> None:
        thing = self.pick_live(data)
        if thing.shown == slice(None):
            self.note_new(thing.x[1:], thing.values, slice(1, None))

    @has_live
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        thing = self.pick_live(data)
        self.note_new(thing.x.clone(), list(thing.values), thing.shown)

    @has_live
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        thing = self.pick_live(data)
        value = float(next(self.numbers))
        with tensor.no_grad():
            thing.x[0] = value
        thing.values[1 if thing.shown == slice(1, None) else 0] = value

    @has_live
    @rule(data=st.data())
    def dispose(self, data: st.DataObject) -> None:
        thing = self.pick(data, [thing for thing in self.things if thing.x is not None])
        thing.x.dispose()
        self.note_end(thing)

    @has_live
    @rule(data=st.data())
    def drop_the_last_reference(self, data: st.DataObject) -> None:
        thing = self.pick_live(data)
        thing.x = None
        self.note_end(thing)
        self.figures.finalized += 1
        self.things.remove(thing)

    @has_live
    @rule(data=st.data())
    def make_a_parameter(self, data: st.DataObject) -> None:
        thing = self.pick_live(data)
        if isinstance(thing.x, nn.Parameter) or not thing.x.is_leaf:
            return  # a view of a parameter has history, and is refused
        emptied = thing.x
        thing.x = nn.Parameter(emptied)
        assert emptied.is_invalid
        assert emptied.owning_dispose_scope is None
        self.things.append(Thing(emptied, [], slice(None), None, alive=False))

    @has_both
    @rule(data=st.data())
    def attach(self, data: st.DataObject) -> None:
        scope, thing = self.pick_scope(data), self.pick_live(data)
        assert scope.attach(thing.x) is thing.x
        if thing.owner is not scope:
            self.figures.attached += 1
        thing.owner = scope

    @has_scope
    @rule(data=st.data())
    def attach_what_is_empty(self, data: st.DataObject) -> None:
        empty = [thing for thing in self.things if not thing.alive]
        if empty:
            with pytest.raises(TensorDisposedError):
                self.pick_scope(data).attach(self.pick(data, empty).x)

    @has_both
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        scope, thing = self.pick_scope(data), self.pick_live(data)
        assert scope.detach(thing.x) is thing.x
        if thing.owner is scope:
            thing.owner = None
            self.figures.detached += 1

    @has_both
    @rule(data=st.data())
    def move_several_outward(self, data: st.DataObject) -> None:
        scope, first, second = self.pick_scope(data), self.pick_live(data), self.pick_live(data)
        scope.move_to_outer({"first": first.x, "second": [second.x]})
        place = self.scopes.index(scope)
        outer = self.scopes[place - 1] if place else None
        for thing in {first, second}:
            if thing.owner is scope:
                thing.owner = outer
                self.figures.detached += outer is None

    @has_both
    @rule(data=st.data())
    def move_to_another(self, data: st.DataObject) -> None:
        scope, target, thing = self.pick_scope(data), self.pick_scope(data), self.pick_live(data)
        scope.move_to_other(target, thing.x)
        if thing.owner is scope:
            thing.owner = target

    @has_scope
    @rule(data=st.data())
    def dispose_everything_but_one(self, data: st.DataObject) -> None:
        scope = self.pick_scope(data)
        kept = self.pick_live(data) if self.live() else None
        scope.dispose_everything_but(None if kept is None else kept.x)
        for thing in self.live():
            if thing.owner is scope and thing is not kept:
                self.note_end(thing)

    @precondition(lambda self: bool(self.ended) and bool(self.live()))
    @rule(data=st.data())
    def use_a_scope_that_ended(self, data: st.DataObject) -> None:
        thing = self.pick_live(data)
        for wrong in (self.ended[-1].attach, self.ended[-1].detach, self.ended[-1].move_to_outer):
            with pytest.raises(ScopeDisposedError):
                wrong(thing.x)
        assert not self.ended[-1].contains(thing.x)
        self.ended[-1].dispose()

    # What must hold

    @invariant()
    def counters_are_the_models(self) -> None:
        figures = statistics.snapshot() - self.before
        assert figures == self.figures.as_statistics()
        assert figures.live_count == len(self.live())

    @invariant()
    def owners_and_values_are_the_models(self) -> None:
        assert current_dispose_scope() is self.current
        for thing in self.things:
            assert thing.x.is_invalid is not thing.alive
            assert thing.x.owning_dispose_scope is thing.owner
            if thing.alive:
                assert thing.x.tolist() == thing.values[thing.shown]
        for scope in self.scopes:
            owned = [thing.x for thing in self.live() if thing.owner is scope]
            assert len(scope) == len(owned)
            assert {id(x) for x in scope.disposables_view} == {id(x) for x in owned}


class TestLifetimes(Lifetimes.TestCase):
    settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.soak
class TestLifetimesAtLength(Lifetimes.TestCase):
    settings = settings(max_examples=1000, stateful_step_count=50, deadline=None)
