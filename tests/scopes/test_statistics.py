import dataclasses
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scopes import DisposeStatistics, Statistics, StatisticsView, new_dispose_scope, statistics
from scopes.core.counters import block_count
from tests.things import Channel, SpecialThing, Thing


def end_threads(count: int, work: Callable[[], object] = Thing) -> None:
    for _ in range(count):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


# What the figures look like.


def test_str_gives_the_figures_in_order() -> None:
    assert str(DisposeStatistics(1, 2, 3, 4, 5, 6, 7)) == (
        "live_count: -2; created_outside_scope_count: 1; disposed_outside_scope_count: 2; "
        "created_in_scope_count: 3; disposed_in_scope_count: 4; attached_to_scope_count: 5; "
        "detached_from_scope_count: 6; finalized_count: 7"
    )
    assert str(statistics) == str(statistics.snapshot())
    assert str(statistics).startswith("live_count: ")


def test_the_repr_of_figures_begins_with_the_live_count() -> None:
    figures = DisposeStatistics(3, 1)
    assert repr(figures).startswith("DisposeStatistics(live_count=2, created_outside_scope_count=3, ")
    assert '<th>live_count</th><td style="text-align: right">2</td>' in figures._repr_html_()


def test_a_snapshot_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        statistics.snapshot().finalized_count = 3


@given(*[st.builds(DisposeStatistics, *[st.integers(0, 10**6)] * 7)] * 2)
def test_snapshots_add_and_subtract(a, b) -> None:
    assert (a + b) - b == a
    assert (a + b).live_count == a.live_count + b.live_count
    assert a - a == DisposeStatistics()


def test_views_and_snapshots_agree() -> None:
    thing = Thing()
    view, snapshot = statistics.of(Thing), statistics.of(Thing).snapshot()
    for name in ("live_count", *(field.name for field in dataclasses.fields(DisposeStatistics))):
        assert getattr(view, name) == getattr(snapshot, name)
    assert snapshot.live_count >= 1
    del thing


def test_repr_and_html_show_the_figures() -> None:
    assert repr(statistics).startswith("<Statistics live_count: ")
    html = statistics.of(Thing)._repr_html_()
    assert html.startswith("<table><tr><th>live_count</th>")
    assert html.count("<tr>") == 8


# By type and by thread.


def test_figures_of_a_type_include_its_subclasses() -> None:
    before = statistics.of(Thing).snapshot(), statistics.of(SpecialThing).snapshot()
    a, b = Thing(), SpecialThing()
    assert statistics.of(Thing).live_count - before[0].live_count == 2
    assert statistics.of(SpecialThing).live_count - before[1].live_count == 1
    assert statistics.of(bytearray).snapshot() == DisposeStatistics()
    del a, b


def test_statistics_of_a_user_type_count_attachments() -> None:
    before = statistics.of(Channel).snapshot()
    with new_dispose_scope() as scope:
        scope.attach(Channel())
    assert (statistics.of(Channel).snapshot() - before).attached_to_scope_count == 1


def test_of_takes_a_class() -> None:
    with pytest.raises(TypeError, match=r"takes a class, not Thing: write of\(type\(x\)\)"):
        statistics.of(Thing())


def test_this_thread_counts_tensors_that_the_thread_created_wherever_they_moved() -> None:
    mine, before = statistics.this_thread, statistics.this_thread.snapshot()
    things, views = [], []

    def work():
        things.extend([Thing(), Thing()])
        views.append(statistics.this_thread)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert views[0].live_count == 2
    things[0].dispose()
    assert views[0].disposed_outside_scope_count == 1
    assert mine.snapshot() == before
    things.clear()


def test_threads_that_ended_are_folded_and_still_count(window) -> None:
    def work():
        with new_dispose_scope():
            Thing()

    end_threads(300, work)
    assert window() == DisposeStatistics(
        created_in_scope_count=300, disposed_in_scope_count=300, finalized_count=300
    )
    assert block_count() < 250


def test_a_view_of_a_thread_outlives_the_thread_and_the_folding() -> None:
    views = []

    def work():
        Thing()
        views.append(statistics.this_thread)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    end_threads(300)  # more than are kept apart
    assert views[0].created_outside_scope_count == 1


def test_a_thread_that_follows_another_does_not_inherit_its_figures() -> None:
    found = []

    def work():
        found.append(statistics.this_thread.created_outside_scope_count)
        Thing()

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [0] * 5


# Reset.


def test_objects_created_before_a_reset_no_longer_count() -> None:
    old = Thing()
    channel = Channel()
    with new_dispose_scope() as scope:
        scope.attach(channel)
        statistics.reset()
        scope.attach(old)
        new = Thing()
        scope.detach(old)
        old.dispose()
        assert statistics.of(Thing).snapshot() == DisposeStatistics(created_in_scope_count=1)
    assert statistics.of(Thing).snapshot() == DisposeStatistics(
        created_in_scope_count=1, disposed_in_scope_count=1
    )
    assert statistics.live_count == 0
    assert not new.whole


def test_a_reset_reaches_other_threads_and_folded_ones() -> None:
    ready, go = threading.Event(), threading.Event()

    def work():
        Thing()
        ready.set()
        assert go.wait(300)
        Thing()

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(300)
    statistics.reset()
    assert statistics.of(Thing).snapshot() == DisposeStatistics()
    go.set()
    thread.join()
    assert statistics.of(Thing).created_outside_scope_count == 1


def test_statistics_is_one_object_of_the_public_type() -> None:
    assert isinstance(statistics, Statistics)
    assert isinstance(statistics.of(Thing), StatisticsView)


def test_a_count_without_its_last_word_is_suggested():
    with pytest.raises(AttributeError, match=r"'Statistics' .* 'live': did you mean 'live_count'\?"):
        statistics.live  # noqa: B018


def test_a_second_call_of_a_constructor_changes_no_owner_and_no_figure() -> None:
    free = Thing()
    with new_dispose_scope() as outer:
        owned = Thing()
        before = statistics.of(Thing).snapshot()
        with new_dispose_scope() as inner:
            free.__init__()  # type: ignore[misc]
            owned.__init__()  # type: ignore[misc]
            assert len(inner) == 0
        assert owned in outer
        assert statistics.of(Thing).snapshot() == before
    assert free.whole
