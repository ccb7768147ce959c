"""Fill the tables of the page on performance, and draw its plots: `python -m benchmarks.document FOLDER`.

This module generates the text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` in the page from the
JSON files in the folder. People write the rest of the page.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.catalogue import FAMILIES, family_of
from benchmarks.claims import AHEAD, BEHIND, GOALS, standings, verdicts
from benchmarks.contenders import CONTENDERS, NUMPY, TORCH
from benchmarks.plots import draw, draw_standings
from benchmarks.report import HEADINGS, figure
from benchmarks.results import Measurement, Run, Runs

PAGE = ROOT / "docs" / "performance.md"
BLOCK = re.compile(r"(<!-- begin (.+?) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def main(arguments: list[str] | None = None) -> int:
    """Write the tables into the page and the plots beside it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.document", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder that `python -m benchmarks.performance` wrote")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page (default: docs/performance.md)")
    parser.add_argument(
        "--levels", action="store_true", help="only the summary and the tables of instruction sets"
    )
    options = parser.parse_args(arguments)
    runs = Runs.read_levels(options.folder) if options.levels else Runs.read(options.folder)
    texts = {"summary": _summary(runs), **of_levels(runs.levels)} if options.levels else blocks(runs)
    text = filled(options.page.read_text(encoding="utf-8"), texts, partly=options.levels)
    options.page.write_text(text, encoding="utf-8")
    folder = options.page.parent
    drawn = [draw_standings(standings(runs), folder)]
    if not options.levels:
        drawn += draw(runs.together, folder)
    print("written:", *(path.name for path in (options.page, *drawn)))
    return 0


def filled(page: str, texts: Mapping[str, str], *, partly: bool = False) -> str:
    """Return the page with the text of each block. With `partly`, blocks without a text stay."""
    missing = {match[2] for match in BLOCK.finditer(page)} - set(texts)
    if missing and not partly:
        raise ValueError(
            f"the page has blocks that nothing fills: {sorted(missing)}; there are {list(texts)}"
        )

    def text(match: re.Match[str]) -> str:
        found = texts.get(match[2])
        return match[0] if found is None else f"{match[1]}\n{found.strip()}\n\n{match[3]}"

    return BLOCK.sub(text, page)


def blocks(runs: Runs) -> dict[str, str]:
    """Return the text of each block by its name: the summary, and each family's table."""
    families = {family: _family(runs, family) for family in FAMILIES}
    return {
        "summary": _summary(runs),
        "run": _run(runs),
        "goals": _goals(runs),
        "behind": _behind(runs),
        "pythons": _pythons(runs.pythons),
        **families,
        **of_levels(runs.levels),
    }


def of_levels(levels: Mapping[str, Run]) -> dict[str, str]:
    """Return the text of each block about instruction sets."""
    names = dict.fromkeys(name for run in levels.values() for name in run.cases)
    ratios = {
        name: {level: ratio for level, run in levels.items() if (ratio := _found(run.cases.get(name)))}
        for name in names
    }
    return {
        "levels run": _run_of_levels(levels),
        "levels": _goals_of_levels(list(levels), ratios),
        "levels behind": _behind_at_levels(list(levels), ratios),
        "fresh": table(
            ("case", *levels, "worst"),
            [_row(name, levels, found) for name, found in ratios.items() if family_of(name) == "fresh"],
        ),
    }


def _found(case: Measurement | None) -> float | None:
    return case.ratio(TORCH) if case else None


def _row(name: str, levels: Iterable[str], found: Mapping[str, float]) -> Sequence[str]:
    figures = [f"{found[level]:.2f}" if level in found else "" for level in levels]
    return name.partition("/")[2], *figures, f"{min(found.values()):.2f}" if found else ""


def _run_of_levels(levels: Mapping[str, Run]) -> str:
    if not levels:
        return "Not measured yet."
    report = next(iter(levels.values())).report
    quick = " A quick run, with a quarter of the rounds." if report["quick"] else ""
    if report.get("least"):
        quick = " Others used the machine meanwhile, so the least of 30 rounds counts instead of the median."
    disturbed = [f"{name} ({level})" for level, run in levels.items() for name in run.disturbed]
    left_out = f" Left out, for others used the machine: {', '.join(disturbed)}." if disturbed else ""
    return f"Measured on {report['date'][:10]}: {report['machine']['cpu']}.{quick}{left_out}"


def _goals_of_levels(levels: Sequence[str], ratios: Mapping[str, Mapping[str, float]]) -> str:
    """List for each goal its worst case on each instruction set."""
    rows = []
    for goal, pattern, least in GOALS:
        worst = {
            level: min(
                (
                    (found[level], name)
                    for name, found in ratios.items()
                    if re.match(pattern, name) and level in found
                ),
                default=None,
            )
            for level in levels
        }
        measured = [found for found in worst.values() if found is not None]
        if measured:
            figures = [f"{found[0]:.2f}" if (found := worst[level]) is not None else "" for level in levels]
            ratio, name = min(measured)
            rows.append((goal, f">= {least}", *figures, "yes" if ratio >= least else "**no**", name))
    return table(("goal", "asked", *levels, "reached", "worst case"), rows)


def _behind_at_levels(levels: Sequence[str], ratios: Mapping[str, Mapping[str, float]]) -> str:
    """List the cases in which PyTorch is ahead on at least one instruction set, the worst first."""
    behind = {
        name: min(found.values()) for name, found in ratios.items() if found and min(found.values()) < 1
    }
    rows = [
        (name, *_row(name, levels, ratios[name])[1:-1]) for name in sorted(behind, key=behind.__getitem__)
    ]
    return table(("case", *levels), rows) if rows else "Nowhere, in what is measured here."


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table whose first column is text and whose others are figures."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _summary(runs: Runs) -> str:
    """Return sentences on the goals that are ahead, level and behind, by the worst case of each goal."""
    found: dict[str, list[str]] = {"ahead": [], "level": [], "behind": []}
    for standing in standings(runs):
        worst = standing.ratios[standing.worst]
        where = "ahead" if worst >= AHEAD else "behind" if worst < BEHIND else "level"
        found[where].append(f"{standing.goal} ({worst:.2f})")
    told = {where: "; ".join(goals) if goals else "nothing" for where, goals in found.items()}
    return "\n\n".join(
        (
            f"**Ahead of PyTorch** in the worst case of: {told['ahead']}.",
            f"**Level**, within a tenth: {told['level']}.",
            f"**Behind**: {told['behind']}.",
        )
    )


def _run(runs: Runs) -> str:
    report = runs.together.report
    machine, versions = report["machine"], report["versions"]
    quick = " A quick run, with a quarter of the rounds." if report["quick"] else ""
    disturbed = {name for run in (*runs.compared, runs.pythons) for name in run.disturbed}
    left_out = f" Left out, for others used the machine: {', '.join(sorted(disturbed))}." if disturbed else ""
    return (
        f"Measured on {report['date'][:10]}: {machine['cpu']}, {machine['cpu_count']} cores, "
        f"{machine['system']} on {machine['architecture']}; {machine['threads']} threads for each contender. "
        f"Python {versions['python']}, NumPy {versions['numpy']}, PyTorch {versions['torch']}."
        f"{quick}{left_out}"
    )


def _goals(runs: Runs) -> str:
    rows = [
        (verdict.goal, verdict.asked, verdict.found, "yes" if verdict.holds else "**no**", verdict.case)
        for verdict in verdicts(runs)
    ]
    return table(("goal", "asked", "worst", "reached", "worst case"), rows)


def _behind(runs: Runs) -> str:
    """List the cases in which PyTorch is ahead, the worst first."""
    ratios = {
        name: ratio for name in runs.names if (ratio := runs.judged(name, TORCH)) is not None and ratio < 1
    }
    if not ratios:
        return "Nowhere, in what is measured here."
    rows = [
        (
            name,
            f"{ratios[name]:.2f}",
            *(_ratio(run.cases.get(name), TORCH) for run in runs.compared),
        )
        for name in sorted(ratios, key=ratios.__getitem__)
    ]
    return table(("case", "PyTorch / ours", "in one process", "alone", *runs.levels), rows)


def _family(runs: Runs, family: str) -> str:
    def cases_of(run: Run) -> list[Measurement]:
        return [case for case in run.cases.values() if family_of(case.name) == family]

    together, alone = cases_of(runs.together), cases_of(runs.alone)
    cases = together or alone
    contenders = [who for who in CONTENDERS if any(who in case.medians for case in cases)]
    others = [who for who in (TORCH, NUMPY) if who in contenders]
    has_alone = bool(together and alone)
    headings = [HEADINGS[who] for who in contenders]
    for other in others:
        headings.append(f"{HEADINGS[other]} / ours")
        headings += ["alone"] if has_alone else []

    def row(case: Measurement) -> Iterator[str]:
        yield case.name.partition("/")[2]
        for who in contenders:
            yield figure(case.medians[who], case.unit) if who in case.medians else ""
        for other in others:
            yield _ratio(case, other)
            if has_alone:
                yield _ratio(runs.alone.cases.get(case.name), other)

    return table(("case", *headings), [list(row(case)) for case in cases])


def _pythons(run: Run) -> str:
    names = list(run.report["pythons"])
    headings = [f"{name}, NumPy {run.report['pythons'][name]['numpy']}" for name in names]
    rows = [
        (
            case.name,
            *(figure(case.medians[name], case.unit) for name in names),
            f"{case.spread:.2f}",
        )
        for case in run.cases.values()
    ]
    return table(("case", *headings, "worst / best"), rows)


def _ratio(case: Measurement | None, other: str) -> str:
    ratio = case.ratio(other) if case else None
    return "" if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    sys.exit(main())
