"""The page on performance: goals, tables and plots out of the JSON files of runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.catalogue import FAMILIES, all_cases
from benchmarks.claims import GOALS, verdicts
from benchmarks.contenders import NUMPY, OURS, TORCH
from benchmarks.results import Runs

pytest.importorskip("rich")

KINDS = ("together", "peaks", "scaling", "alone", "pythons")
VERSIONS = {name: {"python": name, "numpy": "2.4.6"} for name in ("3.11.7", "3.12.1")}


def run(cases: dict[str, dict[str, float]]) -> dict[str, object]:
    return {
        "date": "2026-11-22T04:00:00+00:00",
        "quick": False,
        "machine": {"cpu": "a CPU", "cpu_count": 2, "architecture": "x", "system": "Linux", "threads": 2},
        "versions": {"python": "3.11.7", "disposescope": "0.1.0", "numpy": "2.4.6", "torch": "2.13.0"},
        "pythons": VERSIONS,
        "cases": [
            {
                "name": name,
                "unit": "seconds per repetition",
                "contenders": {who: {"median": x, "relative": x} for who, x in medians.items()},
                "disturbed": name == "ops/add 100,000",
            }
            for name, medians in cases.items()
        ],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    together = {
        "ops/add 1": {OURS: 1e-6, NUMPY: 5e-7, TORCH: 2e-6},
        "ops/add 1,000": {OURS: 1e-5, NUMPY: 2e-5, TORCH: 1.5e-5},
        "ops/add 100,000": {OURS: 1e-5, NUMPY: 2e-5, TORCH: 1.5e-5},  # disturbed, as `run` says
        "scopes/dispose each of 1,000": {OURS: 5e-7},
    }
    grows = {
        f"scaling/dispose, tensors in a scope: {count:,}": {OURS: 3e-7 + count / 1e13, TORCH: 2e-7}
        for count in (1_000, 1_000_000)
    }
    alone = {"ops/add 1": {OURS: 1e-6, NUMPY: 5e-7, TORCH: 9e-7}}
    pythons = {"ops/add 1": {"3.11.7": 1e-6, "3.12.1": 1.5e-6}}
    peaks: dict[str, dict[str, float]] = {}
    for kind, cases in zip(KINDS, (together, peaks, grows, alone, pythons), strict=True):
        (tmp_path / f"{kind}.json").write_text(json.dumps(run(cases)), encoding="utf-8")
    return tmp_path


def test_goal_is_judged_by_the_worst_ratio_of_both_ways_to_measure(folder: Path):
    runs = Runs.read(folder)
    assert runs.judged("ops/add 1", TORCH) == pytest.approx(0.9)
    assert runs.judged("ops/add 1,000", TORCH) == pytest.approx(1.5)
    assert runs.judged("scopes/dispose each of 1,000", TORCH) is None
    found = {verdict.goal: verdict for verdict in verdicts(runs)}
    op = found["op on one element in a scope"]
    assert (op.found, op.case, op.holds) == ("0.90", "ops/add 1", False)
    assert found["disposal is linear"].found == "1.33"
    assert not found["ours on each Python"].holds
    assert len(found) == 3  # goals of which there are no figures are left out


def test_goals_name_cases_that_exist():
    names = [case.name for case in all_cases()]
    for goal, pattern, _ in GOALS:
        assert any(re.match(pattern, name) for name in names), goal


def test_tables_show_medians_and_both_ratios(folder: Path):
    blocks = document.blocks(Runs.read(folder))
    assert set(FAMILIES) < set(blocks)
    assert blocks["ops"].splitlines() == [
        "| case | ours | NumPy | PyTorch | PyTorch / ours | alone | NumPy / ours | alone |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| add 1 | 1 us | 500 ns | 2 us | 2.00 | 0.90 | 0.50 | 0.50 |",
        "| add 1,000 | 10 us | 20 us | 15 us | 1.50 |  | 2.00 |  |",
    ]
    assert "| ops/add 1 | 0.90 | 2.00 | 0.90 |" in blocks["behind"]
    assert "ops/add 1,000" not in blocks["behind"]
    assert "| ops/add 1 | 1 us | 1.5 us | 1.50 |" in blocks["pythons"]
    assert "2026-11-22: a CPU, 2 cores" in blocks["run"]


def test_measurements_on_a_loaded_machine_are_named_and_not_printed(folder: Path):
    blocks = document.blocks(Runs.read(folder))
    assert "Left out, for others used the machine: ops/add 100,000." in blocks["run"]
    assert [name for name, text in blocks.items() if "100,000" in text] == ["run"]


def test_the_page_opens_with_where_we_are_ahead_level_and_behind(folder: Path):
    ahead, level, behind = document.blocks(Runs.read(folder))["summary"].split("\n\n")
    assert ahead == "**Ahead of PyTorch** in the worst case of: nothing."
    assert level == "**Level**, within a tenth: op on one element in a scope (0.90)."
    assert behind == "**Behind**: nothing."
    # Before it, the page says in words what was measured, in one section.
    before, _, _ = document.PAGE.read_text(encoding="utf-8").partition("<!-- begin summary -->")
    assert before.startswith("# Performance\n\nWe timed this library next to PyTorch and NumPy")
    assert "\n##" not in before


def test_the_page_keeps_the_text_outside_of_the_markers():
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
    filled = document.filled(page, {"x": "new", "y": "unused"})
    assert filled == "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb\n"
    assert document.filled(filled, {"x": "new"}) == filled
    with pytest.raises(ValueError, match=r"nothing fills: \['x'\]"):
        document.filled(page, {})


def test_every_block_of_the_page_can_be_filled_and_none_is_forgotten(folder: Path):
    blocks = set(document.blocks(Runs.read(folder)))
    assert {
        match[2] for match in document.BLOCK.finditer(document.PAGE.read_text(encoding="utf-8"))
    } == blocks


def test_the_command_writes_the_page_and_draws_the_plots(folder: Path, capsys):
    pytest.importorskip("matplotlib")
    page = folder / "page.md"
    page.write_text(document.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert document.main([str(folder), "--page", str(page)]) == 0
    assert "| add 1 | 1 us |" in page.read_text(encoding="utf-8")
    assert (folder / "performance_standings.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "performance_tensors.png").read_bytes().startswith(b"\x89PNG")
    assert "performance_tensors.png" in capsys.readouterr().out


def test_pictures_of_the_page_exist():
    page = document.PAGE.read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((performance_\w+\.png)\)", page)
    assert len(pictures) == 5
    assert all((document.PAGE.parent / name).exists() for name in pictures)


def test_a_case_is_judged_by_its_worst_instruction_set(folder: Path):
    for level, theirs in (("avx2", 3e-6), ("avx512", 5e-6)):
        (folder / f"{level}.json").write_text(
            json.dumps(run({"fresh/add 10,000": {OURS: 4e-6, TORCH: theirs}})), encoding="utf-8"
        )
    runs = Runs.read(folder)
    assert runs.judged("fresh/add 10,000", TORCH) == 0.75
    texts = document.blocks(runs)
    assert "| add 10,000 | 0.75 | 1.25 | 0.75 |" in texts["fresh"]
    assert "fresh/add 10,000" in texts["behind"]


def test_instruction_sets_are_judged_by_the_worst_of_them(tmp_path: Path):
    pytest.importorskip("matplotlib")
    fresh, op = "fresh/add 10,000", "ops/add 1"
    (tmp_path / "avx2.rows.json").write_text(
        json.dumps(run({fresh: {OURS: 2e-6, TORCH: 1e-6}})), encoding="utf-8"
    )
    (tmp_path / "avx2.networks.json").write_text(
        json.dumps(run({op: {OURS: 1e-6, TORCH: 4e-6}})), encoding="utf-8"
    )
    (tmp_path / "avx512.rows.json").write_text(
        json.dumps(run({fresh: {OURS: 1e-6, TORCH: 3e-6}})), encoding="utf-8"
    )
    page = tmp_path / "page.md"
    (tmp_path / "peaks.json").write_text(
        json.dumps(run({"peaks/process: some": {OURS: 100, TORCH: 120}})), encoding="utf-8"
    )
    blocks = ("summary", "levels", "levels behind", "fresh", "goals")
    page.write_text(
        "".join(f"<!-- begin {name} -->\nold {name}\n<!-- end {name} -->\n" for name in blocks),
        encoding="utf-8",
    )
    assert document.main([str(tmp_path), "--levels", f"--page={page}"]) == 0
    text = page.read_text(encoding="utf-8")
    assert "| three fresh results a step | >= 1.0 | 0.50 | 3.00 | **no** | fresh/add 10,000 |" in text
    assert "| op on one element in a scope | >= 2.5 | 4.00 |  | yes | ops/add 1 |" in text
    assert "| fresh/add 10,000 | 0.50 | 3.00 |" in text
    assert "| add 10,000 | 0.50 | 3.00 | 0.50 |" in text
    assert "worst case of: op on one element in a scope (4.00); peak memory (1.20)." in text
    assert "**Behind**: three fresh results a step (0.50)." in text
    assert "old goals" in text
    assert (tmp_path / "performance_standings.png").exists()
