"""Searches for what leads to objects keep none of them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import ModuleType

import pytest

import scopes
import tensor
from scopes.reports.history import History
from scopes.tracking.ancestors import Referrers


class Thing:
    """An object that can be held."""


def test_searches_on_several_threads_keep_nothing_without_the_collector() -> None:
    things = [Thing() for _ in range(50)]
    weak = [weakref.ref(thing) for thing in things]

    def search() -> None:
        for _ in range(4):
            Referrers(things, set()).objects.clear()

    interval = sys.getswitchinterval()
    gc.collect()
    gc.disable()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=search) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        things.clear()
        assert [ref for ref in weak if ref() is not None] == []
    finally:
        sys.setswitchinterval(interval)
        gc.enable()


def test_the_search_ends_at_classes_and_modules() -> None:
    of_class, of_module, of_nothing = Thing(), Thing(), Thing()
    made = ModuleType("made")
    made.kept = of_module  # type: ignore[attr-defined]
    holder = type("Holder", (), {"kept": of_class})
    found = Referrers([of_class, of_module, of_nothing], set())
    assert found.has(holder)
    assert not any(isinstance(x, type | ModuleType) for x in found.objects.values())
    named = found.with_names()
    assert [id(x) in named for x in (of_class, of_module)] == [True, True]
    assert [found.ends_of(x) for x in (of_class, of_module, of_nothing)] == [[], [], [of_nothing]]


RUNNING_CALL = """
import scopes
from tests.things import Thing
def make(number):
    if number == 10:
        holders.extend([row.holder for row in scopes.leaks().rows])
    return Thing()
holders = []
with scopes.track():
    kept = [make(number) for number in range(11)]
print(holders)
"""


def test_a_list_that_a_running_call_builds_is_no_reference_cycle() -> None:
    """No name leads to the list of a comprehension, and the search itself holds what it has found.

    The process is a new one: among the objects of many tests the search may end before it has seen all.
    """
    command = [sys.executable, "-c", RUNNING_CALL]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "['no name of yours (list)']\n"


@pytest.mark.usefixtures("fast_thread_switches")
def test_another_thread_can_build_tuples_during_a_search() -> None:
    class Node:
        me: Node
        tensors: list[tensor.Tensor]

    errors: list[SystemError] = []
    has_ended = threading.Event()

    def build() -> None:
        try:
            while not has_ended.is_set():
                tuple(str(n) for n in range(200))
        except SystemError as error:
            errors.append(error)

    thread = threading.Thread(target=build)
    gc.unfreeze()  # tests run with older objects frozen, and the search does not see what leads through those
    gc.disable()  # the cycle stays, and no name leads to it
    try:
        with scopes.track():
            history = History()
            history.begin()
            node = Node()
            node.me, node.tensors = node, [tensor.ones((10,)) for _ in range(5)]
            del node
            thread.start()
            found = [history.look(with_all_holders=True).rows[0].holder for _ in range(20)]
    finally:
        has_ended.set()
        thread.join()
        gc.enable()
    assert not errors
    assert set(found) == {"a reference cycle: Node.me"}


MANY_FROZEN_OBJECTS = """
import gc
import scopes
import tensor
many = [[number] for number in range(150_000)]
class Node: pass
older = [Node()]
gc.freeze()
gc.disable()
with scopes.track():
    node = Node()
    node.me, node.tensors = node, [tensor.ones(2) for _ in range(5)]
    del node
    older[0].tensors = [tensor.ones(2) for _ in range(4)]
    print([row.holder for row in scopes.leaks().rows])
"""


def test_a_search_among_many_frozen_objects_names_holders_and_cycles() -> None:
    """The collector does not show what leads to objects through frozen ones, such as `older` and its node.

    The first search ends early among the many objects, so a second one follows all references.
    """
    command = [sys.executable, "-c", MANY_FROZEN_OBJECTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "['a reference cycle: Node.me', 'older[0].tensors[...], a global']\n"
