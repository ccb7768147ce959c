"""Every index of up to four parts reads, writes and passes gradients as in PyTorch."""

from __future__ import annotations

import math
from itertools import chain, product
from typing import Any

import numpy as np
import pytest

import tensor

torch = pytest.importorskip("torch")

SHAPE = (2, 2, 2, 2, 2)


def parts(library: Any) -> dict[str, Any]:
    """Return the parts of indices, with the tensors of `library`."""
    return {
        "1": 1,
        "-1": -1,
        "0-d": library.tensor(1),
        ":1": slice(0, 1),
        ":": slice(None),
        "list": [0, 1],
        "1-d": library.tensor([1, 0]),
        "2-d": library.tensor([[1], [0]]),
        "mask": library.tensor([True, True]),
        "2-d mask": library.tensor([[True, False], [False, True]]),
        "True": True,
        "None": None,
        "...": ...,
    }


def is_defined(names: tuple[str, ...]) -> bool:
    """Return whether PyTorch defines the index.

    For a part after a second ellipsis, PyTorch reads sizes beyond the last dimension.
    """
    seen = [place for place, name in enumerate(names) if name == "..."]
    return len(seen) < 2 or set(names[seen[1] :]) == {"..."}


OURS, THEIRS = parts(tensor), parts(torch)
KEYS = list(filter(is_defined, chain.from_iterable(product(OURS, repeat=count) for count in range(1, 5))))


def read(library: Any, key: tuple[Any, ...]) -> Any:
    """Return the shape and the values at `key`, or None if it is an error."""
    x = library.arange(32).reshape(SHAPE)
    try:
        found = x[key]
    except (IndexError, RuntimeError):
        return None
    return tuple(found.shape), found.tolist()


def written(library: Any, key: tuple[Any, ...], shape: tuple[int, ...]) -> list[Any]:
    """Return all values after a write of other values to each element at `key`."""
    x = library.arange(32).reshape(SHAPE)
    x[key] = library.arange(100, 100 + math.prod(shape)).reshape(shape)
    return x.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("first", OURS)
def test_every_index_reads_and_writes_what_pytorch_does(first):
    for names in KEYS:
        if names[0] != first:
            continue
        ours, theirs = tuple(OURS[name] for name in names), tuple(THEIRS[name] for name in names)
        expected = read(torch, theirs)
        assert read(tensor, ours) == expected, names
        if expected is not None:
            shape = expected[0]
            assert written(tensor, ours, shape) == written(torch, theirs, shape), names


def gradients(library: Any, key: tuple[Any, ...]) -> list[Any]:
    """Return the gradients of a tensor that `key` reads, and of one that it writes and of the value."""
    x = library.ones(SHAPE, requires_grad=True)
    y = x[key]
    y.backward(library.arange(1.0, 1.0 + math.prod(y.shape)).reshape(tuple(y.shape)))
    z = library.ones(SHAPE, requires_grad=True)
    value = library.ones(tuple(y.shape), requires_grad=True)
    copy = z * 1
    copy[key] = value
    copy.backward(library.arange(32.0).reshape(SHAPE))
    return [x.grad.tolist(), z.grad.tolist(), value.grad.tolist()]


def test_gradients_of_indices_are_pytorchs():
    random = np.random.default_rng(0)
    compared = 0
    for place in random.permutation(len(KEYS))[:600]:
        names = KEYS[place]
        ours, theirs = tuple(OURS[name] for name in names), tuple(THEIRS[name] for name in names)
        # Two elements that one write selects twice get the last value, in an order that PyTorch leaves open.
        if read(torch, theirs) is not None and is_defined_write(theirs):
            assert gradients(tensor, ours) == gradients(torch, theirs), names
            compared += 1
    assert compared > 300


def is_defined_write(key: tuple[Any, ...]) -> bool:
    """Return whether `key` selects no element twice."""
    places = torch.arange(32).reshape(SHAPE)[key].flatten().tolist()
    return len(set(places)) == len(places)


def test_an_integer_apart_from_a_list_leaves_the_lists_dimension_in_its_place():
    x = tensor.arange(24).reshape(2, 3, 4)
    assert x[0, :, [0, 1]].tolist() == [[0, 1], [4, 5], [8, 9]]
    x[0, :, [0, 1]] = tensor.tensor([[-1, -2], [-3, -4], [-5, -6]])
    assert x[0, :, :2].tolist() == [[-1, -2], [-3, -4], [-5, -6]]
