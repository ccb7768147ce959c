import _thread
import asyncio
import copy
import gc
import linecache
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import scopes
from scopes import disposing, is_tracking, leaks, new_dispose_scope, scope_tree, track
from scopes.lowlevel import register
from scopes.tracking import sites, tracking
from scopes.tracking.records import Record
from scopes.tracking.tracking import note_created, note_ended, record_of
from tests.things import Module, Thing

ROOT = Path(__file__).parents[2]

_library = {"__name__": "scopes.of_this_test", "register": register}
exec(
    "def init(self, size=4):\n"
    "    self.size, self.partner, self.when_cleared, self.whole = size, None, None, True\n"
    "    register(self)\n",
    _library,
)


class Made(Thing):
    """A thing of a library that scopes know: the lines of its constructor are not the user's."""

    __slots__ = ()

    __init__ = _library["init"]


@pytest.fixture(autouse=True)
def tracking_is_off_afterwards() -> Iterator[None]:
    assert not is_tracking()
    yield
    assert not is_tracking()


def known_of(x: object) -> Record:
    record = record_of(x)
    assert record is not None
    return record


class Heard:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def created(self, record: Record) -> None:
        self.events.append(("created", record.serial))

    def ended(self, record: Record, how: str) -> None:
        self.events.append(("ended", record.serial, how))

    def opened(self, scope: scopes.DisposeScope, path: tuple[str, ...]) -> None:
        self.events.append(("opened", path))

    def closed(self, scope: scopes.DisposeScope, path: tuple[str, ...]) -> None:
        self.events.append(("closed", path))


def test_tracking_is_on_while_any_block_is_open() -> None:
    with track():
        with track(depth=2):
            assert is_tracking()
        assert is_tracking()
        kept = Made()
    assert not is_tracking()
    assert record_of(kept) is None


def test_the_deepest_wish_for_lines_holds() -> None:
    def make() -> Made:
        return Made()

    with track():
        shallow = make()
        with track(depth=3):
            deep = make()
        assert len(known_of(shallow).site.lines) == 1
        functions = [line.function.rpartition(".")[2] for line in known_of(deep).site.lines]
    assert functions[:2] == ["make", "test_the_deepest_wish_for_lines_holds"]


def test_a_depth_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"track\(\) records 1 line or more, not 0: write track\(depth=3\)"):
        track(depth=0)


def test_an_error_in_the_block_ends_tracking() -> None:
    with pytest.raises(ZeroDivisionError), track():
        _ = 1 / 0
    assert not is_tracking()


def test_record_has_line_scope_type_size_thread_and_order() -> None:
    with track(), new_dispose_scope("epoch"), new_dispose_scope("step"):
        first, second = Made(size=100), Made()
        record = known_of(first)
        assert (record.kind, record.nbytes, record.scope) == ("Made", 100, ("epoch", "step"))
        assert record.site.text == "first, second = Made(size=100), Made()"
        assert Path(record.site.file) == Path(__file__)
        assert record.site.function.endswith("record_has_line_scope_type_size_thread_and_order")
        assert record.thread == threading.get_ident()
        assert record.serial + 1 == known_of(second).serial
        assert record.created_at <= known_of(second).created_at
        assert record.ended is record.ended_at is None
    assert f"test_tracking.py:{record.site.line} in {record.site.function}" in str(record.site)


def test_scopes_without_a_name_are_in_the_path_too() -> None:
    with new_dispose_scope("before"), track(), new_dispose_scope(), new_dispose_scope("step"):
        thing = Made()
        assert known_of(thing).scope == ("before", "(unnamed)", "step")


def test_objects_made_before_tracking_have_no_record_even_when_they_move() -> None:
    with new_dispose_scope() as outer, new_dispose_scope() as inner:
        before = Made()
        with track():
            inner.move_to_outer(before)
            outer.detach(before)
            outer.attach(before)
            assert record_of(before) is None
            assert leaks().count == 0
            before.dispose()


def test_two_objects_of_one_line_are_at_one_site_and_two_lines_at_two() -> None:
    with track():
        a, b = Made(), Made()
        c = Made()
        assert known_of(a).site is known_of(b).site
        assert known_of(a).site is not known_of(c).site


def test_lines_in_lambdas_comprehensions_and_generators_are_named() -> None:
    make = lambda: Made()  # noqa: E731  # the line is the subject
    with track():
        of_lambda = make()
        of_list = [Made() for _ in range(2)]
        of_generator = list(Made() for _ in range(2))  # noqa: C400  # the generator is the subject
        assert known_of(of_lambda).site.text.startswith("make = lambda")
        assert {known_of(x).site.text for x in of_list} == {"of_list = [Made() for _ in range(2)]"}
        assert known_of(of_generator[1]).site.text.startswith("of_generator")


def test_site_in_code_of_exec_has_text_if_linecache_has_the_source() -> None:
    source = "\n\nx = Made()\n"
    with track():
        space = {"Made": Made, "__name__": "of_the_user"}
        exec(compile(source, "<cell 1>", "exec"), space)
        site = known_of(space["x"]).site
        assert (site.file, site.line, site.function, site.text) == ("<cell 1>", 3, "<module>", "")
        linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(True), "<cell 1>")
        assert site.text == "x = Made()"
        del linecache.cache["<cell 1>"]


def test_a_line_that_is_compiled_repeatedly_is_one_row() -> None:
    kept = []
    with track():
        for _ in range(5):
            space = {"Made": Made, "__name__": "of_the_user"}
            exec(compile("x = Made(8)", "<cell 2>", "exec"), space)
            kept.append(space["x"])
        (row,) = leaks().rows
        assert (row.count, row.nbytes) == (5, 40)


def test_collected_code_is_forgotten() -> None:
    with track():
        space = {"Made": Made, "__name__": "of_the_user"}
        exec(compile("x = Made()", "<cell 3>", "exec"), space)
        before = len(sites.known)
        for _ in range(20):
            exec(compile("x = Made()", "<cell 3>", "exec"), space)
        gc.collect()
        assert len(sites.known) <= before + 1
        assert len(sites._codes) == len(sites.known)


def test_where_no_line_is_the_users_the_site_is_unknown() -> None:
    made: list[Made] = []
    done = threading.Event()

    with track():
        # No Python line of a user is under this one.
        _thread.start_new_thread(register, (_bare(made, done),))
        for _ in range(60_000):
            if record_of(made[0]) is not None:
                break
            done.wait(0.005)
        assert str(known_of(made[0]).site) == "<unknown>"
        assert known_of(made[0]).site.text == ""


def _bare(made: list[Made], done: threading.Event) -> Made:
    thing = Made.__new__(Made)
    thing.size, thing.partner, thing.when_cleared, thing.whole = 1, None, None, True
    made.append(thing)
    return thing


def test_disposal_is_noted_with_how_and_where() -> None:
    with track():
        with new_dispose_scope("step"):
            by_call, by_scope = Made(), Made()
            by_call.dispose()
            assert known_of(by_call).ended == "it was disposed by dispose()"
            where = known_of(by_call).ended_at
            assert where is not None
            assert where.text == "by_call.dispose()"
        assert known_of(by_scope).ended == "its dispose scope 'step' ended"
        assert leaks().count == 0


def test_a_second_disposal_leaves_the_first_one_noted() -> None:
    with track():
        thing = Made()
        thing.dispose()
        first = known_of(thing).ended_at
        thing.dispose()
        assert known_of(thing).ended_at is first


def test_ids_that_are_used_again_are_new_records() -> None:
    with track():
        seen: dict[int, int] = {}
        again = 0
        for _ in range(50):
            thing = Made()
            record = known_of(thing)
            again += record.key in seen
            assert seen.get(record.key, 0) < record.serial
            seen[record.key] = record.serial
            del thing
        assert again > 0
        assert tracking.current.tracker is not None
        assert len(tracking.current.tracker.records) == 0


def test_what_is_alive_is_in_the_order_of_creation() -> None:
    """Even if the listener of one creation takes longer than that of a later one."""

    class Making(Heard):
        def created(self, record: Record) -> None:
            super().created(record)
            if len(self.events) == 1:
                later.append(Made())

    later: list[Made] = []
    with track():
        tracker = tracking.current.tracker
        assert tracker is not None
        tracker.listeners += (Making(),)
        first = Made()
        assert [x for _, x in tracker.alive()] == [first, *later]


def test_listeners_hear_in_order_and_each_end_once() -> None:
    heard = Heard()
    with track():
        tracker = tracking.current.tracker
        assert tracker is not None
        tracker.listeners += (heard,)
        with new_dispose_scope("outer"):
            a, b, c = Made(), Made(), Made()
            del b
            a.dispose()
            a.dispose()
            del a
        del c
    heard_after = len(heard.events)
    Made()
    assert len(heard.events) == heard_after
    assert heard.events == [
        ("opened", ("outer",)),
        ("created", 1),
        ("created", 2),
        ("created", 3),
        ("ended", 2, "its last reference was deleted"),
        ("ended", 1, "it was disposed by dispose()"),
        ("ended", 3, "its dispose scope 'outer' ended"),
        ("closed", ("outer",)),
    ]


def test_objects_in_a_cycle_are_forgotten_when_they_are_collected() -> None:
    with track():
        a, b = Made(), Made()
        a.partner, b.partner = b, a
        del a, b
        gc.collect()
        assert leaks().count == 0
        assert scope_tree().root.alive_count == 0


def test_report_has_an_object_of_any_class_from_note_created_to_note_ended() -> None:
    class Lease:
        pass

    with track():
        lease = Lease()
        note_created(lease, None)
        note_created(lease, None)  # once is enough
        assert leaks().rows[0].kinds == ("Lease",)
        note_ended(lease, "it was given back")
        assert leaks().count == 0
        assert known_of(lease).ended == "it was given back"
    note_created(lease, None)
    assert record_of(lease) is None


def test_eight_threads_that_create_and_dispose_leave_exact_records() -> None:
    rounds, threads = 300, 8
    left: list[Made] = []
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(rounds):
                with new_dispose_scope(f"thread {number}"):
                    things = [Made(size=8) for _ in range(4)]
                    things[0].dispose()
                    left.append(things[1].detach_from_dispose_scope())
                    assert known_of(things[2]).thread == threading.get_ident()
                    if i % 50 == 0:
                        leaks()
        except BaseException as error:
            errors.append(error)
            raise

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with track():
            workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert not errors
            report, tree = leaks(), scope_tree()
            assert (report.count, report.nbytes) == (rounds * threads, 8 * rounds * threads)
            assert [row.count for row in report.rows] == [rounds * threads]
            assert tree.root.created_count == rounds * threads * 4
            assert tree.root.alive_bytes == 8 * rounds * threads
            for n in range(threads):
                row = tree[f"thread {n}"]
                assert (row.rounds, row.created_count, row.alive_count) == (rounds, 4 * rounds, rounds)
            left.clear()
            assert leaks().count == 0
            assert scope_tree().root.alive_bytes == 0
    finally:
        sys.setswitchinterval(interval)


def test_each_asyncio_task_has_its_own_path() -> None:
    async def task(name: str) -> tuple[str, ...]:
        with new_dispose_scope(name):
            await asyncio.sleep(0)
            thing = Made()
            await asyncio.sleep(0)
            return known_of(thing).scope

    async def main() -> list[tuple[str, ...]]:
        with new_dispose_scope("main"):
            return await asyncio.gather(*[task(f"task {n}") for n in range(3)])

    with track():
        paths = asyncio.run(main())
        assert paths == [("main", f"task {n}") for n in range(3)]
        assert {row.path: row.rounds for row in scope_tree().root.walk()} == {
            (): 0,
            ("main",): 1,
            **{("main", f"task {n}"): 1 for n in range(3)},
        }


def test_a_disposing_generator_creates_in_its_own_scope_and_its_consumer_in_the_consumers() -> None:
    @disposing
    def batches() -> Iterator[Made]:
        for _ in range(3):
            yield Made()

    with track(), new_dispose_scope("train"):
        for thing in batches():
            mine = Made()
            assert known_of(thing).scope[-1].endswith("batches")
            assert known_of(mine).scope == ("train",)


def test_a_scope_that_ends_on_another_thread_closes_its_own_path() -> None:
    with track():
        with new_dispose_scope("outer"):
            inner = new_dispose_scope("inner")
            thread = threading.Thread(target=inner.dispose)
            thread.start()
            thread.join()
            thing = Made()
            assert known_of(thing).scope == ("outer",)
        tree = scope_tree()
        assert (tree["outer"].rounds, tree["outer", "inner"].rounds) == (1, 1)


def test_the_end_of_tracking_lets_go_of_all_records_without_the_collector() -> None:
    kept = [Made() for _ in range(3)]
    gc.collect()
    gc.disable()
    try:
        with track():
            kept += [Made() for _ in range(3)]
            assert tracking.current.tracker is not None
            records = [weakref.ref(x) for x in [tracking.current.tracker]]
        assert records[0]() is None
        assert [weakref.getweakrefcount(x) for x in kept] == [0] * 6
    finally:
        gc.enable()


def test_modules_add_no_record_besides_their_tensors() -> None:
    with track(), new_dispose_scope() as scope:
        scope.attach(Module(Made(), Made()))
        assert leaks().count == 2


def run(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # A free-threaded Python would warn that it turns its lock on.
    names = {"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", ""), "PYTHON_GIL": "1"}
    return subprocess.run(
        [sys.executable, "-c", source],
        env={**names, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("value", "expected"), [("1", "True"), ("0", "False"), ("", "False")])
def test_the_environment_switches_tracking_on_for_a_whole_program(value: str, expected: str) -> None:
    done = run("import scopes; print(scopes.is_tracking())", DISPOSESCOPE_TRACK=value)
    assert (done.returncode, done.stdout.strip()) == (0, expected)


def test_the_environment_says_how_many_lines() -> None:
    source = "import scopes\nprint(scopes.tracking.tracking.current.tracker.depth)"
    done = run(source, DISPOSESCOPE_TRACK="1", DISPOSESCOPE_TRACK_DEPTH="3")
    assert done.stdout.strip() == "3"


def test_a_depth_in_the_environment_that_is_no_number_is_an_error_that_says_what_to_write() -> None:
    done = run("import scopes", DISPOSESCOPE_TRACK="1", DISPOSESCOPE_TRACK_DEPTH="deep")
    assert done.returncode == 1
    assert "DISPOSESCOPE_TRACK_DEPTH=deep is not a number of lines" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_continues_tracking_by_itself() -> None:
    source = (
        "import os, sys, scopes, tensor\n"
        "with scopes.track():\n"
        "    x = tensor.ones((2,))\n"
        "    child = os.fork()\n"
        "    y = tensor.ones((2,))\n"
        "    count = scopes.leaks().count\n"
        "    if child == 0:\n"
        "        os._exit(count)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), count)\n"
    )
    done = run(source)
    assert (done.stdout.strip(), done.stderr) == ("2 2", "")


def test_a_line_of_the_standard_library_is_not_told_instead_of_the_users() -> None:
    class Original:  # of a library that scopes know, as PyTorch is
        __deepcopy__ = eval("lambda self, memo: Made()", {"__name__": "scopes.of_this_test", "Made": Made})

    with track():
        kept = copy.deepcopy({"a": [Original()]})  # this line
        (row,) = leaks().rows
    assert row.site.text == 'kept = copy.deepcopy({"a": [Original()]})  # this line'
    assert kept


def test_without_a_line_of_the_users_that_of_the_standard_library_is_reported() -> None:
    with track():
        kept: list[Made] = []
        make = eval("lambda: kept.append(Made())", {"__name__": "scopes", "kept": kept, "Made": Made})
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        (row,) = leaks().rows
    assert Path(row.site.file).name == "threading.py"
