"""The figures of memory driven at random against a model of buffers (`tests.tensor.buffers`).

After each step values, figures and callbacks must be as in the model, without any garbage collection.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.lib.stride_tricks import as_strided

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, memory
from tests.tensor.buffers import (
    Buffer,
    Export,
    Model,
    Pair,
    Source,
    Storage,
    Tape,
    address,
    compact,
    is_held,
    over,
)

SMALL = [(4,), (2, 3), (1, 3)]
LARGE = [(40_000,), (200, 200)]  # of float32: beyond the 128 KiB from which the pool serves
ITEM = 4

VIEWS: dict[str, Callable[[Any], Any]] = {
    "tail": lambda x: x[1:] if x.shape[0] > 1 else x[:],
    "every other": lambda x: x[::2],
    "first": lambda x: x[0:1],
    "last column": lambda x: x[..., -1:],
    "backwards": lambda x: x[..., ::-1],
    "transposed": lambda x: x.T,
}

EXPORTS: dict[str, Callable[[Tensor], np.ndarray]] = {
    "numpy": lambda x: x.numpy(),
    "a view of numpy's": lambda x: x.numpy()[...],
    "memoryview": lambda x: np.asarray(memoryview(x.numpy())),
    "dlpack": np.from_dlpack,
}


class Figures(Model, RuleBasedStateMachine):
    shapes = SMALL + LARGE
    pooled_from = (2**17,)
    looks_each_step = True

    def __init__(self) -> None:
        super().__init__()
        gc.freeze()  # else the collections at a limit walk all that Hypothesis keeps
        gc.disable()  # memory comes back without it
        self.settings_before = memory.configuration()
        memory.configure(min_pooled_bytes=self.pooled_from[0])
        self.before = memory.statistics()
        self.number = 0.0
        self.refusals = 0

    def teardown(self) -> None:
        while self.scopes:
            self.end(self.scopes[-1])
        for pair in [*self.hidden, *self.pairs]:
            if pair in self.hidden or pair in self.pairs:
                self.drop(pair)
        self.exports.clear()
        try:
            self.look()
            assert self.bytes_of() == (0, 0, 0)
        finally:
            gc.enable()
            memory.configure(**self.settings_before._asdict())

    def next_value(self) -> float:
        self.number += 1
        return self.number

    def values(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + np.float32(self.next_value())

    def pick(self, data: st.DataObject, among: list[Any] | None = None) -> Any:
        among = self.pairs if among is None else among
        # By its place: Hypothesis keeps what it draws.
        return among[data.draw(st.integers(0, len(among) - 1), label="which")]

    def pick_like(self, data: st.DataObject, pair: Pair) -> Pair:
        return self.pick(data, [other for other in self.pairs if other.model.shape == pair.model.shape])

    has_tensors = precondition(lambda self: bool(self.pairs))
    has_written = precondition(lambda self: any(not pair.is_expanded for pair in self.pairs))
    has_exports = precondition(lambda self: bool(self.exports))
    has_sources = precondition(lambda self: bool(self.sources))
    has_tapes = precondition(lambda self: bool(self.tapes))
    has_scopes = precondition(lambda self: bool(self.scopes))
    has_room = precondition(lambda self: len(self.pairs) < 12)
    has_some_room = precondition(lambda self: 0 < len(self.pairs) < 12)

    def pick_written(self, data: st.DataObject) -> Pair:
        return self.pick(data, [pair for pair in self.pairs if not pair.is_expanded])

    # Tensors come

    @has_room
    @rule(data=st.data(), how=st.sampled_from(["tensor", "zeros", "empty"]))
    def make(self, data: st.DataObject, how: str) -> None:
        shape = data.draw(st.sampled_from(self.shapes))
        values = np.zeros(shape, np.float32) if how == "zeros" else self.values(shape)
        if how == "tensor":
            x = tensor.tensor(values)
        elif how == "zeros":
            x = tensor.zeros(shape)
        else:
            x = tensor.empty(shape)
            x.copy_(values)
        self.add_own(x, values)

    @has_room
    @rule(data=st.data(), start=st.sampled_from([0, 4, 12]), is_readonly=st.booleans())
    def borrow_a_buffer(self, data: st.DataObject, start: int, is_readonly: bool) -> None:
        values = self.values(data.draw(st.sampled_from(self.shapes)))
        lender = bytearray(start) + bytearray(values.tobytes()) + bytearray(8)
        source = Source(lender, Buffer(values.nbytes, "blob"), values.reshape(-1).view(np.uint8), start)
        tell = source.releases.append
        given = memoryview(lender).toreadonly() if is_readonly else lender
        x = tensor.from_blob(given, values.shape, "float32", offset=start, on_release=lambda: tell(1))
        model = np.ndarray(values.shape, np.float32, source.flat)
        self.sources.append(source)
        self.add(x, Storage(source.buffer, source.flat, is_readonly), model)

    @has_room
    @rule(data=st.data(), is_readonly=st.booleans())
    def borrow_an_array(self, data: st.DataObject, is_readonly: bool) -> None:
        array = self.values(data.draw(st.sampled_from(self.shapes)))
        model, flat = compact(array)
        given = array[...]
        given.flags.writeable = not is_readonly
        source = Source(array, Buffer(array.nbytes, "array"), flat)
        self.sources.append(source)
        self.add(tensor.from_numpy(given), Storage(source.buffer, flat, is_readonly), model)

    @has_exports
    @has_room
    @rule(data=st.data())
    def borrow_an_exported_array(self, data: st.DataObject) -> None:
        export = self.pick(data, self.exports)
        if export.array.flags.writeable:
            buffer = Buffer(export.array.nbytes, "array", under=export.buffer)
            x = tensor.from_numpy(export.array)
            self.add(x, Storage(buffer, export.flat), export.model[...])

    @has_some_room
    @rule(data=st.data(), how=st.sampled_from(sorted(VIEWS)))
    def view(self, data: st.DataObject, how: str) -> None:
        pair = self.pick(data)
        self.add(VIEWS[how](pair.x), pair.storage, VIEWS[how](pair.model))

    @has_some_room
    @rule(data=st.data(), how=st.sampled_from(["alias", "detach"]))
    def look_at_the_same(self, data: st.DataObject, how: str) -> None:
        pair = self.pick(data)
        self.add(getattr(pair.x, how)(), pair.storage, pair.model[...])

    @has_some_room
    @rule(data=st.data())
    def expand(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        shape = pair.model.shape
        if len(shape) < 3:
            model = as_strided(pair.model, (2, *shape), (0, *pair.model.strides), writeable=True)
            self.add(pair.x.unsqueeze(0).expand(2, *shape), pair.storage, model)

    @has_some_room
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        storage = pair.storage
        x = pair.x.clone()
        if self.is_shown(storage.buffer) or pair.is_expanded or pair.is_small_view:
            self.add_own(x, pair.model)
        else:
            flat = storage.flat.copy()
            model = over(flat, pair.model, address(storage.flat))
            self.add(x, Storage(storage.buffer, flat), model)

    @has_some_room
    @rule(data=st.data())
    def compute(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        other = self.pick_like(data, pair)
        self.add_own(pair.x + other.x, pair.model + other.model)

    @has_tensors
    @rule(data=st.data(), to=st.sampled_from(["a number", "a tensor", "a reduction", "nothing"]))
    def donate(self, data: st.DataObject, to: str) -> None:
        pair = self.pick(data)
        storage, model = pair.storage, pair.model
        other = self.pick_like(data, pair)
        if other is pair and to == "a tensor":
            return
        is_fit = (
            to in ("a number", "a tensor")
            and len(storage.members) == 1
            and not self.is_shared(storage.buffer)
            and not self.is_shown(storage.buffer)
            and pair.x._array.flags.forc  # which order of memory a result has, other tests hold
            and model.nbytes == storage.buffer.nbytes
        )
        before = memory.statistics()
        donated, pair.x = pair.x.donate(), None
        self.drop(pair)
        if to == "a number":
            self.add_own(donated + 1, model + 1)
        elif to == "a tensor":
            self.add_own(other.x + donated, other.model + model)
        elif to == "a reduction":
            self.add_own(tensor.max(donated, axis=0, keepdims=True), model.max(axis=0, keepdims=True))
        if is_fit:
            self.pairs[-1].storage.buffer = storage.buffer
        del donated
        now = memory.statistics() - before
        assert (now.donation_reuse_count, now.donation_miss_count) == (int(is_fit), int(not is_fit))

    # They are written

    @has_written
    @rule(data=st.data(), how=st.sampled_from(["item", "row", "add", "fill"]))
    def write(self, data: st.DataObject, how: str) -> None:
        pair = self.pick_written(data)
        model = self.make_writable(pair)
        value = self.next_value()
        if how == "item":
            pair.x[(0,) * model.ndim] = value
            model[(0,) * model.ndim] = value
        elif how == "row":
            pair.x[..., -1] = value
            model[..., -1] = value
        elif how == "add":
            pair.x += 1
            model += 1
        else:
            pair.x.fill_(value)
            model.fill(value)

    @has_written
    @rule(data=st.data(), how=st.sampled_from(["copy", "add", "out"]))
    def write_from_another(self, data: st.DataObject, how: str) -> None:
        pair = self.pick_written(data)
        one, other = self.pick_like(data, pair), self.pick_like(data, pair)
        model = self.make_writable(pair)
        if how == "copy":
            pair.x.copy_(other.x)
            np.copyto(model, other.model)
        elif how == "add":
            pair.x.add_(other.x)
            np.add(model, other.model, out=model)
        else:
            tensor.subtract(one.x, other.x, out=pair.x)
            np.subtract(one.model, other.model, out=model)

    # To find out who holds memory takes a while.
    @has_tensors
    @precondition(lambda self: self.refusals < 2)
    @rule(data=st.data())
    def ask_for_more_than_the_limit(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        self.refusals += 1
        now = memory.statistics()
        is_refused = False
        with memory.limit(now.bytes_live + now.bytes_pinned):
            try:
                if self.is_shared(pair.storage.buffer) and not pair.is_expanded:
                    pair.x += 1
                else:
                    pair.x + 1
            except memory.OutOfMemoryError:
                is_refused = True
        assert is_refused

    # Others look at them

    @has_written
    @precondition(lambda self: len(self.exports) < 8)
    @rule(data=st.data(), how=st.sampled_from(sorted(EXPORTS)))
    def export(self, data: st.DataObject, how: str) -> None:
        pair = self.pick_written(data)
        if how == "dlpack" and min(pair.model.strides) < 0:
            return
        storage = pair.storage
        if self.is_shared(storage.buffer):
            self.separate(storage)
        self.exports.append(Export(EXPORTS[how](pair.x), storage.buffer, storage.flat, pair.model))

    @has_exports
    @rule(data=st.data())
    def write_through_an_exported_array(self, data: st.DataObject) -> None:
        export = self.pick(data, self.exports)
        if export.array.flags.writeable:
            export.array[...] += 1
            export.model[...] += 1

    @has_exports
    @rule(data=st.data())
    def drop_an_exported_array(self, data: st.DataObject) -> None:
        self.exports.remove(self.pick(data, self.exports))

    @has_sources
    @rule(data=st.data())
    def write_to_borrowed_memory(self, data: st.DataObject) -> None:
        source = self.pick(data, self.sources)
        value = np.float32(self.next_value()).tobytes()
        memoryview(source.memory).cast("B")[source.start : source.start + ITEM] = value
        source.flat[:ITEM] = np.frombuffer(value, np.uint8)

    # The graph

    @has_some_room
    @precondition(lambda self: len(self.tapes) < 3)
    @rule(data=st.data())
    def save_an_operand(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        ones = np.ones(pair.model.shape, np.float32)
        leaf = self.add_own(tensor.tensor(ones, requires_grad=True), ones, hidden=True)
        saved, gradient = self.snapshot(pair), pair.model.copy()
        loss = self.add_own((leaf.x * pair.x).sum(), np.float32(0), hidden=True)
        self.tapes.append(Tape(leaf, loss, saved, gradient))

    @has_room
    @precondition(lambda self: len(self.tapes) < 3)
    @rule(data=st.data())
    def save_a_result(self, data: st.DataObject) -> None:
        values = self.values(data.draw(st.sampled_from(self.shapes)))
        leaf = self.add_own(tensor.tensor(values, requires_grad=True), values, hidden=True)
        out = self.add_own(leaf.x.sqrt(), np.sqrt(values), hidden=True)
        self.add(out.x.detach(), out.storage, out.model[...])
        loss = self.add_own(out.x.sum(), np.float32(0), hidden=True)
        self.tapes.append(Tape(leaf, loss, out.storage.buffer, 0.5 / out.model, out))

    @has_tapes
    @rule(data=st.data(), retain=st.booleans())
    def go_backward(self, data: st.DataObject, retain: bool) -> None:
        tape = self.pick(data, self.tapes)
        if tape.loss not in self.hidden or tape.is_used:
            return
        tape.loss.x.backward(retain_graph=retain)
        tape.is_used = not retain
        if tape.leaf not in self.hidden:
            return
        if tape.grad is None:
            tape.grad = self.add_own(tape.leaf.x.grad, tape.gradient, hidden=True)
            tape.grad.owner = tape.grad.x = None  # the leaf's
        else:
            model = self.make_writable(tape.grad)
            model += tape.gradient

    @has_tapes
    @has_room
    @rule(data=st.data())
    def clone_a_gradient(self, data: st.DataObject) -> None:
        tape = self.pick(data, self.tapes)
        if tape.grad is not None:
            model, flat = compact(tape.grad.model)
            self.add(tape.leaf.x.grad.clone(), Storage(tape.grad.storage.buffer, flat), model)

    @has_tapes
    @rule(data=st.data(), whole=st.booleans())
    def drop_of_a_graph(self, data: st.DataObject, whole: bool) -> None:
        tape = self.pick(data, self.tapes)
        held = [x for x in (tape.leaf, tape.loss, tape.out) if x in self.hidden]
        for pair in held if whole else held[-1:]:
            self.drop(pair)
        if whole or len(held) < 2:
            self.tapes.remove(tape)

    # They go

    @has_tensors
    @rule(data=st.data())
    def dispose(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        pair.x.dispose()
        self.drop(pair)

    @has_tensors
    @rule(data=st.data())
    def drop_the_last_reference(self, data: st.DataObject) -> None:
        self.drop(self.pick(data))

    @has_tensors
    @rule(data=st.data())
    def pass_the_handle_on(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        handle, pair.x, pair.owner = pair.x.move_handle(), None, None
        self.look()
        pair.x = Tensor.from_handle(handle)

    @has_tensors
    @rule(data=st.data())
    def make_a_parameter(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        pair.x = nn.Parameter(pair.x, requires_grad=False)
        if pair.is_small_view:
            pair.storage.members.remove(pair)
            pair.model, flat = compact(pair.model)
            pair.storage = Storage(Buffer(pair.model.nbytes), flat)
            pair.storage.members.append(pair)

    @precondition(lambda self: len(self.scopes) < 3)
    @rule()
    def open_a_scope(self) -> None:
        self.scopes.append(new_dispose_scope())

    @has_scopes
    @rule(data=st.data())
    def end_a_scope(self, data: st.DataObject) -> None:
        self.end(self.pick(data, self.scopes))

    @has_tensors
    @rule(data=st.data())
    def take_out_of_its_scope(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        pair.x.detach_from_dispose_scope()
        pair.owner = None

    # The pool

    @rule(data=st.data())
    def change_the_pool(self, data: st.DataObject) -> None:
        memory.configure(min_pooled_bytes=data.draw(st.sampled_from(self.pooled_from)))

    @rule(nbytes=st.sampled_from([0, 100, 100_000]))
    def trim(self, nbytes: int) -> None:
        memory.trim(nbytes)

    # What must hold

    @rule()
    def look(self) -> None:
        now = memory.statistics() - self.before
        assert (now.bytes_live, now.bytes_pinned, now.bytes_external) == self.bytes_of()
        assert now.bytes_allocated - now.bytes_freed == now.bytes_live + now.bytes_pinned
        lent = self.lent()
        for source in self.sources:
            if source.buffer.lender == "blob":
                assert is_held(source.memory) == (source.buffer in lent)
                assert source.releases == ([] if source.buffer in lent else [1])

    @invariant()
    def figures_are_the_models(self) -> None:
        if self.looks_each_step:
            self.look()

    @invariant()
    def values_are_the_models(self) -> None:
        for pair in self.pairs:
            # Not by x.numpy(), for which a tensor stops sharing.
            assert np.array_equal(pair.x._array, pair.model)
        for export in self.exports:
            assert np.array_equal(export.array, export.model)
        for tape in self.tapes:
            if tape.grad is not None:
                assert np.allclose(tape.leaf.x.grad._array, tape.grad.model)


class SmallFigures(Figures):
    """All in the pool, some, or none, and changing."""

    shapes = SMALL
    pooled_from = (20, 1, 2**17)


class UnseenFigures(Figures):
    """Between two looks at the figures much may happen."""

    looks_each_step = False


def test_an_op_that_saves_a_once_exported_tensor_takes_no_copy() -> None:
    x = tensor.ones((40_000,))
    x.numpy()
    weight = tensor.ones((40_000,), requires_grad=True)
    with memory.measure() as used:
        y = weight * x
    assert used.allocated_bytes == y.nbytes


@pytest.mark.parametrize(
    "once_seen",
    [
        lambda x: x.numpy() is None or x,
        lambda x: x.T.clone(),
        lambda x: x.reshape(-1).clone(),
    ],
)
def test_memory_without_another_user_can_be_donated(once_seen: Callable[[Tensor], Tensor]) -> None:
    x = once_seen(tensor.ones((200, 200)))
    gc.collect()
    before = memory.statistics()
    y = x.donate() + 1
    array = y.numpy()
    change = memory.statistics() - before
    assert (change.donation_reuse_count, change.allocation_count) == (1, 0)
    assert (change.bytes_live, change.bytes_pinned) == (0, 0)
    y.dispose()
    assert (memory.statistics() - before).bytes_pinned == array.nbytes
    assert array.min() == array.max() == 2


@pytest.mark.parametrize("size", [10, 40_000])
def test_each_exported_block_is_pinned_once_also_in_the_memory_of_an_earlier_one(size: int) -> None:
    gc.collect()
    before = memory.statistics()
    addresses = set()
    for _ in range(50):
        x = tensor.ones((size,))
        array = x.numpy()
        addresses.add(array.ctypes.data)
        del x
        change = memory.statistics() - before
        assert (change.bytes_live, change.bytes_pinned) == (0, array.nbytes)
        del array
        assert (memory.statistics() - before).bytes_pinned == 0
    assert len(addresses) < 50  # so that some had the memory of an earlier one


class TestFigures(Figures.TestCase):
    settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


class TestFiguresOfSmallTensors(SmallFigures.TestCase):
    settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


class TestFiguresSeldomRead(UnseenFigures.TestCase):
    settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


@pytest.mark.soak
class TestFiguresAtLength(Figures.TestCase):
    settings = settings(max_examples=2000, stateful_step_count=50, deadline=None)


@pytest.mark.soak
class TestFiguresOfSmallTensorsAtLength(SmallFigures.TestCase):
    settings = settings(max_examples=2000, stateful_step_count=50, deadline=None)


@pytest.mark.soak
class TestFiguresSeldomReadAtLength(UnseenFigures.TestCase):
    settings = settings(max_examples=2000, stateful_step_count=50, deadline=None)
