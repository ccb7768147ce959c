"""Pickles: whose memory an unpickled tensor has, and what a broken pickle can do."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tensor import OutOfMemoryError, Tensor, memory
from tests.tensor.graphs import bytes_live

SIZES = [10, 10_000, 3_000_000]


def with_a_view(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x[1:]


KINDS: dict[str, Callable[[Tensor], Any]] = {
    "tensor": lambda x: x,
    "leaf": lambda x: x.requires_grad_(),
    "with a view": with_a_view,
    "parameter": nn.Parameter,
    "transposed": lambda x: x.reshape(2, -1).T,
}


def test_views_pickled_together_share_memory_again_and_clones_do_not():
    x = tensor.zeros((6,))
    clone = x.clone()
    pair = pickle.loads(pickle.dumps((x[1:], x.reshape(2, 3).T, clone, clone[:2], x)))
    view, turned, copied, part, whole = pair
    view[0] = 5.0
    copied[1] = 7.0
    assert (turned[1, 0].item(), whole.tolist()) == (5.0, [0.0, 5.0, 0.0, 0.0, 0.0, 0.0])
    assert (copied.tolist(), part.tolist()) == ([0.0, 7.0, 0.0, 0.0, 0.0, 0.0], [0.0, 7.0])


def test_each_pickle_has_the_values_of_its_moment():
    x = tensor.zeros((3,))
    view = x[1:]
    first = pickle.dumps((x, view))
    view += 1.0
    second = pickle.dumps((view, x))
    assert [each.tolist() for each in pickle.loads(first)] == [[0.0, 0.0, 0.0], [0.0, 0.0]]
    assert [each.tolist() for each in pickle.loads(second)] == [[1.0, 1.0], [0.0, 1.0, 1.0]]


def test_buffers_out_of_band_keep_the_values_of_the_moment_whatever_is_written():
    x = tensor.zeros((1000,))
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps((x, x[1:]), 5, buffer_callback=buffers.append)
    x += 1.0
    loaded = pickle.loads(text, buffers=buffers)
    assert loaded[0].sum().item() == 0.0
    del buffers, loaded
    before = bytes_live()
    x += 1.0
    assert bytes_live() == before  # nobody looks at the memory any more


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_unpickled_tensor_is_counted_until_it_ends(kind, size, protocol):
    made = KINDS[kind](tensor.ones((size,)))
    text = pickle.dumps(made, protocol)
    del made
    before = bytes_live()
    loaded = pickle.loads(text)
    assert bytes_live() - before == size * 4
    del loaded
    assert bytes_live() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_holds_for_unpickled_tensors(kind):
    text = pickle.dumps(KINDS[kind](tensor.ones((3_000_000,))), 5)
    with memory.limit(bytes_live() + 10 * 2**20), pytest.raises(OutOfMemoryError):
        pickle.loads(text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_unpickled_from_buffers_out_of_band_sees_no_write_to_them(kind):
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(KINDS[kind](tensor.ones((4,))), 5, buffer_callback=buffers.append)
    raw = [bytearray(buffer.raw()) for buffer in buffers]
    loaded = pickle.loads(text, buffers=raw)
    x = loaded[0] if isinstance(loaded, tuple) else loaded
    copied = x.detach().clone()
    for each in raw:
        each[:] = bytes(len(each))
    assert x.flatten().tolist() == copied.flatten().tolist() == [1.0] * 4
    with tensor.no_grad():
        x += 1  # it is no read-only memory either
    assert x.flatten().tolist() == [2.0] * 4


def test_tensors_that_another_process_returns_are_counted():
    before = bytes_live()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        x = pool.submit(tensor.ones, (1000,)).result()
    assert (x.sum().item(), bytes_live() - before) == (1000.0, 4000)


def parts_of(x: object) -> tuple[Callable[..., Tensor], list[Any]]:
    function, arguments = x.__reduce_ex__(5)[:2]
    return function, list(arguments)


BROKEN_VIEWS = {
    "a storage that is none": (0, b"12345678"),
    "no dtype": (1, "float32"),
    "objects": (1, np.dtype(object)),
    "text": (1, np.dtype("U4")),
    "a record": (1, np.dtype([("a", object)])),
    "a wider dtype": (1, np.dtype("complex128")),
    "a list of sizes": (2, [3]),
    "a negative size": (2, (-3,)),
    "a large size": (2, (4,)),
    "a huge size": (2, (2**62,)),
    "a size beyond any": (2, (2**70,)),
    "a fraction": (2, (2.5,)),
    "True": (2, (True,)),
    "another dimension": (2, (3, 1)),
    "a long stride": (3, (8,)),
    "a backward stride": (3, (-4,)),
    "a huge stride": (3, (2**62,)),
    "no strides": (3, None),
    "a negative offset": (4, -4),
    "a long offset": (4, 8),
    "an offset of another kind": (4, "4"),
    "requires_grad of another kind": (5, "yes"),
}


@pytest.mark.parametrize(("place", "value"), BROKEN_VIEWS.values(), ids=BROKEN_VIEWS)
def test_a_pickle_of_a_view_that_was_changed_is_refused(place, value):
    x = tensor.arange(4.0)
    rebuild, state = parts_of(x[1:])
    state[0] = pickle.loads(pickle.dumps(state[0]))
    assert rebuild(*state).tolist() == [1.0, 2.0, 3.0]
    state[place] = value
    with pytest.raises((pickle.UnpicklingError, TypeError)):
        rebuild(*state)


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), b"1234", None, 2**70, [1.0]])
def test_a_pickle_whose_values_were_changed_is_refused(array):
    for x in (tensor.ones((2,)), nn.Parameter(tensor.ones((2,)))):
        rebuild, state = parts_of(x)
        state[-2] = array
        with pytest.raises((pickle.UnpicklingError, TypeError)):
            rebuild(*state)


def test_a_pickle_of_integers_that_require_gradients_is_refused():
    rebuild, state = parts_of(tensor.ones((2,)))
    with pytest.raises(pickle.UnpicklingError, match="int64 with requires_grad=True"):
        rebuild(np.ones(2, np.int64), True)
    with pytest.raises(pickle.UnpicklingError, match="requires_grad=1"):
        rebuild(state[0], 1)


def test_a_pickle_of_a_parameter_names_the_kind_of_a_parameter():
    rebuild, state = parts_of(nn.Parameter(tensor.ones((2,))))
    with pytest.raises(pickle.UnpicklingError, match="int"):
        rebuild(int, *state[1:])
