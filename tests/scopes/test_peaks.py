"""Peaks of memory in tests, by pytest inside pytest: the file, growth, the lines that grew, workers."""

from __future__ import annotations

import linecache
import os
import random
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import disposescope.pytest_plugin as pytest_plugin
import scopes
import tensor
from scopes.testing.peaks import (
    NoPeaksError,
    Peak,
    PeakLine,
    PeakLines,
    Tolerance,
    dump,
    grown_lines,
    growth_of,
    load,
)
from scopes.tracking.memory_owners import tensor_classes

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
LOCK = "peaks.lock"
Run = Callable[..., pytest.RunResult]

SOURCE = """
import pytest, tensor

SIZE = 10_000

@pytest.fixture(scope="module")
def data():
    return tensor.ones((30_000,))

def test_step(data):
    rows = tensor.ones((2_000,))
    kept = tensor.ones((SIZE,))
    data.sum()

def test_graph():
    x = tensor.ones((SIZE,), requires_grad=True)
    y = x
    for _ in range(5):
        y = y.sin()
    y.sum().backward()

def test_nothing():
    pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs pytest on a file of tests, with a file of peaks."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str | None, *args: str, apart: bool = False, lock: str | None = LOCK) -> pytest.RunResult:
        if source is not None:
            pytester.makepyfile(test_it=source)
            linecache.clearcache()  # the file of the run before had the same name
        given = ["-p", "no:cacheprovider", *([] if lock is None else [f"--tensor-peaks={lock}"]), *args]
        if apart:
            return pytester.runpytest_subprocess("-p", "disposescope.pytest_plugin", *given)
        return pytester.runpytest_inprocess(*given, plugins=[pytest_plugin])

    return run


def written(lock: str = LOCK) -> dict[str, Peak]:
    return load(Path(lock).read_text(encoding="utf-8"))


def test_the_file_has_the_peak_of_each_test_and_its_lines(run: Run) -> None:
    result = run(SOURCE, "--update-peaks")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*tensor peaks*", "peaks.lock: 2 tests, 2 new, 0 changed, 0 removed"])
    data = tomllib.loads(Path(LOCK).read_text(encoding="utf-8"))
    assert list(data) == ["test_it.py::test_graph", "test_it.py::test_step"]
    step = data["test_it.py::test_step"]
    # The fixture of the module belongs to several tests.
    assert step["lines"] == [
        {
            "bytes": 40_000,
            "text": "kept = tensor.ones((SIZE,))",
            "function": "test_step",
            "file": "test_it.py",
        },
        {
            "bytes": 8_000,
            "text": "rows = tensor.ones((2_000,))",
            "function": "test_step",
            "file": "test_it.py",
        },
    ]
    assert 48_000 <= step["tensor"] < 49_000


def test_memory_that_only_a_graph_holds_counts_for_the_line_that_created_it(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    by_text = {line.text: line.nbytes for line in written()["test_it.py::test_graph"].lines}
    # Each result but the last is held by the graph alone. The gradient is a part of backward's memory.
    assert by_text["y = y.sin()"] >= 4 * 40_000


def test_the_same_tests_have_the_same_peaks_to_the_byte(run: Run) -> None:
    run(SOURCE, "--update-peaks", apart=True)
    before = Path(LOCK).read_bytes()
    for _ in range(2):
        run(None, "--update-peaks", apart=True)
        assert Path(LOCK).read_bytes() == before


def test_unchanged_peaks_pass_and_print_nothing(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    result = run(None)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*tensor peaks*")


def test_a_growth_of_5_percent_fails_with_the_line_that_grew(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    grown = SOURCE.replace("import pytest", "\n\nimport pytest").replace("2_000,", "2_625,")  # 5% of 50 kB
    result = run(grown)
    result.assert_outcomes(passed=2, failed=1)
    number = next(n for n, line in enumerate(grown.lstrip().splitlines(), 1) if "rows =" in line)
    result.stdout.fnmatch_lines(
        [
            "test_step: the peak of memory grew beyond 2%: tensor * -> * bytes (+5.2%)",
            "The lines that held more at the peak:",
            f"  test_it.py:{number} in test_step: +2.441 KiB (8,000 -> 10,500 bytes)",
            "      rows = tensor.ones((2_625,))",
            "If it should: pytest --tensor-peaks=peaks.lock --update-peaks",
        ]
    )
    result.stdout.no_fnmatch_line("*kept = *")


def test_a_growth_within_the_tolerance_passes(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    grown = SOURCE.replace("2_000,", "2_625,")
    run(grown, "--peaks-tolerance=6%").assert_outcomes(passed=3)
    run(grown, "--peaks-tolerance=2.5 kB").assert_outcomes(passed=3)
    run(grown, "--peaks-tolerance=2.4 kB").assert_outcomes(passed=2, failed=1)


def test_update_peaks_accepts_the_growth(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    grown = SOURCE.replace("2_000,", "2_625,")
    result = run(grown, "--update-peaks")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["peaks.lock: 2 tests, 0 new, 1 changed, 0 removed"])
    run(None).assert_outcomes(passed=3)


def test_new_tests_are_listed_and_only_an_update_adds_them(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    before = Path(LOCK).read_bytes()
    more = f"{SOURCE}\ndef test_more():\n    x = tensor.ones((100,))\n"
    result = run(more)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["not in peaks.lock (--update-peaks adds them):", "  test_it.py::test_more: tensor 400"]
    )
    assert Path(LOCK).read_bytes() == before
    run(None, "--update-peaks")
    assert written()["test_it.py::test_more"].figures == {"tensor": 400}


def test_a_peak_that_is_lower_is_listed(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    result = run(SOURCE.replace("2_000,", "200,"))
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["less than in peaks.lock *", "  test_it.py::test_step: tensor * -> tensor *"]
    )


def test_tests_that_fail_keep_their_peaks(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    before = Path(LOCK).read_bytes()
    run(SOURCE.replace("data.sum()", "assert data is None"), "--update-peaks").assert_outcomes(
        passed=2, failed=1
    )
    assert Path(LOCK).read_bytes() == before


def test_tests_that_are_gone_are_removed_but_not_those_that_were_not_run(run: Run) -> None:
    run(SOURCE, "--update-peaks")
    run(None, "--update-peaks", "-k", "step")
    run(None, "--update-peaks", "test_it.py::test_nothing")
    assert len(written()) == 2
    result = run(SOURCE.replace("test_graph", "test_other"), "--update-peaks")
    result.stdout.fnmatch_lines(["peaks.lock: 2 tests, 1 new, 0 changed, 1 removed"])
    assert list(written()) == ["test_it.py::test_other", "test_it.py::test_step"]


def test_the_workers_of_xdist_write_one_file(run: Run) -> None:
    pytest.importorskip("xdist")
    run(SOURCE, "--update-peaks", apart=True)
    alone = Path(LOCK).read_bytes()
    gone = alone + b'\n["test_it.py::test_gone"]\ntensor = 1_000\n'
    Path(LOCK).write_bytes(gone)
    # A worker imports the library for its first test, which must not count.
    result = run(None, "--update-peaks", "-p", "xdist", "-n", "2", apart=True)
    result.stdout.fnmatch_lines(["peaks.lock: 2 tests, 0 new, 0 changed, 1 removed"])
    assert Path(LOCK).read_bytes() == alone
    grown = run(SOURCE.replace("2_000,", "2_625,"), "-p", "xdist", "-n", "2", apart=True)
    grown.assert_outcomes(passed=2, failed=1)
    grown.stdout.fnmatch_lines(["*rows = tensor.ones((2_625,))*"])


def test_the_settings_name_the_file_and_the_tolerance(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntensor_peaks = peaks.lock\ntensor_peaks_tolerance = 6%\n")
    run(SOURCE, "--update-peaks", lock=None)
    run(SOURCE.replace("2_000,", "2_625,"), lock=None).assert_outcomes(passed=3)
    run(SOURCE.replace("2_000,", "3_000,"), lock=None).assert_outcomes(passed=2, failed=1)


@pytest.mark.parametrize(
    ("args", "content", "message"),
    [
        ((), None, "there is no file peaks.lock: add --update-peaks to write it"),
        (("--update-peaks",), "text", "peaks.lock is not a file of peaks"),
        ((), "[test]\ntensor = 'much'\n", "peaks.lock is not a file of peaks"),
        (("--peaks-tolerance=some",), "", "'some' is no tolerance: write a percentage"),
    ],
)
def test_a_wrong_option_or_file_says_what_to_write(
    run: Run, args: tuple[str, ...], content: str | None, message: str
) -> None:
    if content is not None:
        Path(LOCK).write_text(content, encoding="utf-8")
    result = run(SOURCE, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])
    assert content is None or Path(LOCK).read_text(encoding="utf-8") == content


def test_an_update_without_a_file_is_an_error(run: Run) -> None:
    result = run(SOURCE, "--update-peaks", lock=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--update-peaks: name the file, such as --tensor-peaks=peaks.lock*"])


# The file and the comparison

LINES = (PeakLine(500, "a.py", "f", "x = ones()", 3), PeakLine(100, "a.py", "f", 'y = "\\\t\x7fö"', 9))


def test_what_was_written_is_read_back() -> None:
    peaks = {'b::test["ö\\n"]': Peak({"torch": 700, "tensor": 1}, LINES), "a::test": Peak({"tensor": 5}, ())}
    text = dump(peaks)
    assert load(text) == peaks
    assert text == dump(load(text))
    assert text.index("a::test") < text.index("b::test")


@pytest.mark.parametrize("text", ["=", "a = 3", "[a]\nlines = 3", "[a]\nlines = [{bytes = 1}]"])
def test_other_texts_are_no_peaks(text: str) -> None:
    with pytest.raises(NoPeaksError):
        load(text)


def test_a_line_that_changed_is_compared_with_the_most_similar_one() -> None:
    before = Peak({"tensor": 600}, LINES)
    after = Peak({"tensor": 900}, (PeakLine(800, "a.py", "f", "x = ones(2)", 5), LINES[1]))
    ((line, old),) = grown_lines(before, after)
    assert (line.number, old) == (5, 500)


def test_lines_that_grew_are_listed_by_their_growth_and_those_that_shrank_are_not() -> None:
    def peak(*sizes: int) -> Peak:
        lines = [PeakLine(nbytes, "a.py", "f", text, 0) for nbytes, text in zip(sizes, "abcde", strict=True)]
        return Peak({"tensor": sum(sizes)}, tuple(lines))

    before, after = peak(9_000, 100, 50, 7, 8), peak(9_100, 900, 250, 7, 6)
    found = [(line.text, line.nbytes, old) for line, old in grown_lines(before, after)]
    assert found == [("b", 900, 100), ("c", 250, 50), ("a", 9_100, 9_000)]


def test_equal_lines_of_a_function_are_added() -> None:
    line = PeakLine(300, "a.py", "f", "x = ones()", 3)
    again = PeakLine(400, "a.py", "f", "x = ones()", 8)
    before, after = Peak({"tensor": 600}, (line, line)), Peak({"tensor": 700}, (line, again))
    ((found, old),) = grown_lines(before, after)
    assert (found.nbytes, found.number, old) == (700, 3, 600)


def test_a_line_of_another_function_or_with_another_text_is_new() -> None:
    before = Peak({"tensor": 600}, LINES)
    others = (
        PeakLine(800, "a.py", "g", "x = ones()", 5),
        PeakLine(700, "b.py", "f", "x = ones()", 5),
        PeakLine(600, "a.py", "f", "model.step(batch, targets)", 5),
    )
    found = grown_lines(before, Peak({"tensor": 2100}, others))
    assert [(line.nbytes, old) for line, old in found] == [(800, None), (700, None), (600, None)]


def test_a_line_is_the_partner_of_one_other_line() -> None:
    before = Peak({"tensor": 500}, LINES[:1])
    lines = (PeakLine(900, "a.py", "f", "x = ones(2)", 5), PeakLine(700, "a.py", "f", "x = ones(3)", 6))
    found = grown_lines(before, Peak({"tensor": 1600}, lines))
    assert [(line.nbytes, old) for line, old in found] == [(700, None), (900, 500)]


def test_a_growth_of_one_byte_beyond_the_tolerance_fails_with_each_library_that_grew() -> None:
    tolerance = Tolerance.read("1 kB")
    before = Peak({"tensor": 5_000, "torch": 4_000}, ())
    assert growth_of(before, Peak({"tensor": 6_000, "torch": 5_000}, ()), tolerance) is None
    text = growth_of(before, Peak({"tensor": 6_001, "torch": 8_000, "jax": 2_000}, ()), tolerance)
    assert text is not None
    assert text.splitlines()[0] == (
        "the peak of memory grew beyond 1 kB: jax 0 -> 2,000 bytes (new), "
        "tensor 5,000 -> 6,001 bytes (+20.0%), torch 4,000 -> 8,000 bytes (+100.0%)"
    )


def test_the_lines_that_grew_are_told_with_what_they_held_before() -> None:
    before = Peak({"tensor": 500}, LINES[:1])
    lines = (PeakLine(70_500, "a.py", "f", "x = ones()", 4), PeakLine(3_000, "a.py", "g", "y", 6))
    text = growth_of(before, Peak({"tensor": 73_500}, lines), Tolerance.read("2%"))
    assert text is not None
    rows = text.splitlines()[1:]
    assert rows[0] == "The lines that held more at the peak:"
    assert "+68.36 KiB (500 -> 70,500 bytes)" in rows[1]
    assert "+2.93 KiB (3,000 bytes, new)" in rows[3]
    assert (rows[2].strip(), rows[4].strip()) == ("x = ones()", "y")


MAKERS = [
    lambda n: tensor.ones((n,)),
    lambda n: tensor.zeros((n,)),
    lambda n: tensor.full((n,), 2.0),
]


@pytest.mark.parametrize("seed", range(20))
def test_the_peak_of_a_random_program_is_that_of_a_model(seed: int) -> None:
    draw = random.Random(seed)
    alive: list[tuple[tensor.Tensor, int, int]] = []  # the tensor, its maker and its buffer
    buffers: dict[int, tuple[int, int]] = {}  # the maker and the bytes of each
    peak = 0
    at_peak: Counter[int] = Counter()
    with scopes.track():
        lines = PeakLines()
        lines.begin()
        for number in range(60):
            if alive and draw.random() < 0.45:
                x, _, buffer = alive.pop(draw.randrange(len(alive)))
                x.dispose()
                if all(other != buffer for _, _, other in alive):
                    del buffers[buffer]
                continue
            if alive and draw.random() < 0.3:
                x, maker, buffer = draw.choice(alive)
                alive.append((x.view(-1), maker, buffer))
            else:
                maker, count = draw.randrange(3), draw.randrange(1_000, 50_000)
                alive.append((MAKERS[maker](count), maker, number))
                buffers[number] = maker, 4 * count
            total = sum(nbytes for _, nbytes in buffers.values())
            if total > peak:
                peak, at_peak = total, Counter()
                for maker, nbytes in buffers.values():
                    at_peak[maker] += nbytes
        lines.end()
    assert lines.peaks() == {"tensor": peak}
    names = {"ones": 0, "zeros": 1, "full": 2}
    found = {names[site.text.split(".")[1].split("(")[0]]: n for site, n in lines.lines().items()}
    assert found == at_peak
    assert list(lines.lines().values()) == sorted(at_peak.values(), reverse=True)


def test_a_growth_without_a_line_is_memory_of_an_operation() -> None:
    text = growth_of(Peak({"tensor": 1000}, LINES), Peak({"tensor": 2000}, LINES), Tolerance.read("2%"))
    assert text is not None
    assert "memory of a running operation" in text


@pytest.mark.parametrize(
    ("text", "nbytes", "most"),
    [("2%", 100_000, 102_000), ("2%", 1000, 1256), ("0%", 10, 266), ("1 kB", 100_000, 101_000), ("0", 5, 5)],
)
def test_a_tolerance_is_a_part_or_a_size(text: str, nbytes: int, most: int) -> None:
    assert Tolerance.read(text).most(nbytes) == most


def test_a_tensor_that_is_created_while_another_one_is_counted_counts_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (kind,) = [kind for kind in tensor_classes if issubclass(tensor.Tensor, kind)]
    functions = tensor_classes[kind]
    late: list[object] = []

    def are_alive(watches: list[object]) -> list[bool]:
        found = functions.are_alive(watches)
        if not late:  # as a finalizer may do, which the garbage collector runs here
            late.append(tensor.ones((6_000,)))
            dropped.clear()
        return found

    monkeypatch.setitem(tensor_classes, kind, functions._replace(are_alive=are_alive))
    with scopes.track():
        lines = PeakLines()
        lines.begin()
        dropped = [tensor.ones((5_000,)) for _ in range(3)]
        for x in [tensor.ones((9_000,)), tensor.ones((9_500,))]:
            x.dispose()
        kept = tensor.ones((30_000,))
        lines.end()
    assert (len(late), len(dropped), kept.shape) == (1, 0, (30_000,))
    by_text = {site.text: nbytes for site, nbytes in lines.lines().items()}
    assert by_text["late.append(tensor.ones((6_000,)))"] == 24_000
    assert lines.peaks() == {"tensor": (30_000 + 3 * 5_000 + 6_000) * 4}
