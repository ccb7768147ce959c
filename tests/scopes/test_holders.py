"""Who holds an object, told by the path of references from a name of the user's."""

from __future__ import annotations

import gc
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

import scopes
import tensor
from scopes.tracking.holders import MAX_REFERENCES, Effort, holders_of


class Weakly:
    """Some objects, which this does not hold."""

    def __init__(self, *objects: object) -> None:
        self.references = [weakref.ref(x) for x in objects]

    def __len__(self) -> int:
        return len(self.references)

    def __iter__(self) -> Iterator[Any]:
        return (reference() for reference in self.references)


# What a user's module begins with.
BEGINNING = """
import collections, functools, types

class Held:
    pass

class Slotted:
    __slots__ = ("cache",)

class Probe:
    seen = []

"""


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    made = types.ModuleType("users_own_module")
    made.__file__ = "/home/somebody/users_own_module.py"
    made.Weakly = Weakly  # type: ignore[attr-defined]
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


# Test modules are the user's too, and some hold more than a report follows.
ENOUGH = 10 * MAX_REFERENCES


def told(module: types.ModuleType, source: str, most: int = ENOUGH) -> str:
    exec(BEGINNING + textwrap.dedent(source), vars(module))
    wanted: dict[str, Any] = {"key": module.wanted}
    found = holders_of(wanted, Effort(most), in_libraries=False).get("key")
    return "" if found is None else found.text


def looked_for(groups: dict[int, Any]) -> dict[int, str]:
    found = holders_of(groups, Effort(MAX_REFERENCES), in_libraries=False)
    return {key: holder.text for key, holder in found.items() if holder.text}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("kept = Held(); wanted = Weakly(kept)", "kept"),
        ("kept = [Held()]; wanted = Weakly(*kept)", "kept[0]"),
        ("kept = [Held(), Held()]; wanted = Weakly(*kept)", "kept[...]"),
        ("kept = {'a': [Held()]}; wanted = Weakly(kept['a'][0])", "kept['a'][0]"),
        ("kept = collections.deque([Held()]); wanted = Weakly(*kept)", "kept[0]"),
        ("kept = {Held()}; wanted = Weakly(*kept)", "kept{...}"),
        ("kept = [{Held(), Held()}, [Held()]]; wanted = Weakly(*kept[0], *kept[1])", "kept[...][...]"),
        ("kept = types.SimpleNamespace(a={3: Held()}); wanted = Weakly(kept.a[3])", "kept.a[3]"),
        ("kept = functools.partial(print, Held()); wanted = Weakly(kept.args[0])", "kept.args[0]"),
        ("kept = ValueError(Held()); wanted = Weakly(kept.args[0])", "kept.args[0]"),
        ("kept = Slotted(); kept.cache = Held(); wanted = Weakly(kept.cache)", "kept.cache"),
        ("Probe.seen = [Held()]; wanted = Weakly(Probe.seen[0])", "Probe.seen[0]"),
        (
            """
            def look(x=[Held()]): pass
            wanted = Weakly(look.__defaults__[0][0])
            """,
            "look (default of 'x')[0]",
        ),
        (
            """
            def make():
                x = Held()
                return (lambda: x), Weakly(x)
            kept, wanted = make()
            """,
            "kept (closure variable 'x')",
        ),
        (
            """
            def steps():
                x = Held()
                yield Weakly(x)
            kept = steps()
            wanted = next(kept)
            """,
            "kept (local 'x' of steps())",
        ),
        (
            """
            def fail():
                x = Held()
                raise ValueError(Weakly(x))
            try:
                fail()
            except ValueError as error:
                kept, wanted = error, error.args[0]
            """,
            "kept.__traceback__ (local 'x' of fail() in the traceback)",
        ),
        # A notebook's: what a cell showed, by the name that its user knows.
        (
            "Out, In = {12: [Held()]}, []; _12 = _ = Out[12]; wanted = Weakly(Out[12][0])",
            "Out[12][0]",
        ),
    ],
)
def test_the_path_from_a_name_of_the_users(module: types.ModuleType, source: str, expected: str) -> None:
    assert told(module, source) == f"users_own_module.{expected}"


def test_a_search_without_references_hidden_in_c_uses_all_its_effort(module) -> None:
    source = """
    kept = [*([0] * 60_000 for _ in range(10)), [[Held()]]]
    wanted = Weakly(kept[10][0][0])
    """
    assert told(module, source).endswith("kept[10][0][0]")


def test_the_last_error_of_the_interpreter(module: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    source = """
    import sys
    def fail():
        x = Held()
        raise ValueError(Weakly(x))
    try:
        fail()
    except ValueError as error:
        sys.last_value, wanted = error, error.args[0]
    """
    assert told(module, source) == "sys.last_value.__traceback__ (local 'x' of fail() in the traceback)"


def test_a_local_of_a_function_that_runs_on_another_thread(module: types.ModuleType) -> None:
    module.go, module.started = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    source = """
    import threading
    def work():
        global wanted
        mine = [Held()]
        wanted = Weakly(*mine)
        started.set()
        go.wait(60)
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    started.wait(60)
    """
    try:
        assert told(module, source) == "mine[0], a local of work() in thread 'worker'"
    finally:
        module.go.set()
        module.thread.join()


def test_search_for_holders_keeps_no_local_of_a_frame_alive(module: types.ModuleType) -> None:
    source = """
    import gc
    def work(look):
        mine = Held()
        reference = Weakly(mine)
        found = look({1: reference})
        found = look({1: reference})
        del mine
        return found, list(reference)
    """
    exec(BEGINNING + textwrap.dedent(source), vars(module))
    assert module.work(looked_for) == ({1: "mine, a local of work()"}, [None])


@pytest.mark.parametrize(
    ("base", "overridden", "make", "expected"),
    [
        ("dict", "items", "Own(a=Held())", "kept['a']"),
        ("list", "__iter__", "Own([Held()])", "kept[0]"),
        ("tuple", "__iter__", "Own([Held()])", "kept[0]"),
        ("collections.deque", "__iter__", "Own([Held()])", "kept[0]"),
        ("set", "__iter__", "Own([Held()])", "kept{...}"),
        ("frozenset", "__iter__", "Own([Held()])", "kept{...}"),
    ],
)
def test_a_search_calls_no_method_of_the_users_containers(
    module: types.ModuleType, base: str, overridden: str, make: str, expected: str
) -> None:
    source = f"""
    called = []
    class Own({base}):
        def {overridden}(self):
            called.append(1)
            return ()
    kept = {make}
    wanted = Weakly(*({base}.values(kept) if {base} is dict else {base}.__iter__(kept)))
    """
    assert told(module, source) == f"users_own_module.{expected}"
    assert module.called == []


def nested(depth: int) -> str:
    """Return source of a module that keeps an object in this many lists."""
    return f"""
    kept = Held()
    wanted = Weakly(kept)
    for _ in range({depth}):
        kept = [kept]
    """


@pytest.mark.parametrize("most", [0, 1, 1000])
def test_many_other_objects_hide_no_holder(module: types.ModuleType, most: int) -> None:
    module.others = [[n] for n in range(50_000)]  # type: ignore[attr-defined]
    assert told(module, nested(3), most) == "users_own_module.kept[0][0][0]"


def test_many_other_objects_hide_no_local_variable(module: types.ModuleType) -> None:
    module.others = list(range(10 * MAX_REFERENCES))  # type: ignore[attr-defined]
    source = """
    def work(look):
        mine = {"a": [Held()]}
        return look({1: Weakly(*mine["a"])})
    """
    exec(BEGINNING + textwrap.dedent(source), vars(module))
    assert module.work(looked_for) == {1: "mine['a'][0], a local of work()"}


def test_a_search_that_ends_early_says_after_how_many_references(module: types.ModuleType) -> None:
    exec(BEGINNING + textwrap.dedent(nested(100)), vars(module))
    effort = Effort(5)
    found = holders_of({1: module.wanted}, effort, in_libraries=False)
    assert found == {1: ("", 0, 1, effort.followed)}
    assert effort.followed >= 5


def test_a_report_says_that_the_search_for_a_holder_ended(module: types.ModuleType) -> None:
    module.others = list(range(10 * MAX_REFERENCES))  # type: ignore[attr-defined]
    with scopes.track():
        kept: Any = tensor.ones(100)
        for _ in range(100):
            kept = [kept]
        report = scopes.leaks()
    (row,) = report.rows
    assert row.holder == ""
    assert row.followed_count >= MAX_REFERENCES
    assert row.to_dict()["followed_count"] == row.followed_count
    assert f"no holder found: the search ended after {row.followed_count:,} references" in str(report)


def test_a_search_reports_its_cost(module: types.ModuleType) -> None:
    exec(BEGINNING + "kept = Held(); wanted = Weakly(kept)", vars(module))
    effort = Effort(ENOUGH)
    found = holders_of({1: module.wanted}, effort, in_libraries=False)
    assert found == {1: ("users_own_module.kept", 1, 1, 0)}
    assert effort.followed > 0
    assert effort.left == ENOUGH - effort.followed


def test_objects_without_a_named_holder_are_left_out(module: types.ModuleType) -> None:
    assert looked_for({1: [], 2: Weakly(threading.Event())}) == {}


def test_a_search_keeps_nothing_alive(module: types.ModuleType) -> None:
    gc.disable()
    try:
        assert told(module, "kept = [Held()]; kept.append(kept); wanted = Weakly(kept[0])") != ""
        module.kept.clear()
        assert list(module.wanted) == [None]
        # One that ends before all is found.
        told(module, "kept = [Held()]; wanted = Weakly(kept[0], Held())")
        module.kept.clear()
        assert list(module.wanted) == [None, None]
    finally:
        gc.enable()


def test_a_search_keeps_no_frame_alive(module: types.ModuleType) -> None:
    source = """
    def work(look):
        global wanted
        mine = Held()
        wanted = Weakly(mine)
        look({1: wanted})
    """
    exec(BEGINNING + textwrap.dedent(source), vars(module))
    gc.disable()
    try:
        module.work(looked_for)
        assert list(module.wanted) == [None]
    finally:
        gc.enable()


def test_a_search_for_holders_runs_no_code_of_lazy_proxies() -> None:
    class Lazy:
        def _ask(self, *_: object) -> NoReturn:
            asked.append(1)
            raise AssertionError("the search ran a query")

        __class__ = property(_ask)
        __getattr__ = __iter__ = __len__ = _ask

    asked: list[int] = []
    proxy = object.__new__(Lazy)
    with scopes.track():
        object.__setattr__(proxy, "_wrapped", [tensor.ones((100,))])
        assert len(scopes.leaks().rows) == 1
        assert "held by" in str(scopes.leaks())
    assert not asked


def test_a_global_of_a_library_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("caching_library")
    library.__file__ = "/usr/lib/python3/site-packages/caching_library.py"
    monkeypatch.setitem(sys.modules, library.__name__, library)
    library.cache = [threading.Event()]  # type: ignore[attr-defined]
    # A report follows less: here libraries may be loaded that hold more.
    found = holders_of({1: Weakly(*library.cache)}, Effort(10 * ENOUGH))
    assert found[1].text == "caching_library.cache[0]"


def test_a_report_leaves_the_values_in_the_dict_of_a_functions_locals() -> None:
    def running() -> None:
        x = tensor.ones(100)
        mine = locals()
        assert scopes.leaks().count == 1
        assert mine["x"] is x

    def suspended() -> Iterator[Any]:
        x = tensor.ones(100)
        yield locals()
        del x

    with scopes.track():
        running()
        generator = suspended()
        theirs = next(generator)
        assert scopes.leaks().count == 1
        assert theirs["x"].shape == (100,)
