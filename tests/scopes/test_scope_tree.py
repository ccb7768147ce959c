import json
import threading
import time
from collections.abc import Iterator

import pytest

import scopes
from scopes import disposing, new_dispose_scope, scope_tree, track
from tests.things import Thing


@pytest.fixture(autouse=True)
def tracking_is_off_afterwards() -> Iterator[None]:
    yield
    assert not scopes.is_tracking()


def test_without_tracking_the_error_says_how_to_switch_it_on() -> None:
    with pytest.raises(RuntimeError, match="tracking is off"):
        scope_tree()


def test_ten_thousand_scopes_of_one_name_are_one_row() -> None:
    with track():
        for _ in range(10_000):
            with new_dispose_scope("step"):
                Thing(8)
        tree = scope_tree()
    assert [row.path for row in tree.root.walk()] == [(), ("step",)]
    row = tree["step"]
    assert (row.rounds, row.created_count, row.created_bytes) == (10_000, 10_000, 80_000)
    assert (row.peak_bytes, row.alive_count, row.alive_bytes) == (8, 0, 0)
    assert len(str(tree).splitlines()) == 6


def test_an_outer_row_covers_the_rows_inside() -> None:
    with track():
        outside = Thing(1)
        with new_dispose_scope("epoch"):
            a = Thing(10)
            for _ in range(3):
                with new_dispose_scope("step"):
                    b, c = Thing(100), Thing(1000)
                    b.dispose()
            with new_dispose_scope("eval") as scope:
                kept = scope.detach(Thing(500))
        tree = scope_tree()
        del a, b, c
    told = {
        row.path: (
            row.rounds,
            row.created_count,
            row.created_bytes,
            row.peak_bytes,
            row.alive_count,
            row.alive_bytes,
        )
        for row in tree.root.walk()
    }
    assert told == {
        (): (0, 9, 3811, 1111, 2, 501),
        ("epoch",): (1, 8, 3810, 1110, 1, 500),
        ("epoch", "step"): (3, 6, 3300, 1100, 0, 0),
        ("epoch", "eval"): (1, 1, 500, 500, 1, 500),
    }
    # The largest peak first.
    assert [row.path[-1] for row in tree["epoch"].inner] == ["step", "eval"]
    del outside, kept


def test_the_same_name_in_two_places_is_two_rows() -> None:
    with track():
        for phase in ("train", "eval"):
            with new_dispose_scope(phase), new_dispose_scope("step"):
                pass
        tree = scope_tree()
    assert (tree["train", "step"].rounds, tree["eval", "step"].rounds) == (1, 1)


def test_unknown_path_in_the_tree_raises_an_error_with_the_known_paths() -> None:
    with track(), new_dispose_scope("step"):
        tree = scope_tree()
    with pytest.raises(KeyError, match=r"no scope \('stop',\) was open.*\('step',\)"):
        tree["stop"]


def test_time_is_that_of_all_rounds() -> None:
    began = time.perf_counter()
    with track():
        for _ in range(3):
            with new_dispose_scope("nap"):
                time.sleep(0.01)
        tree = scope_tree()
    tracked = time.perf_counter() - began
    assert 0.03 <= tree["nap"].seconds <= tree.root.seconds <= tracked


def test_a_scope_that_was_open_before_counts_its_time_since_tracking_began() -> None:
    with new_dispose_scope("long"):
        time.sleep(0.05)
        began = time.perf_counter()
        with track():
            scopes.current_dispose_scope().dispose()
            tree = scope_tree()
        tracked = time.perf_counter() - began
    assert tree["long"].rounds == 1
    assert tree["long"].seconds <= tracked


def test_a_scope_that_is_still_open_is_a_row_without_a_round() -> None:
    with track(), new_dispose_scope("train"):
        thing = Thing(5)
        row = scope_tree()["train"]
        assert (row.rounds, row.alive_bytes) == (0, 5)
        del thing


def test_a_scope_that_ends_after_tracking_does_no_harm() -> None:
    with track():
        scope = new_dispose_scope("left open")
    scope.dispose()
    with track():
        assert [row.path for row in scope_tree().root.walk()] == [()]


def test_renamed_scope_keeps_its_row_in_the_tree() -> None:
    with track():
        with new_dispose_scope("first") as scope:
            Thing(1)
            scope.name = "second"
            Thing(1)
        assert [row.path for row in scope_tree().root.walk()] == [(), ("first",)]


def test_two_threads_share_the_rows_of_their_names_and_their_peaks_add_up() -> None:
    both = threading.Barrier(2)

    def work() -> None:
        with new_dispose_scope("worker"):
            thing = Thing(100)
            both.wait()
            both.wait()
            del thing

    with track():
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        row = scope_tree()["worker"]
    assert (row.rounds, row.peak_bytes, row.alive_bytes) == (2, 200, 0)


def test_calls_of_a_disposing_function_are_one_row_by_its_name() -> None:
    @disposing
    def layer() -> Thing:
        Thing(10)
        return Thing(1)

    with track():
        kept = [layer() for _ in range(4)]
        (row,) = scope_tree().root.inner
        assert row.path[0].endswith("layer")
        assert (row.rounds, row.created_count, row.alive_bytes) == (4, 8, 4)
        kept.clear()


def test_a_tree_as_plain_data_is_json() -> None:
    with track(), new_dispose_scope("a"), new_dispose_scope():
        Thing(3)
        told = json.loads(json.dumps(scope_tree().to_dict()))
    assert told["path"] == []
    inner = told["inner"][0]["inner"][0]
    assert inner.pop("seconds") == 0.0
    assert inner == {
        "path": ["a", "(unnamed)"],
        "rounds": 0,
        "created_count": 1,
        "alive_count": 0,
        "created_bytes": 3,
        "alive_bytes": 0,
        "peak_bytes": 3,
        "inner": [],
    }


def test_the_text_shows_the_tree_by_indents() -> None:
    with track():
        with new_dispose_scope("epoch"), new_dispose_scope("step"):
            Thing(2048)
        lines = str(scope_tree()).splitlines()
    assert " ".join(lines[2].split()) == "scope rounds time created bytes peak alive bytes alive"
    assert [line[:10] for line in lines[4:]] == ["everything", "  epoch   ", "    step  "]
    assert lines[-1].endswith("us        1  2 KiB  2 KiB      0      0 bytes")
