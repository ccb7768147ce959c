"""The report of all living tensors, with or without tracking: what `disposescope attach` shows first."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Iterator

import pytest

import nn
import tensor
from scopes.reports.living import LivingKind, LivingReport, LivingRow, living
from scopes.tracking.holders import Holder

kept_of_this_module: list[tensor.Tensor] = []


@pytest.fixture(autouse=True)
def nothing_else_is_seen() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    kept_of_this_module.clear()


def kind(*shape: int, dtype: str = "float32", name: str = "Tensor", device: str = "") -> LivingKind:
    return LivingKind(name, shape, dtype, device)


@pytest.mark.parametrize("seed", range(10))
def test_counts_and_bytes_are_those_of_a_model(seed: int) -> None:
    draw = random.Random(seed)
    alive: list[tensor.Tensor] = []
    counts: Counter[LivingKind] = Counter()
    nbytes: Counter[LivingKind] = Counter()
    for _ in range(40):
        shape = draw.choice([(3,), (100,), (2, 5), (), (0,)])
        dtype = draw.choice(["float32", "int64", "bool"])
        x = tensor.ones(shape, dtype=dtype)
        if draw.random() < 0.3:
            x.dispose()
            continue
        alive.append(x)
        counts[kind(*shape, dtype=dtype)] += 1
        nbytes[kind(*shape, dtype=dtype)] += x.nbytes
    report = living()
    assert {row.kind: row.count for row in report.rows} == counts
    assert {row.kind: row.nbytes for row in report.rows} == dict(nbytes) | {k: nbytes[k] for k in counts}
    assert (report.count, report.nbytes) == (len(alive), sum(x.nbytes for x in alive))
    weights = [row.weight for row in report.rows]
    assert weights == sorted(weights, reverse=True)
    assert all(row.change is None and row.op_count == 0 for row in report.rows)


def test_shared_memory_counts_once() -> None:
    x = tensor.ones((100,))
    views = [x.view(10, 10), x[:50], x.view(10, 10)]
    report = living()
    assert {row.kind: row.count for row in report.rows} == {kind(100): 1, kind(10, 10): 2, kind(50): 1}
    assert report.nbytes == x.nbytes
    assert len(views) == 3


def test_a_graph_keeps_memory_and_operations_that_count_once() -> None:
    x = tensor.ones((1000,), requires_grad=True)
    y = x.exp().exp()  # the graph keeps the first result alone
    first, second = y.sum(), y.mean()
    del y
    report = living()
    rows = {row.kind: row for row in report.rows}
    assert set(rows) == {kind(1000), kind()}
    assert rows[kind(1000)].nbytes == 4000
    assert rows[kind()].count == 2
    assert rows[kind()].nbytes == 2 * 4000 + first.nbytes + second.nbytes
    assert rows[kind()].op_count == 4
    assert rows[kind()].weight == rows[kind()].nbytes + 4 * 256
    assert report.rows[0] is rows[kind()]


def test_parameters_are_told_apart_by_their_class_and_holders_by_their_path() -> None:
    model = nn.Linear(30, 20)
    kept_of_this_module.extend(tensor.ones((7,)) for _ in range(3))
    report = living()
    rows = {row.kind: row for row in report.rows}
    assert {each.name for each in rows} == {"Parameter", "Tensor"}
    assert rows[kind(20, 30, name="Parameter")].count == 1
    held = rows[kind(7)].holder
    assert held is not None
    assert held.text.endswith("test_living.kept_of_this_module[...]")
    assert (held.held_count, held.searched_count) == (3, 3)
    assert model.weight.shape == (20, 30)


def rows(**counts: int) -> tuple[LivingRow, ...]:
    """Return rows of kinds by their dtype, of a hundred bytes for each tensor."""
    return tuple([LivingRow(kind(25, dtype=dtype), n, 100 * n, 0) for dtype, n in counts.items()])


def test_the_changes_since_an_earlier_report_are_sorted_by_the_bytes_that_came() -> None:
    before = LivingReport(rows(float32=5, int64=4, bool=3, int8=7))
    after = LivingReport(rows(float32=5, int64=9, bool=1, uint8=2))
    found = [(row.kind.dtype, row.count, row.nbytes, row.change) for row in after.since(before).rows]
    assert found == [
        ("int64", 9, 900, (5, 500)),
        ("uint8", 2, 200, (2, 200)),
        ("float32", 5, 500, (0, 0)),
        ("bool", 1, 100, (-2, -200)),
        ("int8", 0, 0, (-7, -700)),
    ]


def test_the_text_has_a_line_for_each_kind() -> None:
    report = LivingReport(
        (
            LivingRow(kind(2, 3, device="cuda:1"), 2000, 48_000, 12, Holder("cache[...]", 2000, 2000)),
            LivingRow(kind(4, name="Parameter"), 1, 16, 0, Holder("model.weight", 3, 10), (1, 16)),
            LivingRow(kind(5), 20, 400, 0, Holder("kept", 9, 10), (-3, -1200)),
            LivingRow(kind(6), 1, 24, 0, Holder("", 0, 1, 5000), (0, 0)),
            LivingRow(kind(7), 1, 28, 0, Holder("", 0, 1)),
        )
    )
    lines = [" ".join(line.split()) for line in str(report).splitlines()]
    assert lines[:2] == ["2,023 tensors alive, 47.33 KiB", ""]
    assert set(lines[3]) == {"-", " "}
    assert [lines[2], *lines[4:]] == [
        "alive bytes graph ops change type shape held by",
        "2,000 46.88 KiB 12 Tensor (2, 3) float32 on cuda:1 cache[...]",
        "1 16 bytes +1, +16 bytes Parameter (4,) float32 model.weight (3 of 10 looked for)",
        "20 400 bytes -3, -1.172 KiB Tensor (5,) float32 kept (9 of 10 looked for)",
        "1 24 bytes Tensor (6,) float32 no holder found: the search ended after 5,000 references",
        "1 28 bytes Tensor (7,) float32",
    ]
    assert str(LivingReport(())) == "no tensor is alive"
    assert "change" not in str(LivingReport(rows(float32=2)))
