"""Scopes, tensors and all eight counters against a model that says what they should be."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

import nn
import tensor
from scopes import (
    DisposeScope,
    ScopeDisposedError,
    current_dispose_scope,
    disposing,
    new_dispose_scope,
    statistics,
)


@dataclass(eq=False)
class ModelScope:
    real: DisposeScope
    outer: ModelScope | None
    is_open: bool = True

    def next_outward(self) -> ModelScope | None:
        scope = self.outer
        while scope is not None and not scope.is_open:
            scope = scope.outer
        return scope


@dataclass(eq=False)
class ModelTensor:
    real: tensor.Tensor | None
    owner: ModelScope | None
    is_whole: bool = True


class ScopesMachine(RuleBasedStateMachine):
    scopes = Bundle("scopes")
    tensors = Bundle("tensors")

    @initialize()
    def start(self) -> None:
        self.before = statistics.snapshot()
        self.current: ModelScope | None = None
        self.all_scopes: list[ModelScope] = []
        self.all_tensors: list[ModelTensor] = []
        self.created_in = self.created_outside = self.ended_in = self.ended_outside = 0
        self.attached = self.detached = self.finalized = 0

    def teardown(self) -> None:
        while (scope := current_dispose_scope()) is not None:
            scope.dispose()
        for x in self.all_tensors:
            x.real = None  # not whenever the collector finds this machine: the next one counts

    # What happens, in the model.

    def adopt(self, real: tensor.Tensor) -> ModelTensor:
        self.created_in += self.current is not None
        self.created_outside += self.current is None
        return self.add(real, self.current)

    def add(self, real: tensor.Tensor, owner: ModelScope | None) -> ModelTensor:
        x = ModelTensor(real, owner)
        self.all_tensors.append(x)
        return x

    def end(self, x: ModelTensor) -> None:
        if x.is_whole:
            self.ended_in += x.owner is not None
            self.ended_outside += x.owner is None
        x.is_whole, x.owner = False, None

    def owned_by(self, scope: ModelScope) -> list[ModelTensor]:
        return [x for x in self.all_tensors if x.owner is scope]

    def move(self, x: ModelTensor, target: ModelScope | None) -> None:
        self.detached += target is None
        x.owner = target

    # What happens.

    @rule(target=scopes)
    def open_scope(self) -> ModelScope:
        scope = ModelScope(new_dispose_scope(), self.current)
        self.current = scope
        self.all_scopes.append(scope)
        return scope

    @rule(scope=scopes)
    def end_scope(self, scope: ModelScope) -> None:
        scope.real.dispose()
        for x in self.owned_by(scope):
            self.end(x)
        scope.is_open = False
        if self.current is scope:
            self.current = scope.next_outward()

    @rule(target=tensors, values=st.lists(st.floats(-9, 9), max_size=3))
    def create(self, values: list[float]) -> ModelTensor:
        return self.adopt(tensor.tensor(values))

    @rule(target=tensors, x=tensors, how=st.sampled_from(["alias", "clone", "detach"]))
    def derive(self, x: ModelTensor, how: str) -> object:
        if x.real is None:
            return multiple()
        if not x.is_whole:
            with pytest.raises(tensor.TensorDisposedError):
                getattr(x.real, how)()
            return multiple()
        return self.adopt(getattr(x.real, how)())

    @rule(target=tensors, x=tensors)
    def become_parameter(self, x: ModelTensor) -> object:
        if x.real is None:
            return multiple()
        if not x.is_whole:
            with pytest.raises(tensor.TensorDisposedError):
                nn.Parameter(x.real)
            return multiple()
        if not x.real.is_leaf:
            return multiple()  # an alias or a clone of a parameter has history, and is refused
        owner, x.owner, x.is_whole = x.owner, None, False
        return self.add(nn.Parameter(x.real), owner)

    @rule(target=tensors, x=tensors)
    def pass_through_a_scope_of_its_own(self, x: ModelTensor) -> object:
        if x.real is None or not x.is_whole:
            return multiple()
        real = disposing(lambda y: (y.clone(), y.clone().dispose())[0], x.real)
        self.created_in += 2
        self.ended_in += 1
        self.detached += self.current is None
        return self.add(real, self.current)

    @rule(x=tensors)
    def dispose(self, x: ModelTensor) -> None:
        if x.real is not None:
            x.real.dispose()
            self.end(x)

    @rule(x=consumes(tensors))
    def drop(self, x: ModelTensor) -> None:
        if x.real is not None:
            self.finalized += x.is_whole
            self.end(x)
            x.real = None

    @rule(scope=scopes, x=tensors, y=tensors)
    def attach(self, scope: ModelScope, x: ModelTensor, y: ModelTensor) -> None:
        given = [x.real, {"y": y.real}]
        both = [z for z in dict.fromkeys((x, y)) if z.real is not None]
        if not scope.is_open:
            with pytest.raises(ScopeDisposedError):
                scope.real.attach(given)
        elif not all(z.is_whole for z in both):
            with pytest.raises(tensor.TensorDisposedError):
                scope.real.attach(given)
        else:
            assert scope.real.attach(given) is given
            for z in both:
                self.attached += z.owner is not scope
                z.owner = scope

    @rule(scope=scopes, x=tensors, call=st.sampled_from(["detach", "move_to_outer"]))
    def let_go(self, scope: ModelScope, x: ModelTensor, call: str) -> None:
        if not scope.is_open:
            with pytest.raises(ScopeDisposedError):
                getattr(scope.real, call)(x.real)
            return
        assert getattr(scope.real, call)(x.real) is x.real
        if x.owner is scope:
            self.move(x, scope.next_outward() if call == "move_to_outer" else None)

    @rule(scope=scopes, other=st.one_of(st.none(), scopes), x=tensors)
    def move_to_other(self, scope: ModelScope, other: ModelScope | None, x: ModelTensor) -> None:
        there = None if other is None else other.real
        if not scope.is_open or (other is not None and not other.is_open):
            with pytest.raises(ScopeDisposedError):
                scope.real.move_to_other(there, (x.real,))
            return
        scope.real.move_to_other(there, (x.real,))
        if x.owner is scope and other is not scope:
            self.move(x, other)

    @rule(x=tensors, y=tensors, call=st.sampled_from(["out", "to", "off"]))
    def move_by_the_tensor(self, x: ModelTensor, y: ModelTensor, call: str) -> None:
        if x.real is None or y.real is None:
            return
        owner = x.owner
        if call == "out":
            assert x.real.move_to_outer_dispose_scope() is x.real
            target = None if owner is None else owner.next_outward()
        elif call == "to" and owner is None and y.owner is not None:
            if not x.is_whole:
                with pytest.raises(tensor.TensorDisposedError):
                    x.real.move_to_other_dispose_scope(y.real)
                return
            assert x.real.move_to_other_dispose_scope(y.real) is x.real
            self.attached += 1
            x.owner = y.owner
            return
        elif call == "to":
            assert x.real.move_to_other_dispose_scope(y.real) is x.real
            target = y.owner
        else:
            assert x.real.detach_from_dispose_scope() is x.real
            target = None
        if owner is not None:
            self.move(x, target)

    @rule(scope=scopes, keep=st.lists(tensors, max_size=3))
    def dispose_everything_but(self, scope: ModelScope, keep: list[ModelTensor]) -> None:
        kept = [x.real for x in keep]
        if not scope.is_open:
            with pytest.raises(ScopeDisposedError):
                scope.real.dispose_everything_but(kept)
            return
        assert scope.real.dispose_everything_but(kept) is kept
        for x in self.owned_by(scope):
            if x not in keep:
                self.end(x)

    # What must be so.

    @invariant()
    def the_current_scope_is_as_in_the_model(self) -> None:
        assert current_dispose_scope() is (None if self.current is None else self.current.real)

    @invariant()
    def ownership_and_validity_are_as_in_the_model(self) -> None:
        for x in self.all_tensors:
            if x.real is not None:
                assert x.real.is_invalid is not x.is_whole
                assert x.real.owning_dispose_scope is (None if x.owner is None else x.owner.real)
        for scope in self.all_scopes:
            assert scope.real.is_disposed is not scope.is_open
            if scope.is_open:
                members = {id(x.real) for x in self.owned_by(scope)}
                assert {id(x) for x in scope.real.disposables_view} == members
                assert len(scope.real) == len(members)

    @invariant()
    def all_eight_figures_are_as_in_the_model(self) -> None:
        now = statistics.snapshot() - self.before
        assert now.live_count == sum(x.is_whole for x in self.all_tensors)
        assert now.created_outside_scope_count == self.created_outside
        assert now.disposed_outside_scope_count == self.ended_outside
        assert now.created_in_scope_count == self.created_in
        assert now.disposed_in_scope_count == self.ended_in
        assert now.attached_to_scope_count == self.attached
        assert now.detached_from_scope_count == self.detached
        assert now.finalized_count == self.finalized


TestScopesAgainstTheModel = ScopesMachine.TestCase
TestScopesAgainstTheModel.settings = settings(max_examples=60)


@pytest.mark.soak
class TestScopesAgainstTheModelAtLength(ScopesMachine.TestCase):
    settings = settings(max_examples=10_000, stateful_step_count=100)
