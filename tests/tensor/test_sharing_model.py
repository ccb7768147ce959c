"""Memory that is shared, driven at random against plain NumPy arrays.

The model of a tensor is a NumPy array: of an alias or a view a NumPy view, of a clone a copy, of an exported
array the same array as the tensor's. After each step all values must be equal.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.lib.stride_tricks import as_strided

import tensor
from tensor import Tensor

VIEWS = {
    "alias": (lambda x: x.alias(), lambda a: a[...]),
    "detach": (lambda x: x.detach(), lambda a: a[...]),
    "tail": (lambda x: x[1:], lambda a: a[1:]),
    "every other": (lambda x: x[::2], lambda a: a[::2]),
    "first": (lambda x: x[0:1], lambda a: a[0:1]),
    "transposed": (lambda x: x.T, lambda a: a.T),
    "expanded": (lambda x: x.unsqueeze(0).expand(2, *x.shape), lambda a: twice(a)),
}


def twice(a: np.ndarray) -> np.ndarray:
    """Return two rows that are both `a`; unlike a broadcast one, a view of it can be written."""
    return as_strided(a, (2, *a.shape), (0, *a.strides), writeable=True)


@dataclass(eq=False)
class Pair:
    x: Tensor
    model: np.ndarray

    @property
    def is_expanded(self) -> bool:
        return any(s == 0 and n > 1 for s, n in zip(self.model.strides, self.model.shape, strict=True))


@dataclass(eq=False)
class Export:
    array: np.ndarray
    model: np.ndarray


class Sharing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[Pair] = []
        self.exports: list[Export] = []
        self.losses: list[tuple[Tensor, Tensor, np.ndarray]] = []
        self.number = 0.0

    def next_value(self) -> float:
        self.number += 1
        return self.number

    def pick(self, data: st.DataObject) -> Pair:
        return data.draw(st.sampled_from(self.pairs), label="tensor")

    has_tensors = precondition(lambda self: bool(self.pairs))
    has_exports = precondition(lambda self: bool(self.exports))

    @rule(shape=st.sampled_from([(4,), (2, 3), (1, 3)]))
    def make(self, shape: tuple[int, ...]) -> None:
        model = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + self.next_value()
        self.pairs.append(Pair(tensor.tensor(model), model))

    @rule()
    def borrow(self) -> None:
        array = np.arange(4, dtype=np.float32) + self.next_value()
        model = array.copy()
        self.pairs.append(Pair(tensor.from_numpy(array), model))
        self.exports.append(Export(array, model))

    @has_tensors
    @rule(data=st.data(), how=st.sampled_from(sorted(VIEWS)))
    def share(self, data: st.DataObject, how: str) -> None:
        pair = self.pick(data)
        if pair.model.ndim < 4:
            ours, theirs = VIEWS[how]
            self.pairs.append(Pair(ours(pair.x), theirs(pair.model)))

    @has_tensors
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        self.pairs.append(Pair(pair.x.clone(), pair.model.copy()))

    @has_tensors
    @rule(data=st.data())
    def write_an_item(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        if pair.model.size == 0:
            return
        value = self.next_value()
        place = (0,) * pair.model.ndim
        if pair.is_expanded:
            with pytest.raises(RuntimeError, match="expanded"):
                pair.x[place] = value
            return
        pair.x[place] = value
        pair.model[place] = value

    @has_tensors
    @rule(data=st.data())
    def add_in_place(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        if not pair.is_expanded:
            pair.x += 1
            np.add(pair.model, 1, out=pair.model)

    @has_tensors
    @rule(data=st.data())
    def copy_from_another(self, data: st.DataObject) -> None:
        pair, source = self.pick(data), self.pick(data)
        if not pair.is_expanded and pair.model.shape == source.model.shape:
            pair.x.copy_(source.x)
            pair.model[...] = source.model

    @has_tensors
    @rule(data=st.data())
    def export(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        if not pair.is_expanded:
            self.exports.append(Export(pair.x.numpy(), pair.model))

    @has_exports
    @rule(data=st.data())
    def write_through_an_exported_array(self, data: st.DataObject) -> None:
        export = data.draw(st.sampled_from(self.exports), label="export")
        export.array[...] += 1
        np.add(export.model, 1, out=export.model)

    @has_exports
    @rule(data=st.data())
    def drop_an_exported_array(self, data: st.DataObject) -> None:
        self.exports.remove(data.draw(st.sampled_from(self.exports), label="export"))

    @has_tensors
    @rule(data=st.data())
    def save_for_backward(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        weight = tensor.ones(pair.model.shape, requires_grad=True)
        self.losses.append((weight, (weight * pair.x).sum(), pair.model.copy()))

    @precondition(lambda self: bool(self.losses))
    @rule(data=st.data())
    def go_backward(self, data: st.DataObject) -> None:
        weight, loss, saved = self.losses.pop(data.draw(st.integers(0, len(self.losses) - 1)))
        loss.backward()
        np.testing.assert_array_equal(weight.grad.numpy(), saved)

    @has_tensors
    @rule(data=st.data())
    def dispose(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        pair.x.dispose()
        self.pairs.remove(pair)

    @has_tensors
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.pairs.remove(self.pick(data))
        gc.collect(0)

    @has_tensors
    @rule(data=st.data())
    def pass_the_handle_on(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        pair.x = Tensor.from_handle(pair.x.move_handle())

    @invariant()
    def values_are_the_models(self) -> None:
        for pair in self.pairs:
            assert pair.x.tolist() == pair.model.tolist()
        for export in self.exports:
            assert export.array.tolist() == export.model.tolist()


class TestSharing(Sharing.TestCase):
    settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@pytest.mark.soak
class TestSharingAtLength(Sharing.TestCase):
    settings = settings(max_examples=2000, stateful_step_count=50, deadline=None)
