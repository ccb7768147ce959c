"""Timelines of tensors: memory, the lines behind its peaks, long runs, what Perfetto reads, and plots."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import nn
import tensor
from scopes import Timeline, new_dispose_scope, statistics
from tensor import memory
from tests.traces import Trace, ask_perfetto

MIB = 1 << 20


def saved(timeline: Timeline, folder: Path) -> Trace:
    timeline.save(folder / "trace.json")
    return Trace(folder / "trace.json")


def train(epochs: int, steps: int) -> None:
    layer = nn.Linear(64, 64)
    optimizer = nn.optim.SGD(layer.parameters(), lr=0.01)
    for _ in range(epochs):
        with new_dispose_scope("epoch"):
            for _ in range(steps):
                with new_dispose_scope("step"):
                    with new_dispose_scope("forward") as forward:
                        loss = forward.move_to_outer((layer(tensor.rand(32, 64)) ** 2).mean())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


def test_counters_of_the_timeline_equal_the_statistics(tmp_path) -> None:
    with Timeline() as timeline:
        kept = [tensor.zeros((MIB,), dtype=tensor.uint8) for _ in range(3)]
        live, count = memory.statistics().bytes_live, statistics.live_count
    found = saved(timeline, tmp_path)
    assert found.counter("bytes", "live")[-1] == live
    assert found.counter("disposables", "live")[-1] == count
    assert len(kept) == 3


def test_the_counter_falls_where_the_scope_of_a_large_tensor_ends(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("scopes.reports.timeline._PERIOD", 10**12)  # so that no sample is due by the clock
    with Timeline() as timeline:
        with new_dispose_scope("step"):
            tensor.zeros((MIB,), dtype=tensor.uint8)
        with new_dispose_scope("after"):
            pass
    found = saved(timeline, tmp_path)
    figures = [(event["args"]["live"], event["ts"]) for event in found.of("C") if event["name"] == "bytes"]
    highest = max(figures)
    (fall, *_) = [at for live, at in figures if at > highest[1] and live <= highest[0] - MIB]
    (after,) = [event["ts"] for event in found.scopes() if event["name"] == "after"]
    assert fall <= after


def test_cached_bytes_are_counted(tmp_path) -> None:
    memory.trim()
    with Timeline() as timeline:
        tensor.zeros((MIB,), dtype=tensor.uint8).dispose()
    assert saved(timeline, tmp_path).counter("bytes", "cached")[-1] >= MIB
    memory.trim()


def test_short_peak_is_reported_for_its_line(tmp_path) -> None:
    before = memory.statistics().bytes_live
    with Timeline() as timeline:
        with new_dispose_scope("step"):
            x = tensor.zeros((8 * MIB,), dtype=tensor.uint8)
            y = x + x  # the peak
            x.dispose()
            y.dispose()
    found = saved(timeline, tmp_path)
    highest = max(found.of("i"), key=lambda event: event["args"]["bytes"])
    assert highest["args"]["bytes"] == before + 16 * MIB
    line = int(highest["args"]["line"].split(":")[1].split()[0])
    assert (
        Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1].strip() == "y = x + x  # the peak"
    )
    assert highest["args"]["path"] == "step"


def test_a_training_run_reads_as_it_was_written(tmp_path) -> None:
    with Timeline() as timeline:
        train(epochs=2, steps=3)
    found = saved(timeline, tmp_path)
    assert found.rounds("epoch") == 2
    assert found.rounds("epoch > step") == found.rounds("epoch > step > forward") == 6
    assert found.about["dropped"] == {"unseen": 0}
    assert found.count("create") == found.count("dispose") > 30


def test_results_are_the_same_under_a_timeline() -> None:
    def run() -> np.ndarray:
        tensor.manual_seed(0)
        x = tensor.randn(10, 10, requires_grad=True)
        (x @ x).exp().sum().backward()
        return x.grad.numpy().copy()

    expected = run()
    with Timeline():
        np.testing.assert_array_equal(run(), expected)


def test_a_sample_belongs_to_the_open_scope_whichever_scope_owns_the_tensor(tmp_path) -> None:
    w = tensor.ones((4,), requires_grad=True)
    with Timeline() as timeline:
        with new_dispose_scope("forward"):
            loss = (w * w).sum().detach_from_dispose_scope()
        with new_dispose_scope("backward"):
            time.sleep(0.002)
            loss.backward()  # makes a gradient, which no scope owns
    paths = [sample.path for sample in timeline._kept.samples]
    assert [path for path, before in zip(paths[1:], paths, strict=False) if path != before] == [
        ("forward",),
        (),
        ("backward",),
        (),
    ]


def test_timeline_does_not_sample_memory_at_each_operation(tmp_path) -> None:
    x = tensor.ones((4,))
    with Timeline() as timeline:
        start = time.perf_counter()
        for _ in range(1000):
            x + x
        milliseconds = (time.perf_counter() - start) * 1000
    assert len(timeline._kept.samples) <= milliseconds + 10
    assert len(saved(timeline, tmp_path).counter("bytes", "live")) <= milliseconds + 10


def run_long(ops: int, most: int, folder: Path) -> None:
    """Hold `ops` operations under a timeline to its bound; each creates and disposes a tensor."""
    x = tensor.ones((8,))
    leaked = []
    for _ in range(2):  # so that what is made once is there
        x + x
    tracemalloc.start()
    try:
        with Timeline(max_events=most) as timeline:
            start = tracemalloc.get_traced_memory()[0]
            highest = 0
            for number in range(ops // 10):
                with new_dispose_scope("step"):
                    for _ in range(9):
                        x + x
                    y = x * 2
                    if number % 1000 == 0:
                        leaked.append(y.detach_from_dispose_scope())
                if number % 50 == 0:
                    highest = max(highest, tracemalloc.get_traced_memory()[0] - start)
        # Some 250 bytes an event, and what waits to be entered.
        assert highest < 350 * most + MIB // 2
        assert len(timeline._kept) <= most
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        timeline.save(folder / "trace.json")
        assert tracemalloc.get_traced_memory()[1] - before < 3000 * most
    finally:
        tracemalloc.stop()
    found = Trace(folder / "trace.json")
    assert found.about["dropped"] == {"unseen": 0}
    assert found.rounds("step") == ops // 10
    assert found.count("create") == ops
    assert found.count("dispose") == ops - len(leaked)


def test_two_thousand_operations_stay_within_the_bound_and_write_a_valid_file(tmp_path) -> None:
    run_long(2000, 200, tmp_path)


@pytest.mark.soak
def test_a_million_operations_stay_within_the_bound_and_write_a_valid_file(tmp_path) -> None:
    run_long(1_000_000, 20_000, tmp_path)
    (((slices,),), ((errors,),)) = ask_perfetto(
        tmp_path / "trace.json",
        "select count(*) from slice",
        "select count(*) from stats where value > 0 and severity in ('error', 'data_loss')",
    )
    assert slices > 1000
    assert errors == 0


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_perfetto_finds_scopes_counters_arrows_and_names(tmp_path, name: str) -> None:
    def work() -> None:
        with new_dispose_scope("work"):
            tensor.ones((10,))

    with Timeline() as timeline:
        train(epochs=1, steps=2)
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
    timeline.save(tmp_path / name)
    found = Trace(tmp_path / name)
    errors, slices, nested, counters, flows, threads = ask_perfetto(
        tmp_path / name,
        "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
        "select count(*) from slice",
        """select parent.name, child.name, count(*)
           from slice child join slice parent on child.parent_id = parent.id
           where child.category = 'scope' group by 1, 2 order by 1""",
        """select t.name, count(*), cast(max(c.value) as int) from counter c join track t on c.track_id = t.id
           group by 1 order by 1""",
        """select count(*) from flow join slice a on slice_out = a.id join slice b on slice_in = b.id
           where a.name like 'create %' and b.name like 'dispose %'""",
        "select name from thread where name is not null order by name",
    )
    assert errors == []
    # A moment is a slice to Perfetto, as well.
    assert slices == [[len(found.of("X", "i"))]]
    assert nested == [["epoch", "step", 2], ["step", "forward", 2]]
    samples = len(found.counter("bytes", "live"))
    assert counters == [
        ["bytes cached", samples, max(found.counter("bytes", "cached"))],
        ["bytes live", samples, max(found.counter("bytes", "live"))],
        ["disposables live", samples, max(found.counter("disposables", "live"))],
    ]
    assert flows == [[len(found.of("s"))]]
    assert flows[0][0] > 10
    assert [*map(list, threads)] == [["MainThread"], ["worker"]]


def test_viztracer_takes_the_file_into_a_report(tmp_path) -> None:
    report_builder = pytest.importorskip("viztracer.report_builder")
    with Timeline() as timeline:
        train(epochs=1, steps=2)
    timeline.save(tmp_path / "trace.json")
    builder = report_builder.ReportBuilder([str(tmp_path / "trace.json")], verbose=0)
    builder.save(str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "create Tensor" in page
    assert "lifetime" in page


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_plot_is_coloured_by_scope_and_names_the_lines_of_peaks(tmp_path, suffix, start) -> None:
    pytest.importorskip("matplotlib")
    with Timeline() as timeline:
        with new_dispose_scope("load"):
            x = tensor.zeros((4 * MIB,), dtype=tensor.uint8)
            time.sleep(0.002)
            with new_dispose_scope("double"):
                y = x + x
                time.sleep(0.002)
                z = tensor.ones((3,))
        time.sleep(0.002)
        tensor.ones((2,))
    figure = timeline.plot(tmp_path / f"memory.{suffix}")
    assert (tmp_path / f"memory.{suffix}").read_bytes().startswith(start)
    (axes,) = figure.axes
    assert {text.get_text() for text in axes.get_legend().get_texts()} >= {"load", "double"}
    assert [text.get_text() for text in axes.texts][:1] == ["1"]
    assert re.search(r"\d  test_timeline.py:\d+  y = x \+ x", figure.get_supxlabel())
    assert axes.get_ylabel() == "memory (MiB)"
    lines = {line.get_label(): np.array(line.get_ydata()) for line in axes.get_lines()}
    both, live = lines.pop("live + cached"), next(iter(lines.values()))
    assert (both >= live).all()
    assert both.max() >= 8 * 0.99  # `x` and `y`
    assert y.is_invalid
    assert z.is_invalid


def test_a_plot_draws_leaks_as_leaks(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    kept = []
    with Timeline() as timeline:
        model = tensor.zeros((MIB,), dtype=tensor.uint8)
        for _ in range(20):
            x = tensor.zeros((MIB,), dtype=tensor.uint8)
            kept.append(x + 1)  # leaks
        time.sleep(0.1)  # longer than all that took
    (axes,) = timeline.plot(tmp_path / "memory.png").axes
    (leak,) = [line for line in axes.get_lines() if str(line.get_label()).startswith("leak: ")]
    assert re.fullmatch(r"leak: test_timeline.py:\d+", leak.get_label())
    assert list(leak.get_ydata()) == [*range(1, 21), 20]  # MiB, and what is left to the end
    del model


def test_a_tensor_made_once_before_many_rounds_is_no_leak_in_a_plot(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    with Timeline() as timeline:
        model = [tensor.zeros((MIB,), dtype=tensor.uint8) for _ in range(20)]
        for x in model:
            with new_dispose_scope("step"):
                x + 1
    (axes,) = timeline.plot(tmp_path / "memory.png").axes
    assert not [line for line in axes.get_lines() if str(line.get_label()).startswith("leak: ")]


def test_a_plot_without_a_path_is_pyplots(monkeypatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    with Timeline() as timeline:
        tensor.ones((2,))
    figure = timeline.plot()
    assert pyplot.fignum_exists(figure.number)
    pyplot.close(figure)


def test_a_timeline_of_nothing_can_be_saved_and_plotted(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    with Timeline() as timeline:
        pass
    assert saved(timeline, tmp_path).of("X") == []
    timeline.plot(tmp_path / "memory.png")
    timeline = Timeline()
    assert saved(timeline, tmp_path).of("X", "C") == []
    timeline.plot(tmp_path / "memory.png")


def test_without_matplotlib_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["matplotlib"] = None
import scopes
with scopes.Timeline() as timeline:
    pass
try:
    timeline.plot("memory.png")
except ModuleNotFoundError as error:
    assert "pip install '.[plot]'" in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
