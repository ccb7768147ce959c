import gc
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path

import pytest

import tensor
from scopes import ScopeDisposedError, new_dispose_scope
from tests.things import Thing, ThingDisposedError

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=[Thing, lambda: tensor.ones((1,))], ids=["thing", "tensor"])
def make(request):
    """Make an object of the base class, or a tensor, which has its own `dispose` and `__del__`."""
    return request.param


def test_dispose_twice_counts_once(make, window) -> None:
    with new_dispose_scope():
        x = make()
        x.dispose()
        x.dispose()
    x.dispose()
    assert window().disposed_in_scope_count == 1
    assert window().live_count == 0


def test_a_disposed_object_has_no_owner(make) -> None:
    with new_dispose_scope() as scope:
        x = make()
        x.dispose()
        assert x.owning_dispose_scope is None
        assert len(scope) == 0


def test_the_last_reference_ends_it_and_counts_as_finalized(make, window) -> None:
    with new_dispose_scope() as scope:
        make()
        assert len(scope) == 0
        assert (window().disposed_in_scope_count, window().finalized_count) == (1, 1)
    make()
    assert (window().disposed_outside_scope_count, window().finalized_count) == (1, 2)


def test_an_explicitly_disposed_object_is_not_finalized(make, window) -> None:
    thing = make()
    thing.dispose()
    del thing
    assert window().finalized_count == 0


def test_a_cycle_is_freed_at_scope_end_with_the_collector_off(window) -> None:
    gc.disable()
    try:
        with new_dispose_scope():
            x, y = Thing(), Thing()
            x.partner, y.partner = y, x
            nest = [tensor.ones((1000,))]
            nest.append(nest)
            x = y = nest = None
            assert window().live_count == 3
        assert window().live_count == 0
        assert window().finalized_count == 0
    finally:
        gc.enable()


def test_a_collected_cycle_counts_each_once(window) -> None:
    x, y = Thing(), Thing()
    x.partner, y.partner = y, x
    del x, y
    gc.collect()
    figures = window()
    assert (figures.live_count, figures.finalized_count, figures.disposed_outside_scope_count) == (0, 2, 2)


def test_scopes_and_their_members_are_no_garbage() -> None:
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with new_dispose_scope() as outer:
            x = tensor.ones((2,)).alias()
            with new_dispose_scope() as inner:
                y = inner.move_to_outer(x + 1)
            try:
                with new_dispose_scope():
                    raise ValueError("half made")
            except ValueError:
                pass
        del x, y, outer, inner
        gc.collect()
        assert gc.garbage == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_an_object_whose_creation_failed_is_counted_nowhere(window) -> None:
    class Failing(Thing):
        __slots__ = ()

        def __init__(self):
            raise ValueError("half made")

    with new_dispose_scope() as scope:
        with pytest.raises(ValueError, match="half made"):
            Failing()
        assert len(scope) == 0
    assert window() == type(window())()


def test_a_resurrected_object_is_counted_once(window) -> None:
    saved = []
    thing = Thing(when_cleared=saved.append)
    del thing
    assert window().disposed_outside_scope_count == 1
    saved[0].dispose()
    saved.clear()
    assert window().disposed_outside_scope_count == 1


def test_methods_move_it_from_its_owners_point_of_view(window) -> None:
    with new_dispose_scope() as outermost, new_dispose_scope() as outer:
        target = outermost.attach(Thing())
        with new_dispose_scope():
            a, b, c, d = Thing(), Thing(), Thing(), Thing()
            before = window()
            assert a.move_to_outer_dispose_scope() is a
            assert b.move_to_other_dispose_scope(outermost) is b
            assert c.move_to_other_dispose_scope(target) is c
            assert window() == before
            assert d.move_to_other_dispose_scope(None) is d
            assert a in outer
            assert b in outermost
            assert c in outermost
            assert d.owning_dispose_scope is None
            assert a.detach_from_dispose_scope() is a
            assert (window() - before).detached_from_scope_count == 2


def test_without_an_owner_moving_outward_or_nowhere_does_nothing(window) -> None:
    thing, other = Thing(), Thing()
    before = window()
    with new_dispose_scope():
        assert thing.move_to_outer_dispose_scope() is thing
        assert thing.move_to_other_dispose_scope(None) is thing
        assert thing.move_to_other_dispose_scope(other) is thing
        assert thing.detach_from_dispose_scope() is thing
        assert thing.owning_dispose_scope is None
    assert window() == before


def test_a_tensor_without_owner_is_attached_to_the_scope_it_moves_to(window) -> None:
    thing, other = Thing(), Thing()
    before = window()
    with new_dispose_scope() as scope:
        assert thing.move_to_other_dispose_scope(scope) is thing
        assert other.move_to_other_dispose_scope(thing) is other
        assert scope.disposables_view == (thing, other)
        figures = window() - before
        assert (figures.attached_to_scope_count, figures.detached_from_scope_count) == (2, 0)
    assert not thing.whole
    with pytest.raises(ScopeDisposedError):
        Thing().move_to_other_dispose_scope(scope)
    with new_dispose_scope() as scope, pytest.raises(ThingDisposedError):
        thing.move_to_other_dispose_scope(scope)


def test_a_tensor_moves_to_a_scope_or_to_an_object_that_has_one() -> None:
    with pytest.raises(TypeError, match=r"takes a scope, a disposable that has one, or None, not str"):
        Thing().move_to_other_dispose_scope("outer")


def test_a_tensor_moves_to_where_another_tensor_is() -> None:
    with new_dispose_scope() as outer:
        total = tensor.zeros((2,))
        with new_dispose_scope():
            x = tensor.ones((2,)).move_to_other_dispose_scope(total)
        assert x in outer


def test_a_weak_reference_to_a_member_dies_with_it() -> None:
    with new_dispose_scope():
        thing = Thing()
        gone = weakref.ref(thing)
        del thing
        assert gone() is None


def test_the_end_of_the_interpreter_prints_nothing() -> None:
    program = """
        import atexit, threading
        import tensor
        from scopes import disposing, new_dispose_scope, statistics
        from tests.things import Resource, Thing

        scope = new_dispose_scope("left open")
        scope.attach(Resource())
        kept = [Thing(), tensor.ones((3,)), scope]
        kept.append(kept)
        elsewhere = type(threading)("elsewhere")
        elsewhere.thing = Thing()
        elsewhere.thing.partner = elsewhere

        @disposing
        def things():
            yield Thing()

        suspended = things()
        next(suspended)
        atexit.register(Thing)
        thread = threading.Thread(target=lambda: kept.append((new_dispose_scope(), Thing())), daemon=True)
        thread.start()
        thread.join()
    """
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
