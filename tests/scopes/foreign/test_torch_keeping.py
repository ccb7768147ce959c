"""A scope ends what its block made, but for what an older object keeps."""

from __future__ import annotations

import functools
import gc
import importlib
import operator
import os
import subprocess
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import scopes
from scopes import TensorDisposedError, new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch import keepers  # noqa: E402
from scopes.lowlevel import owner_of  # noqa: E402

both = pytest.mark.parametrize("exact", [False, True], ids=["functions", "operators"])

LIBRARY = """
import torch

last = None
tables = {}


class Cache:
    def __init__(self):
        self.layers = []

    def update(self, x):
        self.layers.append(Layer(x))


class Layer:
    __slots__ = ("keys", "__weakref__")

    def __init__(self, keys):
        self.keys = keys


class Name(str):
    # It can hold more than its letters.
    pass


class Names:
    # It has many names, and places for tensors among them.

    def __init__(self, count):
        self.table = {f"name {n}": (f"class {n}", None) for n in range(count)}
        self.table["places"] = {"first": None}
        self.table["more"] = []
        self.table["deeper"] = {"state": {"step": 0}}


def remember(x):
    global last
    last = x


def one_ahead(count):
    following = torch.zeros(1)
    for n in range(1, count):
        current, following = following, torch.full((1,), n)
        yield current
    yield following


def table():
    if "table" not in tables:
        tables["table"] = torch.arange(3)
    return tables["table"]
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a package that is installed, as far as its folder tells."""
    folder: Path = tmp_path_factory.mktemp("installed")
    (folder / "keeping_library.py").write_text(LIBRARY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keepers, "_INSTALLED", (*keepers._INSTALLED, f"{folder}{os.sep}"))
        patched.syspath_prepend(folder)
        yield importlib.import_module("keeping_library")
        sys.modules.pop("keeping_library", None)


class Metric(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []
        self.state: dict[str, Any] = {}

    def update(self, x: Any) -> None:
        self.values.append(x)
        self.state["last"] = [x]


def is_disposed(x: Any) -> bool:
    return bool(getattr(x, "is_invalid", False))


@both
def test_lists_and_dicts_of_a_module_keep_what_has_no_graph(exact: bool) -> None:
    metric = Metric()
    weight = torch.ones(2, requires_grad=True)
    with scopes.torch.owning(exact=exact):
        for i in range(3):
            with new_dispose_scope():
                metric.update(torch.full((2,), float(i)))
        with new_dispose_scope():
            metric.update(weight * 2)
    assert torch.cat(metric.values[:3]).tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    with pytest.raises(TensorDisposedError, match=r"move_to_outer\(x\)"):
        metric.values[3].sum()


@both
def test_a_list_and_an_object_of_the_users_keep_nothing(exact: bool) -> None:
    class History:
        def __init__(self) -> None:
            self.best: Any = None

    losses, history = [], History()
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        losses.append(torch.ones(2))
        history.best = torch.ones(2)
    assert is_disposed(losses[0])
    assert is_disposed(history.best)


class Lookahead(torch.optim.SGD):  # type: ignore[misc, name-defined]
    """Writes state and parameter groups after the base class's step."""

    def step(self, closure: Any = None) -> Any:
        result = super().step(closure)
        for group in self.param_groups:
            group["mean"] = torch.zeros(1) if "mean" not in group else group["mean"] + 1
            for x in group["params"]:
                slow = self.state[x].setdefault("slow", [x.detach().clone()])
                slow[0] = slow[0] * 0.5 + x.detach() * 0.5
        return result


@both
def test_what_a_subclass_of_an_optimizer_writes_outlives_the_step(exact: bool) -> None:
    def train(*, owned: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        optimizer = Lookahead(model.parameters(), lr=0.1)
        for _ in range(3):
            if owned:
                with scopes.torch.owning(exact=exact), new_dispose_scope():
                    model(torch.ones(1, 2)).sum().backward()
                    optimizer.step()
            else:
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        (group,) = optimizer.param_groups
        slow = optimizer.state[model.weight]["slow"][0]
        return [*slow.flatten().tolist(), *group["mean"].tolist()]

    assert train(owned=True) == train(owned=False)


class Caching(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        self.cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        if i not in self.cache:
            self.cache[i] = torch.full((2,), float(i))
        return self.cache[i]


@both
@pytest.mark.parametrize("batch_size", [2, None])
def test_a_data_set_keeps_its_cache(exact: bool, batch_size: int | None) -> None:
    loader = torch.utils.data.DataLoader(Caching(), batch_size=batch_size)
    for _ in range(2):
        with scopes.torch.owning(exact=exact):
            batches = iter(loader)
            for _ in range(len(loader)):
                with new_dispose_scope() as scope:
                    batch = next(batches)
                    assert batch in scope or batch_size is None
    assert [x.tolist() for x in loader.dataset.cache.values()] == [[float(i)] * 2 for i in range(4)]


class CachingItems:
    """A data set that is no subclass of PyTorch's."""

    def __init__(self) -> None:
        self.cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return 4

    __getitem__ = Caching.__getitem__


@both
def test_a_data_set_of_any_class_keeps_its_cache(exact: bool) -> None:
    data = CachingItems()  # also a local of the user's function
    loader = torch.utils.data.DataLoader(data, batch_size=None)
    for _ in range(2):
        with scopes.torch.owning(exact=exact):
            batches = iter(loader)
            for _ in range(len(loader)):
                with new_dispose_scope():
                    next(batches)
    assert [x.tolist() for x in loader.dataset.cache.values()] == [[float(i)] * 2 for i in range(4)]


@both
@pytest.mark.parametrize("batch_size", [2, None])
def test_samples_that_are_older_than_their_loader_stay(exact: bool, batch_size: int | None) -> None:
    samples = [torch.full((2,), float(i)) for i in range(4)]
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        for batch in torch.utils.data.DataLoader(samples, batch_size, collate_fn=lambda given: given):
            assert not any(x in scope for x in (batch if batch_size else [batch]))
    assert [x.tolist() for x in samples] == [[float(i)] * 2 for i in range(4)]


class TensorSampler(torch.utils.data.Sampler):  # type: ignore[misc, name-defined]
    """Keeps a tensor while the loader iterates."""

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Any:
        return iter(torch.arange(8))


@both
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_an_iteration_that_begins_in_a_scope_goes_on_in_later_ones(exact: bool, workers: int) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, sampler=TensorSampler(), num_workers=workers)
    batches: Any = iter(())
    seen = []
    with scopes.torch.owning(exact=exact):
        for _ in range(12):
            with new_dispose_scope() as scope:
                try:
                    (batch,) = next(batches)
                except StopIteration:
                    batches = iter(loader)
                    (batch,) = next(batches)
                assert batch in scope
                seen.append(batch.item())
    assert seen == [float(i % 8) for i in range(12)]


FREEZING = """
import gc

import torch

import scopes.torch
from scopes import new_dispose_scope


def train(model, optimizer):
    for _ in range(2):
        with scopes.torch.owning(), new_dispose_scope():
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()


models = [torch.nn.Linear(2, 1) for _ in range(2)]
optimizers = [torch.optim.Adam(model.parameters()) for model in models]
gc.freeze()
count = gc.get_freeze_count()
train(models[0], optimizers[0])
assert count / 2 < gc.get_freeze_count()
train(models[1], optimizers[1])
later = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(later.parameters())
gc.freeze()
train(later, optimizer)
gc.unfreeze()
train(later, optimizer)
print(gc.freeze.__name__, optimizers[1].state[models[1].weight]["step"].item())
"""


def test_frozen_objects_are_keepers_too() -> None:
    done = subprocess.run([sys.executable, "-c", FREEZING], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "freeze 2.0\n")


FIRST_SEARCH = """
import gc
import weakref

import torch

import scopes.torch

gc.disable()
x = torch.ones(3)
reference = weakref.ref(x)
with scopes.torch.owning():
    pass
del x
print(reference())
"""


def test_the_first_search_for_keepers_keeps_nothing_alive() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_SEARCH], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "None\n")


@both
def test_a_distribution_keeps_what_it_computes_once(exact: bool) -> None:
    older = torch.distributions.MultivariateNormal(torch.zeros(2), precision_matrix=torch.eye(2))
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        first = older.covariance_matrix
        newer = torch.distributions.Categorical(torch.ones(2))
        probabilities = newer.logits
    assert older.covariance_matrix is first
    assert first.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert is_disposed(probabilities)


@both
def test_a_cache_of_a_function_keeps_its_results(exact: bool) -> None:
    @functools.lru_cache
    def table(n: int) -> Any:
        return torch.arange(n)

    with scopes.torch.owning(exact=exact), new_dispose_scope("first"):
        table(3)
    assert table(3).tolist() == [0, 1, 2]
    holders = [row.holder for row in scopes.torch.kept("first").rows]
    assert any(holder.endswith("table()") for holder in holders)


class Places(dict[str, Any]):
    """A dict that may have attributes."""


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("make", [OrderedDict, Places])
def test_an_attribute_of_an_empty_dict_keeps_its_value(exact: bool, make: type) -> None:
    model = torch.nn.Linear(2, 2)
    model.places = make()
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        model.places.first = torch.ones(2)
        newer = make()
        newer.first = torch.ones(2)
    assert model.places.first.tolist() == [1.0, 1.0]
    assert is_disposed(newer.first)


@pytest.mark.parametrize("make", [dict, list, set, OrderedDict])
def test_a_container_that_was_empty_keeps_what_a_module_puts_there(make: type) -> None:
    model = torch.nn.Linear(2, 2)
    model.places = make()
    for n in range(2):  # the first walk meets an empty container
        with scopes.torch.owning(), new_dispose_scope():
            x = torch.full((2,), n)
            if n:
                fill(model.places, x)
    assert x.tolist() == [1.0, 1.0]


def fill(places: Any, x: Any) -> None:
    match places:
        case dict():
            places["first"] = x
        case list():
            places.append(x)
        case set():
            places.add(x)


def test_names_of_constants_are_those_of_classes_and_caches() -> None:
    for name in keepers._CONSTANTS:
        module, _, attribute = name.rpartition(".")
        pytest.importorskip(module.partition(".")[0])
        x = getattr(importlib.import_module(module), attribute)
        assert keepers._holds_constants(x)
        assert not (keepers._verdict_on(x) if isinstance(x, type) else keepers._is_keeper(x))


def test_caches_of_this_package_are_not_searched() -> None:
    assert not keepers._is_keeper(keepers._is_installed_at)


def negative(x: Any) -> Any:
    return -x


@pytest.mark.parametrize(
    ("function", "is_named"),
    [(operator.neg, False), (negative, True), (torch.nn.functional.relu, True)],
    ids=["python's", "the user's", "a library's"],
)
def test_only_caches_of_the_users_and_libraries_functions_are_searched(
    function: Callable[[Any], Any], is_named: bool
) -> None:
    """Python itself caches no tensors, and thousands of other values."""
    cached = functools.cache(function)
    name = f"a cache of {function.__name__}"
    with scopes.torch.owning(), new_dispose_scope(name):
        x = cached(torch.ones(2))
    assert not is_disposed(x)
    holders = {row.holder for row in scopes.torch.kept(name).rows}
    assert (f"the cache of {function.__name__}()" in holders) == is_named


@both
def test_nested_tensors_can_be_made_in_each_of_many_scopes(exact: bool) -> None:
    for _ in range(3):
        with scopes.torch.owning(exact=exact), new_dispose_scope():
            x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
            assert (x * 2).values().tolist() == [2.0] * 5
        assert is_disposed(x)


@both
def test_an_older_object_of_a_library_keeps_what_it_holds(exact: bool, library: Any) -> None:
    cache = library.Cache()
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        cache.update(torch.ones(2))
        newer = library.Cache()
        newer.update(torch.ones(2))
    assert cache.layers[0].keys.tolist() == [1.0, 1.0]
    assert is_disposed(newer.layers[0].keys)


@pytest.mark.parametrize("exact", [False, True])
def test_an_older_generator_of_a_library_keeps_what_it_holds(exact: bool, library: Any) -> None:
    with scopes.torch.owning(exact=exact):
        batches = library.one_ahead(4)
        found = []
        for _ in range(4):
            with new_dispose_scope():
                found.append(next(batches).item())
    assert found == [0, 1, 2, 3]


def test_an_object_of_a_library_keeps_a_graph_also_inside_a_module_of_the_users(library: Any) -> None:
    model = torch.nn.Linear(2, 2)
    holder = Metric()
    holder.cache = library.Cache()
    with scopes.torch.owning(), new_dispose_scope():
        holder.cache.update(model(torch.ones(1, 2)))
    assert not is_disposed(holder.cache.layers[0].keys)


@pytest.mark.parametrize("count", [10, 200])
def test_a_large_table_of_a_library_keeps_a_tensor_at_any_depth(library: Any, count: int) -> None:
    names = library.Names(count)
    with scopes.torch.owning():
        for _ in range(3):
            with new_dispose_scope():
                x = torch.ones(1)
        with new_dispose_scope():
            names.table["places"]["first"] = torch.ones(1)
            names.table["more"].append([torch.ones(1)])
            names.table["name 5"] = torch.ones(1)
            names.table["deeper"]["state"]["step"] = torch.ones(1)
            names.table["deeper"]["state"]["mean"] = torch.ones(1)
        with new_dispose_scope():
            names.table["name 6"] = ("class 6", torch.ones(1))
    assert is_disposed(x)
    kept = [names.table["places"]["first"], names.table["more"][0][0], names.table["name 5"]]
    kept += [names.table["name 6"][1], *names.table["deeper"]["state"].values()]
    assert [x.tolist() for x in kept] == [[1.0]] * 6


def test_a_large_list_of_a_data_set_keeps_what_replaces_an_item() -> None:
    data = Caching()
    data.items = [(f"file {n}", n) for n in range(1000)]
    with scopes.torch.owning():
        for n in (3, 500, 999):
            with new_dispose_scope():
                x = torch.ones(1)
            with new_dispose_scope():
                data.items[n] = (torch.ones(1), n)
    assert is_disposed(x)
    assert [data.items[n][0].item() for n in (3, 500, 999)] == [1.0, 1.0, 1.0]


def test_a_cache_of_a_function_with_many_results_keeps_new_ones() -> None:
    @functools.cache
    def table(n: int) -> Any:
        return None if n < 200 else torch.arange(3)

    for n in range(200):
        table(n)
    with scopes.torch.owning():
        for n in (199, 200, 201):
            with new_dispose_scope():
                x = torch.ones(1)
                table(n)
    assert is_disposed(x)
    assert table(200).tolist() == table(201).tolist() == [0, 1, 2]


def test_a_tensor_among_strings_and_numbers_that_earlier_walks_met_is_kept(library: Any) -> None:
    holder = library.Cache()
    names = {f"part {n}" for n in range(2000)}
    holder.layers = [names, frozenset({"a", "b"}), ("c", 1.5, None), [2**40, b"d", 1j], {"key": ["e", ...]}]
    with scopes.torch.owning():
        for _ in range(3):
            with new_dispose_scope():
                x = torch.ones(1)
                library.remember(torch.ones(1))  # a walk looks for what holds this
        assert names <= set(keepers.KEEPERS.leaves())
        with new_dispose_scope():
            names.remove("part 7")
            names.add(torch.full((1,), 1.0))
            holder.layers[1] = frozenset({"a", torch.full((1,), 2.0)})
            holder.layers[2] = ("c", torch.full((1,), 3.0), None)
            holder.layers[3][0] = torch.full((1,), 4.0)
            holder.layers[4]["key"][1] = torch.full((1,), 5.0)
            inside = library.Name("part")
            inside.table = torch.full((1,), 6.0)
            holder.layers[4]["name"] = inside
    assert is_disposed(x)
    (first,) = (each for each in names if type(each) is torch.Tensor)
    (second,) = holder.layers[1] - {"a"}
    kept = [first, second, holder.layers[2][1], holder.layers[3][0], holder.layers[4]["key"][1], inside.table]
    assert [x.item() for x in kept] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_walks_remember_only_small_objects_of_pythons_own_classes(library: Any) -> None:
    class Count(int):
        pass

    holder = library.Cache()
    name, count, long = library.Name("a name"), Count(7), "a long text " * 100
    holder.layers = [name, count, long, 10**100, b"bytes " * 100, ["a short name"]]
    with scopes.torch.owning(), new_dispose_scope():
        x = torch.ones(1)
        library.remember(torch.ones(1))
    leaves = keepers.KEEPERS.leaves()
    assert {type(each) for each in leaves} <= {
        str,
        bytes,
        int,
        float,
        complex,
        bool,
        type(None),
        type(...),
    } | {type(NotImplemented)}
    assert "a short name" in leaves
    assert not {long, 10**100, b"bytes " * 100} & set(leaves)
    assert is_disposed(x)
    gone = weakref.ref(name)
    del name, leaves
    holder.layers.clear()
    assert gone() is None


def test_walks_remember_a_bounded_number_of_objects_and_forget_them_in_time() -> None:
    data = Caching()
    data.items = [f"file {n}" for n in range(120_000)]
    with scopes.torch.owning():
        with new_dispose_scope():
            x = torch.ones(1)
            data.cache[0] = torch.ones(1)
        leaves = keepers.KEEPERS.leaves()
        assert 50_000 < len(leaves) <= 100_000
        assert sum(map(sys.getsizeof, leaves)) <= 8 << 20
        del leaves
        data.items = []
        for _ in range(1001):
            with new_dispose_scope():
                x = torch.ones(1)
                data.cache[0] = torch.ones(1)
        assert len(keepers.KEEPERS.leaves()) < 50_000
    assert is_disposed(x)
    keepers.KEEPERS.forget_leaves()
    assert keepers.KEEPERS.leaves() == []


def test_what_an_object_keeps_ends_with_the_scope_that_is_older_than_the_object(library: Any) -> None:
    with scopes.torch.owning(), new_dispose_scope() as outer:
        cache = library.Cache()
        with new_dispose_scope():
            cache.update(torch.ones(2))
        x = cache.layers[0].keys
        assert owner_of(x) is outer
        assert x.tolist() == [1.0, 1.0]
    assert is_disposed(x)


def test_an_object_made_while_the_collector_is_off_or_before_a_collection_is_known(library: Any) -> None:
    with scopes.torch.owning():
        first = library.Cache()
        gc.collect()
        gc.disable()
        try:
            second = library.Cache()
            with new_dispose_scope():
                for cache in (first, second):
                    cache.update(torch.ones(2))
        finally:
            gc.enable()
    for cache in (first, second):
        assert not is_disposed(cache.layers[0].keys)


def test_the_owning_block_may_be_inside_of_the_scope(library: Any) -> None:
    cache = library.Cache()
    with new_dispose_scope(), scopes.torch.owning():
        cache.update(torch.ones(2))
        x = torch.ones(2)
    assert not is_disposed(cache.layers[0].keys)
    assert is_disposed(x)


@both
def test_globals_of_a_library_keep_what_it_puts_there(exact: bool, library: Any) -> None:
    library.last = None
    library.tables.clear()
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        library.remember(torch.ones(2))
        library.table()
    assert library.last.tolist() == [1.0, 1.0]
    assert library.table().tolist() == [0, 1, 2]


def test_a_library_keeps_a_graph_too_and_the_report_says_so(library: Any) -> None:
    cache = library.Cache()
    weight = torch.ones(1000, requires_grad=True)
    with scopes.torch.owning(), new_dispose_scope("prompt"):
        cache.update(weight * 2)
    (row,) = (row for row in scopes.torch.kept("prompt").rows if row.alive)
    assert (row.holder, row.count, row.nbytes) == ("Cache.layers", 1, 4000)
    assert "Cache.layers" in str(scopes.torch.kept("prompt"))
    assert not is_disposed(cache.layers[0].keys)


def test_the_report_names_the_slot_that_keeps_a_tensor(library: Any) -> None:
    layer = library.Layer(None)
    with scopes.torch.owning(), new_dispose_scope("slots"):
        layer.__init__(torch.ones(1000))
    assert not is_disposed(layer.keys)
    (row,) = (row for row in scopes.torch.kept("slots").rows if row.alive)
    assert row.holder == "Layer.keys"


def test_strictly_only_parameters_buffers_and_state_outlive_the_scope() -> None:
    metric = Metric()
    with scopes.torch.owning(strict=True), new_dispose_scope():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
        metric.update(torch.ones(2))
    assert is_disposed(metric.values[0])
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    with scopes.torch.owning(), new_dispose_scope():
        metric.update(torch.ones(2))
    assert not is_disposed(metric.values[1])


def test_attached_tensors_end_even_if_a_module_keeps_them() -> None:
    model = torch.nn.Linear(2, 2)
    with scopes.torch.owning(), new_dispose_scope() as scope:
        scope.attach(model)
    assert is_disposed(model.weight)


def test_dispose_before_the_end_of_the_scope_spares_kept_tensors() -> None:
    metric = Metric()
    with scopes.torch.owning(), new_dispose_scope() as scope:
        metric.update(torch.ones(2))
        x = torch.ones(2)
        scope.dispose_everything()
    assert not is_disposed(metric.values[0])
    assert is_disposed(x)


def test_known_keepers_are_referred_to_weakly(library: Any) -> None:
    cache, model = library.Cache(), torch.nn.Linear(2, 2)
    gone = weakref.ref(cache), weakref.ref(model)
    with scopes.torch.owning(), new_dispose_scope():
        cache.update(model(torch.ones(1, 2)))
    del cache, model
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_report_of_kept_tensors_says_if_there_are_none() -> None:
    assert str(scopes.torch.kept("a scope that never was")) == "no torch tensor outlived its scope"


def test_the_report_counts_on_where_it_takes_no_further_row(library: Any, monkeypatch) -> None:
    cache = library.Cache()
    with scopes.torch.owning(), new_dispose_scope("a full report"):
        cache.update(torch.ones(1))
    (row,) = scopes.torch.kept("a full report").rows
    monkeypatch.setattr("scopes.adapters.torch.keepers._MAX_ENTRIES", 0)
    for name in ("a full report", "one more row"):
        with scopes.torch.owning(), new_dispose_scope(name):
            cache.update(torch.ones(1))
    (again,) = scopes.torch.kept("a full report").rows
    assert (row.count, row.alive) == (1, 1)
    assert (again.count, again.alive) == (2, 2)
    assert not scopes.torch.kept("one more row").rows


def test_a_library_that_loads_its_use_of_pytorch_later_keeps_from_then_on(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "lazy_library", types.ModuleType("lazy_library"))
    assert not keepers._uses_torch("lazy_library")
    inner = types.ModuleType("lazy_library.cache")
    inner.torch = torch
    monkeypatch.setitem(sys.modules, "lazy_library.cache", inner)
    assert keepers._uses_torch("lazy_library")


def test_an_object_of_a_class_without_a_module_keeps_nothing() -> None:
    kind = type("Made", (), {"__module__": None})
    made = kind()
    with scopes.torch.owning(), new_dispose_scope():
        made.x = torch.ones(1)
    assert is_disposed(made.x)


USES_A_LIBRARY = """
import torch

import keeping_library
import scopes.torch
from scopes import new_dispose_scope

cache = keeping_library.Cache()
with scopes.torch.owning(), new_dispose_scope():
    cache.update(torch.ones(1))
print("kept" if type(cache.layers[0].keys) is torch.Tensor else "disposed")
"""


@pytest.mark.parametrize(
    ("way", "result"),
    [
        ("a folder on PYTHONPATH that an installer has filled", "kept"),
        ("such a folder that a .pth file leads to", "kept"),
        ("an editable install", "kept"),
        ("an editable install that imports scopes", "disposed"),
        ("a plain folder", "disposed"),
        ("a plain folder, named as a library", "kept"),
    ],
)
def test_a_library_is_what_an_installer_put_on_the_path_or_what_the_user_names(
    tmp_path: Path, way: str, result: str
) -> None:
    folder, apart = tmp_path / "folder", tmp_path / "apart"
    for each in (folder, apart):
        each.mkdir()
    library = LIBRARY + "import scopes\n" * ("imports scopes" in way)
    (folder / "keeping_library.py").write_text(library, encoding="utf-8")
    path, environment = [folder], {}
    metadata = (apart if "editable" in way else folder) / "keeping_library-1.0.dist-info"
    if "plain" not in way:
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: keeping-library\nVersion: 1.0\n", encoding="utf-8"
        )
        installed = "editable.pth,," if "editable" in way else "keeping_library.py,,"
        (metadata / "RECORD").write_text(
            f"{installed}\nkeeping_library-1.0.dist-info/METADATA,,\n", encoding="utf-8"
        )
    program = USES_A_LIBRARY
    if ".pth" in way or "editable" in way:
        (apart / "editable.pth").write_text(f"{folder}\n", encoding="utf-8")
        path = []
        program = f"import site; site.addsitedir({str(apart)!r})\n{program}"
    if "named" in way:
        environment["DISPOSESCOPE_TORCH_LIBRARIES"] = "another, keeping_library"
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == (result, 0), done.stderr
