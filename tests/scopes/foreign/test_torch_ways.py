"""A table of ways to keep a tensor over a scope: a library's all keep it, the user's own do not."""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scopes import new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch import keepers  # noqa: E402

both = pytest.mark.parametrize("exact", [False, True], ids=["functions", "operators"])

SOURCE = (Path(__file__).parent / "torch_ways.py").read_text()
WAYS = sorted(set(re.findall(r"^(?:def )?keep_(\w+)", SOURCE, re.MULTILINE)))
KEEPERS = sorted(re.findall(r"^def keeper_keep_(\w+)", SOURCE, re.MULTILINE))
RUNNING = ["call_back", "call_back_from_a_list", "call_back_from_a_cell", "call_back_from_a_generator"]
# Python's own structures hold these, or objects that the collector does not see. So they stay.
UNSEEN = {
    "in_a_finalizer",
    "in_a_module_made_in_code",
    "in_an_array_of_objects",
    "in_a_local_of_the_thread",
    "in_a_context_variable",
    "behind_a_pointer",
}


def is_disposed(x: Any) -> bool:
    return bool(getattr(x, "is_invalid", False))


def copied(folder: Path, name: str) -> Any:
    (folder / f"{name}.py").write_text(SOURCE)
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keepers, "_INSTALLED", (*keepers._INSTALLED, f"{folder}{os.sep}"))
        patched.syspath_prepend(folder)
        yield copied(folder, "ways_of_a_library")
        sys.modules.pop("ways_of_a_library", None)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("users")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        yield copied(folder, "ways_of_the_user")
        sys.modules.pop("ways_of_the_user", None)


def test_ways_that_are_not_seen_are_in_the_table() -> None:
    assert set(WAYS) > UNSEEN
    assert KEEPERS


@both
@pytest.mark.parametrize("way", [*WAYS, *KEEPERS])
def test_what_a_library_keeps_outlives_the_scope(way: str, exact: bool, library: Any) -> None:
    keep = getattr(library, f"keep_{way}", None) or getattr(library, f"keeper_keep_{way}")
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        keep(torch.ones(2))
        x = torch.ones(2)
    assert getattr(library, f"get_{way}")().tolist() == [1.0, 1.0]
    assert is_disposed(x)


@both
@pytest.mark.parametrize("way", sorted(set(WAYS) - UNSEEN))
def test_what_the_users_own_code_keeps_ends_with_the_scope(way: str, exact: bool, users: Any) -> None:
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        getattr(users, f"keep_{way}")(torch.ones(2))
    assert is_disposed(getattr(users, f"get_{way}")())


@both
@pytest.mark.parametrize("way", RUNNING)
def test_a_running_function_of_a_library_keeps_its_locals(
    way: str, exact: bool, library: Any, users: Any
) -> None:
    for module in (library, users):
        with scopes.torch.owning(exact=exact):
            scope = new_dispose_scope()
            x = getattr(module, way)(lambda: torch.ones(2), scope.dispose)
        assert is_disposed(x) == (module is users)


@both
@pytest.mark.parametrize("way", ["finish_with_an_argument", "finish_with_a_list"])
def test_a_running_function_of_a_library_keeps_its_arguments(
    way: str, exact: bool, library: Any, users: Any
) -> None:
    for module in (library, users):
        with scopes.torch.owning(exact=exact):
            scope = new_dispose_scope()
            x = torch.ones(2)
            getattr(module, way)(x, scope.dispose)
        assert is_disposed(x) == (module is users)


@both
def test_a_running_function_of_a_library_keeps_what_a_list_of_its_caller_holds(
    exact: bool, library: Any, users: Any
) -> None:
    for module in (library, users):
        with scopes.torch.owning(exact=exact):
            scope = new_dispose_scope()
            items = [torch.ones(2)]
            module.finish_with_its_list(items, scope.dispose)
        assert is_disposed(items[0]) == (module is users)


@both
def test_an_argument_of_a_compiled_function_that_runs_stays(exact: bool) -> None:
    class Key:
        def __hash__(self) -> int:
            scope.dispose()
            return 0

    with scopes.torch.owning(exact=exact):
        scope = new_dispose_scope()
        x = torch.ones(2)
        found = dict[Any, Any]().get(Key(), x)
        del x
    assert not is_disposed(found)


@pytest.mark.parametrize(
    ("way", "holder"),
    [
        ("in_a_global_made_later", "MADE_LATER"),
        ("in_a_class_attribute", "Registry.last"),
        ("in_an_attribute_of_a_function", "keep_in_an_attribute_of_a_function().x"),
        ("in_an_ordered_dict", "ORDERED"),
        ("in_an_array_of_objects", "an unknown holder"),
    ],
)
def test_the_report_names_what_keeps_a_tensor_also_the_second_time(
    way: str, holder: str, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "_searches", itertools.count())
    gc.unfreeze()  # tests run with older objects frozen, and the search for names does not see those
    for turn in ("first", "second"):
        name = f"{turn}, {way}"
        with scopes.torch.owning(), new_dispose_scope(name):
            getattr(library, f"keep_{way}")(torch.ones(2))
        (row,) = scopes.torch.kept(name).rows
        assert row.holder.endswith(holder)


def test_the_report_names_the_running_function_that_keeps_a_tensor(library: Any) -> None:
    with scopes.torch.owning():
        scope = new_dispose_scope("called back")
        library.call_back(lambda: torch.ones(2), scope.dispose)
    (row,) = scopes.torch.kept("called back").rows
    assert row.holder == "call_back(), which runs"


@both
def test_a_local_that_a_block_returns_stays(exact: bool) -> None:
    def make() -> Any:
        with new_dispose_scope():
            local = torch.ones(2)
            local.add_(1.0)
            return local

    with scopes.torch.owning(exact=exact):
        x = make()
    assert x.tolist() == [2.0, 2.0]


@both
def test_the_items_of_a_list_that_a_block_returns_stay(exact: bool) -> None:
    def make() -> Any:
        with new_dispose_scope():
            items = [torch.ones(2)]
            other = torch.ones(2)
            ended.append(other)
            return items

    ended: list[Any] = []
    with scopes.torch.owning(exact=exact):
        (x,) = make()
    assert x.tolist() == [1.0, 1.0]
    assert is_disposed(ended[0])


def steps_with_scopes() -> Iterator[list[Any]]:
    with new_dispose_scope():
        items = [torch.ones(2)]
        yield items
    scope = new_dispose_scope()
    items = [torch.ones(2)]
    yield items
    end_scope(scope)


def end_scope(scope: Any) -> None:
    scope.dispose()


@both
def test_what_the_locals_of_a_running_generator_hold_ends(exact: bool) -> None:
    made = []
    with scopes.torch.owning(exact=exact):
        generator = steps_with_scopes()
        for (x,) in generator:
            made.append(x)
    assert [is_disposed(x) for x in made] == [True, True]


@both
def test_what_a_compiled_function_collects_from_a_running_generator_stays(exact: bool) -> None:
    with scopes.torch.owning(exact=exact):
        generator = steps_with_scopes()
        made = list(generator)
    assert [is_disposed(x) for (x,) in made] == [False, False]


@both
def test_what_the_locals_of_a_running_coroutine_hold_ends(exact: bool) -> None:
    async def make() -> list[Any]:
        with new_dispose_scope():
            items = [torch.ones(2)]
            await asyncio.sleep(0)
        return items

    async def make_both() -> list[list[Any]]:
        return list(await asyncio.gather(make(), make()))

    with scopes.torch.owning(exact=exact):
        made = asyncio.run(make_both())
    assert [is_disposed(x) for (x,) in made] == [True, True]


def test_what_a_block_returns_stays() -> None:
    def make() -> Any:
        with new_dispose_scope():
            local = torch.ones(2)
            return local, local * 2

    with scopes.torch.owning():
        first, second = make()
    assert first.tolist() == [1.0, 1.0]
    assert second.tolist() == [2.0, 2.0]
