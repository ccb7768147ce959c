"""What an older module holds in its attributes outlives a scope, as with PyTorch's modules."""

from __future__ import annotations

import copy
import gc
import pickle
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

import nn
import tensor
from scopes import current_dispose_scope, new_dispose_scope, statistics
from tensor import Tensor


class Cache(nn.Module):
    """Keeps what `keep` stores in an attribute that the constructor has made."""

    def __init__(self, start: Any = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensor.ones((2,)))
        self.kept = start

    def forward(self, x: Tensor, keep: Callable[[Cache, Tensor], None]) -> Tensor:
        y = x * self.weight
        keep(self, y)
        return y


class Holder:
    """An object of the user's own."""

    def __init__(self) -> None:
        self.items: list[Tensor] = []


def assign(module: Cache, y: Tensor) -> None:
    module.late = y.detach()


# The attribute at the start, what `forward` does with its detached result, and how to read that.
WAYS: dict[str, tuple[Callable[[], Any], Callable[[Any, Tensor], Any], Callable[[Any], Tensor]]] = {
    "list": (list, lambda kept, y: kept.append(y), lambda kept: kept[0]),
    "dict": (dict, lambda kept, y: kept.update(a=y), lambda kept: kept["a"]),
    "set": (set, lambda kept, y: kept.add(y), lambda kept: next(iter(kept))),
    "deque": (deque, lambda kept, y: kept.append(y), lambda kept: kept[0]),
    "ordered dict": (OrderedDict, lambda kept, y: kept.update(a=y), lambda kept: kept["a"]),
    "default dict": (lambda: defaultdict(list), lambda kept, y: kept[1].append(y), lambda kept: kept[1][0]),
    "dict of lists": (lambda: {"a": []}, lambda kept, y: kept["a"].append(y), lambda kept: kept["a"][0]),
    "list of tuples": (list, lambda kept, y: kept.append((1, y)), lambda kept: kept[0][1]),
    "tuples in tuples": (
        list,
        lambda kept, y: kept.append((((1, (y,)),),)),
        lambda kept: kept[0][0][0][1][0],
    ),
    "tuple of lists": (lambda: ([], 1), lambda kept, y: kept[0].append(y), lambda kept: kept[0][0]),
    "sets in sets": (
        lambda: {frozenset({1}), frozenset({2})},
        lambda kept, y: kept.update({frozenset({frozenset({3}), frozenset({y})}), frozenset({4})}),
        lambda kept: next(
            x for a in kept for b in a if type(b) is frozenset for x in b if type(x) is not int
        ),
    ),
    "list with itself": (
        lambda: [[]],
        lambda kept, y: (kept.append(kept), kept[0].append(y)),
        lambda kept: kept[0][0],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_container_of_an_older_module_keeps_a_tensor(way: str) -> None:
    start, put, read = WAYS[way]
    model = Cache(start())
    with new_dispose_scope():
        y = model(tensor.ones((2,)), lambda module, y: put(module.kept, y.detach()))
    assert y.is_invalid
    assert read(model.kept).tolist() == [1.0, 1.0]


def test_an_attribute_that_forward_sets_keeps_a_tensor() -> None:
    model = Cache()
    for _ in range(3):
        with new_dispose_scope():
            model(tensor.ones((2,)), assign)
        assert model.late.tolist() == [1.0, 1.0]


def test_an_attribute_of_a_submodule_keeps_a_tensor() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Cache([]))
    with new_dispose_scope():
        model[1].kept.append(model[0](tensor.ones((1, 2))).detach())
    assert not model[1].kept[0].is_invalid


def test_a_cached_property_keeps_a_tensor() -> None:
    class Masked(nn.Module):
        @cached_property
        def mask(self) -> Tensor:
            return tensor.ones((2, 2)).tril()

    model = Masked()
    with new_dispose_scope():
        model.mask.sum()
    assert model.mask.tolist() == [[1.0, 0.0], [1.0, 1.0]]


def test_a_kept_tensor_goes_to_the_outer_scope_and_no_counter_moves() -> None:
    with new_dispose_scope() as outer:
        model = Cache([])
        before = statistics.snapshot()
        with new_dispose_scope():
            x = model.weight.detach()
            model.kept.append(x)
        assert model.kept[0].owning_dispose_scope is outer
        used = statistics.snapshot() - before
        assert (used.created_in_scope_count, used.detached_from_scope_count, used.live_count) == (1, 0, 1)
    # The module is not older than the outer scope.
    assert x.is_invalid


def test_a_kept_tensor_of_the_outermost_scope_counts_as_detached() -> None:
    model = Cache([])
    before = statistics.snapshot()
    with new_dispose_scope():
        model.kept.append(tensor.ones((2,)))
        tensor.ones((3,))
    used = statistics.snapshot() - before
    assert used.created_in_scope_count == 2
    assert used.detached_from_scope_count == 1
    assert used.live_count == 1
    model.kept.clear()
    used = statistics.snapshot() - before
    assert (used.live_count, used.finalized_count) == (0, 2)


def test_an_older_module_keeps_beyond_all_scopes_that_began_after_it() -> None:
    model = Cache([])
    with new_dispose_scope(), new_dispose_scope(), new_dispose_scope():
        model.kept.append(tensor.ones((2,)))
    assert not model.kept[0].is_invalid
    assert model.kept[0].owning_dispose_scope is None


def test_a_module_made_in_the_block_keeps_only_what_is_registered() -> None:
    with new_dispose_scope():
        model = Cache([])
        model.kept.append(tensor.ones((2,)))
        model.late = tensor.ones((2,))
        model.register_buffer("table", tensor.ones((2,)))
    assert model.kept[0].is_invalid
    assert model.late.is_invalid
    assert not model.weight.is_invalid
    assert not model.table.is_invalid


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_as_old_as_the_copying(copied: Callable[[Any], Any]) -> None:
    model = Cache({"a": []})
    old = copied(model)
    with new_dispose_scope():
        new = copied(model)
        for each in (old, new):
            each.kept = {"b": tensor.ones((2,))}
    assert not old.kept["b"].is_invalid
    assert new.kept["b"].is_invalid


def test_a_copy_from_before_the_block_keeps_in_the_containers_that_it_was_copied_with() -> None:
    model = copy.deepcopy(Cache({"a": []}))
    with new_dispose_scope():
        model.kept["a"].append(tensor.ones((2,)))
    assert not model.kept["a"][0].is_invalid


def test_a_tensor_with_a_graph_ends_with_its_step() -> None:
    model = Cache([])
    with new_dispose_scope():
        model(tensor.ones((2,)), lambda module, y: module.kept.append(y))
    assert model.kept[0].is_invalid


def test_objects_of_the_user_in_a_module_keep_nothing() -> None:
    model = Cache(Holder())
    with new_dispose_scope():
        model(tensor.ones((2,)), lambda module, y: module.kept.items.append(y.detach()))
    assert model.kept.items[0].is_invalid


def test_a_list_of_the_user_keeps_nothing() -> None:
    Cache([])
    mine = []
    with new_dispose_scope():
        mine.append(tensor.ones((2,)))
    assert mine[0].is_invalid


def test_what_the_user_attached_ends_with_its_scope() -> None:
    model = Cache([])
    with new_dispose_scope() as scope:
        x = tensor.ones((2,))
        model.kept += [scope.attach(x), tensor.ones((2,))]
    assert [each.is_invalid for each in model.kept] == [True, False]
    free = tensor.ones((2,))
    with new_dispose_scope() as scope:
        model.kept[:] = [scope.attach(free)]
        with new_dispose_scope():
            free.detach_from_dispose_scope()
    assert not free.is_invalid


def test_a_module_that_the_scope_ends_or_that_was_disposed_keeps_nothing() -> None:
    attached, disposed = Cache([]), Cache([])
    with new_dispose_scope() as scope:
        scope.attach(attached)
        x, y = tensor.ones((2,)), tensor.ones((2,))
        attached.kept.append(x)
        disposed.kept.append(y)
        disposed.dispose()
    assert x.is_invalid
    assert y.is_invalid


def test_a_module_that_is_gone_keeps_nothing() -> None:
    model = Cache([])
    with new_dispose_scope():
        kept = model.kept
        kept.append(tensor.ones((2,)))
        del model
        gc.collect()
    assert kept[0].is_invalid


def test_dispose_everything_leaves_what_a_module_keeps() -> None:
    model = Cache([])
    with new_dispose_scope() as scope:
        model.kept.append(tensor.ones((2,)))
        x, y = tensor.ones((2,)), tensor.ones((2,))
        model.kept.append(y)
        scope.dispose_everything_but(y)
        assert x.is_invalid
        assert y in scope
        assert not model.kept[0].is_invalid
        assert model.kept[0] not in scope


def test_a_kept_tensor_is_in_the_limit_of_the_outer_scope() -> None:
    model = Cache([])
    with new_dispose_scope(max_members=3) as outer:
        with new_dispose_scope():
            model.kept.append(tensor.ones((2,)))
        assert len(outer) == 1
        assert current_dispose_scope() is outer
    assert not model.kept[0].is_invalid


def test_a_parameter_in_a_list_keeps_beyond_the_scope() -> None:
    model = Cache([])
    with new_dispose_scope():
        model.kept.append(nn.Parameter(tensor.ones((2,))))
    assert not model.kept[0].is_invalid


def test_many_modules_come_and_go_without_a_trace() -> None:
    before = statistics.live_count
    for _ in range(200):
        model = Cache([])
        with new_dispose_scope():
            model.kept.append(tensor.ones((2,)))
    del model
    gc.collect()
    assert statistics.live_count == before
