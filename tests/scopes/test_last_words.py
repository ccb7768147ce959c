"""The words for how a run ended, what its last record shows, and its annotations for GitHub."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from scopes import LeakReport, LeakRow, Line, Site
from scopes.reports.annotations import github_annotations
from scopes.reports.killed import end_by, first_row, headline, last_words, unexplained
from tests.run_records import MIB, record, row


@pytest.mark.parametrize(
    ("status", "is_for_memory", "words"),
    [
        (0, False, "exit status 0 (without its own report, as os._exit() ends)"),
        (3 << 8, True, "exit status 3 (without its own report, as os._exit() ends)"),
        (signal.SIGKILL, False, "killed by SIGKILL"),
        (signal.SIGKILL, True, "killed by SIGKILL, by the kernel for memory"),
        (signal.SIGSEGV, True, "killed by SIGSEGV (Segmentation fault)"),
        (-1, False, "no report of its own: it was killed, crashed, or called os._exit()"),
        (
            -1,
            True,
            (
                "no report of its own: it was killed, crashed, or called os._exit(). The kernel killed a "
                "process of its container for memory"
            ),
        ),
    ],
)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_the_end_of_a_process_in_words(status: int, is_for_memory: bool, words: str) -> None:
    assert end_by(status, is_for_memory=is_for_memory) == words


@pytest.mark.parametrize(
    ("more", "how"),
    [
        ({"ended": None, "seconds": 12.345}, "was running, 12.3 s after its start"),
        ({"ended": "killed by SIGKILL"}, "was killed by SIGKILL"),
        ({"ended": "left its process running"}, "left its process running"),
        ({"ended": "exit status 3"}, "ended with exit status 3"),
        ({"ended": "exit status 3", "resident_bytes": 3 * MIB}, "ended with exit status 3 at 3 MiB resident"),
        (
            {"ended": "exit status 3", "limit_bytes": 8 * MIB, "limit_kind": "the container's limit"},
            "ended with exit status 3, the container's limit is 8 MiB",
        ),
        (
            {"ended": "exit status 3", "limit_bytes": 8 * MIB, "limit_kind": "the machine's memory"},
            "ended with exit status 3",
        ),
        (
            {"ended": "killed by SIGKILL", "limit_bytes": 8 * MIB, "limit_kind": "the machine's memory"},
            "was killed by SIGKILL, the machine's memory is 8 MiB",
        ),
    ],
)
def test_the_headline_says_how_a_run_ended_and_its_memory(more: dict[str, Any], how: str) -> None:
    none = "nothing was alive that was created while tracking was on"
    assert headline(record(**more)) == f"train.py {how}: {none}"


@pytest.mark.parametrize(
    ("first", "rounds", "words"),
    [
        (row(7, MIB), 5, ""),
        (row(7, MIB, per_round=2047.6), 5, ", +2 KiB each round"),
        (row(7, MIB, per_round=2048.0, is_growing=True), 1, ", and grew"),
        (row(7, MIB, is_growing=True, holder="cache"), 5, ", and grew, held by cache"),
        (
            row(7, MIB, per_round=3.0, is_growing=True, holder="cache"),
            2,
            ", +3 bytes each round, held by cache",
        ),
    ],
)
def test_the_headline_names_the_first_line_and_what_it_held(first: LeakRow, rounds: int, words: str) -> None:
    text = headline(record(first, row(8, 100), rounds=rounds, ended="exit status 1"))
    assert text == f"train.py ended with exit status 1: {first.site} held 1 MiB{words}"


def test_a_growing_line_is_named_first_if_it_holds_a_quarter() -> None:
    large, small = row(1, 750), row(2, 250, is_growing=True)
    assert first_row(LeakReport((large, small), 1)) is small
    assert first_row(LeakReport((large, row(2, 249, is_growing=True)), 1)) is large
    growing = row(2, 300, is_growing=True), row(3, 400, is_growing=True)
    assert first_row(LeakReport((large, *growing), 1)) is growing[1]


@pytest.mark.parametrize(
    ("resident", "unknown", "is_said"),
    [
        (None, 512 * MIB, False),
        (1024 * MIB, None, False),
        (None, None, False),
        (1024 * MIB, 256 * MIB, True),
        (1024 * MIB, 256 * MIB - 1, False),
        (2048 * MIB, 512 * MIB, True),
        (2048 * MIB, 512 * MIB - 1, False),
        (100 * MIB, 90 * MIB, False),
    ],
)
def test_memory_that_no_line_explains_is_said_if_it_is_much(
    resident: int | None, unknown: int | None, is_said: bool
) -> None:
    made = record(resident_bytes=resident, unexplained_bytes=unknown, ended="exit status 0")
    text = unexplained(made)
    if is_said:
        assert unknown is not None
        assert text.startswith(f"Of its resident memory, {unknown // MIB} MiB came during the run ")
        assert text in last_words(made)
    else:
        assert text == ""


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, None), (0.05, None), (0.0512, "0.051 s older"), (3.0, "3 s older")]
)
def test_the_last_words_have_the_record_and_its_age(seconds: float | None, words: str | None) -> None:
    made = record(row(7, MIB), ended="killed by SIGKILL")
    first, rest = last_words(made, seconds).split("\n\n", 1)
    expected = [headline(made)]
    if words is not None:
        expected.append(f"The last record is {words} than the end.")
    assert first.splitlines() == expected
    assert rest == made.tables


def test_github_shows_the_line_of_a_failed_run_and_each_that_grew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", "/home/me")
    held, grew = row(3, 800), row(5, 100, per_round=512.0, is_growing=True, holder="100% of cache\n")
    growing = ((grew.site, 2048), (Site(()), 10), (Site((Line("/other:x/c.py", 9, "f"),)), 20))
    made = record(held, grew, rounds=4, growing=growing, ended="killed by SIGKILL")
    text = headline(made).replace("%", "%25").replace("\n", "%0A")
    keeps = "The memory of this line keeps growing: by"
    assert github_annotations(made) == [
        f"::error file=a%2Cb.py,line=3::{text}",
        f"::warning file=a%2Cb.py,line=5::{keeps} 2 KiB, 512 bytes each round, held by 100%25 of cache%0A",
        f"::warning::{keeps} 10 bytes",
        f"::warning file=/other%3Ax/c.py,line=9::{keeps} 20 bytes",
    ]
    for ended in (None, "exit status 0"):
        assert len(github_annotations(record(held, growing=growing, ended=ended))) == 3
    assert github_annotations(record(ended="exit status 1")) == []
