"""Packed sequences and their tensors against a model that says where each is and what was counted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import tensor
from nn.utils.rnn import PackedSequence, pack_sequence
from scopes import DisposeScope, TensorDisposedError, current_dispose_scope, new_dispose_scope, statistics
from tensor import Tensor


@dataclass(eq=False)
class ModelScope:
    real: DisposeScope
    is_open: bool = True


@dataclass(eq=False)
class Packed:
    """A packed sequence by the model: its owner is where its tensors count too."""

    real: PackedSequence | None
    tensors: int
    owner: ModelScope | None
    is_whole: bool = True


class SequencesMachine(RuleBasedStateMachine):
    scopes = Bundle("scopes")
    sequences = Bundle("sequences")

    @initialize()
    def start(self) -> None:
        self.before = {kind: statistics.of(kind).snapshot() for kind in (Tensor, PackedSequence)}
        self.opened: list[ModelScope] = []
        self.packed: list[Packed] = []
        # By the model: created outside and in, disposed outside and in, attached, detached.
        self.of_tensors = [0] * 6
        self.of_sequences = [0] * 6

    def teardown(self) -> None:
        while (scope := current_dispose_scope()) is not None:
            scope.dispose()
        for x in self.packed:
            x.real = None

    def current(self) -> ModelScope | None:
        return next((scope for scope in reversed(self.opened) if scope.is_open), None)

    def end(self, x: Packed) -> None:
        if x.is_whole:
            self.of_sequences[2 + (x.owner is not None)] += 1
            self.of_tensors[2 + (x.owner is not None)] += x.tensors
        x.is_whole, x.owner = False, None

    @rule(target=scopes)
    def open_scope(self) -> ModelScope:
        self.opened.append(ModelScope(new_dispose_scope()))
        return self.opened[-1]

    @rule(scope=scopes)
    def end_scope(self, scope: ModelScope) -> None:
        scope.real.dispose()
        scope.is_open = False
        for x in self.packed:
            if x.owner is scope:
                self.end(x)

    @rule(target=sequences, is_sorted=st.booleans())
    def pack(self, is_sorted: bool) -> Packed:
        owner = self.current()
        inputs = [tensor.tensor([1, 2, 3]), tensor.tensor([4, 5])]
        x = Packed(pack_sequence(inputs, enforce_sorted=is_sorted), 2 if is_sorted else 4, owner)
        for y in inputs:
            y.dispose()
        self.of_tensors[owner is not None] += 2 + x.tensors
        self.of_tensors[2 + (owner is not None)] += 2
        self.of_tensors[5] += x.tensors * (owner is not None)
        self.of_sequences[owner is not None] += 1
        self.packed.append(x)
        return x

    @rule(x=sequences)
    def dispose(self, x: Packed) -> None:
        if x.real is not None:
            x.real.dispose()
            self.end(x)

    @rule(x=consumes(sequences))
    def drop(self, x: Packed) -> None:
        if x.real is not None:
            x.real = None
            self.end(x)

    @rule(scope=scopes, x=sequences)
    def attach(self, scope: ModelScope, x: Packed) -> None:
        if x.real is None or not scope.is_open:
            return
        if not x.is_whole:
            with pytest.raises(TensorDisposedError):
                scope.real.attach(x.real)
            return
        scope.real.attach(x.real)
        self.of_sequences[4] += x.owner is not scope
        x.owner = scope

    @rule(x=sequences)
    def detach(self, x: Packed) -> None:
        if x.real is not None:
            x.real.detach_from_dispose_scope()
            self.of_sequences[5] += x.owner is not None
            x.owner = None

    @rule(scope=scopes, x=sequences)
    def move(self, scope: ModelScope, x: Packed) -> None:
        if x.real is not None and scope.is_open and x.owner is not None:
            x.real.move_to_other_dispose_scope(scope.real)
            x.owner = scope

    @rule(scope=scopes, keep=st.lists(sequences, max_size=2))
    def dispose_everything_but(self, scope: ModelScope, keep: list[Packed]) -> None:
        if scope.is_open:
            scope.real.dispose_everything_but([x.real for x in keep])
            for x in self.packed:
                if x.owner is scope and x not in keep:
                    self.end(x)

    @invariant()
    def each_is_where_the_model_has_it_with_all_its_tensors(self) -> None:
        for x in self.packed:
            if x.real is not None:
                assert {y.is_invalid for y in (x.real, *x.real) if y is not None} == {not x.is_whole}
                assert x.real.owning_dispose_scope is (None if x.owner is None else x.owner.real)
        for scope in self.opened:
            if scope.is_open:
                members = {id(x.real) for x in self.packed if x.owner is scope}
                assert {id(x) for x in scope.real.disposables_view} == members

    @invariant()
    def all_figures_are_as_in_the_model(self) -> None:
        for kind, expected in ((Tensor, self.of_tensors), (PackedSequence, self.of_sequences)):
            now = statistics.of(kind).snapshot() - self.before[kind]
            assert expected == [
                now.created_outside_scope_count,
                now.created_in_scope_count,
                now.disposed_outside_scope_count,
                now.disposed_in_scope_count,
                now.attached_to_scope_count,
                now.detached_from_scope_count,
            ]
            assert now.live_count == sum(expected[:2]) - sum(expected[2:4])


TestSequencesAgainstTheModel = SequencesMachine.TestCase
TestSequencesAgainstTheModel.settings = settings(max_examples=60)
