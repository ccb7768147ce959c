"""Write reports as one self-contained HTML page: sortable tables with a filter, and a chart of memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from scopes._shared.files import PAGE_MARK, require_ours
from scopes._shared.sizes import format_bytes

if TYPE_CHECKING:
    from os import PathLike


class Curve(NamedTuple):
    """One line of a chart."""

    name: str
    #: Pairs of seconds and bytes.
    points: Sequence[tuple[float, int]]


def page(
    title: str, tables: str, facts: Sequence[str] = (), chart: str = "", choices: Sequence[str] = ()
) -> str:
    """Return a page with HTML `tables`, `facts` under the title, and a chart.

    `choices` are values of a column. The page offers them in a list, and shows the rows with the chosen
    value.
    """
    items = "".join([f"<li>{escape(fact)}</li>" for fact in (*facts, time.strftime("%Y-%m-%d %H:%M:%S"))])
    return _PAGE.format(
        mark=PAGE_MARK,
        title=escape(title),
        facts=items,
        style=_STYLE,
        chart=chart,
        choices=_list_of(choices),
        tables=tables,
        script=_SCRIPT,
    )


def _list_of(choices: Sequence[str]) -> str:
    if not choices:
        return ""
    options = "".join([f"<option>{escape(choice)}</option>" for choice in choices])
    return f' <select aria-label="Show the rows of"><option value="">all</option>{options}</select>'


def write_page(path: str | PathLike[str], text: str) -> None:
    """Write `text` to `path`. Raise FileExistsError if a file of the user exists there."""
    # The name of a file on Linux may have bytes that are no text.
    require_ours(path).write_text(text, encoding="utf-8", errors="backslashreplace")


_WIDTH, _HEIGHT = 800, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 2, 2, 4, 4


def chart_of(whole: Curve, parts: Sequence[Curve]) -> str:
    """Return a chart of memory over time: `whole` as an area, `parts` as lines.

    Return '' if `whole` has fewer than two points.
    """
    if len(whole.points) < 2:
        return ""
    begin, end = whole.points[0][0], max(whole.points[-1][0], whole.points[0][0] + 1e-9)
    highest = max([1, *[nbytes for curve in (whole, *parts) for _, nbytes in curve.points]])

    def place(point: tuple[float, int]) -> tuple[str, str]:
        x = _LEFT + (point[0] - begin) / (end - begin) * (_WIDTH - _LEFT - _RIGHT)
        y = _HEIGHT - _BOTTOM - point[1] / highest * (_HEIGHT - _TOP - _BOTTOM)
        return f"{x:.1f}", f"{y:.1f}"

    def steps(points: Sequence[tuple[float, int]]) -> str:
        x, y = place(points[0])
        drawn = [f"M{x} {y}"]
        for x, y in map(place, points[1:]):
            drawn.append(f"H{x}V{y}")
        return "".join(drawn)

    floor = _HEIGHT - _BOTTOM
    heights = [(nbytes, place((begin, nbytes))[1]) for nbytes in _marks(highest)]
    grid = "".join([f'<path class="mark" d="M{_LEFT} {y}H{_WIDTH - _RIGHT}"/>' for _, y in heights])
    # Text in HTML: in the drawing it would shrink with it on a narrow screen.
    scale = "".join(
        [
            f'<span style="top: {float(y) / _HEIGHT:.1%}">{format_bytes(nbytes)}</span>'
            for nbytes, y in heights
        ]
    )
    area = f"{steps(whole.points)}V{floor}H{_LEFT}Z"
    lines = "".join(
        [
            f'<path class="line c{n}" d="{steps(curve.points)}"/>'
            for n, curve in enumerate(parts)
            if curve.points
        ]
    )
    legend = "".join([f'<li class="c{n}">{escape(curve.name)}</li>' for n, curve in enumerate(parts)])
    return (
        f"<figure><p>{format_bytes(highest)} at most, with 256 bytes for each operation of a graph</p>"
        f'<div class="scale"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="memory over time">'
        f'<path class="area" d="{area}"/>{grid}{lines}'
        f'<path class="axis" d="M{_LEFT} {floor}H{_WIDTH - _RIGHT}"/></svg>{scale}</div>'
        f'<p class="ends"><span>{begin:.3g} s</span><span>{end:.3g} s</span></p>'
        f'<figcaption><ul><li class="whole">{escape(whole.name)}</li>{legend}</ul></figcaption></figure>'
    )


def _marks(highest: int) -> list[int]:
    """Return the bytes that a chart up to `highest` marks: two or three multiples of a power of two."""
    step = 1 << max(0, highest.bit_length() - 2)
    return list(range(step, highest + 1, step))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{mark}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<ul class="facts">{facts}</ul>
</header>
{chart}
<p><input type="search" placeholder="Show the rows with ..." aria-label="Show the rows with">{choices}</p>
{tables}
<script>{script}</script>
</body>
</html>
"""

_STYLE = """
:root { --text: #1c2024; --back: #fff; --soft: #5d666f; --head: #f3f5f7; --rule: #d8dce0; --hover: #fff8e1;
  --area: #c9d1d9; --c0: #c2410c; --c1: #1d4ed8; --c2: #047857; --c3: #7e22ce; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8ea; --back: #16191c; --soft: #9aa4ae; --head: #24292e; --rule: #363c42;
    --hover: #2c2a1f; --area: #3b444d; --c0: #fb923c; --c1: #7cb0ff; --c2: #4ade9f; --c3: #d8a4ff; }
}
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: var(--text); background: var(--back); }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; overflow-wrap: anywhere; }
ul { list-style: none; margin: 0; padding: 0; }
.facts { color: var(--soft); display: flex; flex-wrap: wrap; gap: 0 1.5rem; overflow-wrap: anywhere; }
figure { margin: 1.2rem 0; max-width: 60rem; }
figure svg { display: block; width: 100%; height: auto; }
figure .area { fill: var(--area); }
figure .line { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
figure .axis { stroke: var(--soft); }
figure .mark { stroke: var(--soft); stroke-dasharray: 2 4; vector-effect: non-scaling-stroke; }
figure .scale { position: relative; }
figure .scale span { position: absolute; left: .3em; transform: translateY(-100%); color: var(--soft);
  font-size: .85em; }
figure p { margin: 0; color: var(--soft); }
figure .ends { display: flex; justify-content: space-between; }
figcaption li { display: inline-block; margin-right: 1.5rem; overflow-wrap: anywhere; }
figcaption li::before { content: ""; display: inline-block; width: .8em; height: .8em; margin-right: .4em;
  background: currentColor; }
.whole::before { background: var(--area) !important; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); }
li.c0::before { background: var(--c0); } li.c1::before { background: var(--c1); }
li.c2::before { background: var(--c2); } li.c3::before { background: var(--c3); }
select { font: inherit; padding: .3rem .6rem; color: inherit; background: var(--back);
  border: 1px solid var(--rule); border-radius: 4px; }
input { font: inherit; width: min(100%, 24rem); box-sizing: border-box; padding: .3rem .6rem;
  color: inherit; background: var(--back); border: 1px solid var(--rule); border-radius: 4px; }
.scroll { overflow-x: auto; }
table.disposescope { border-collapse: collapse; }
table.disposescope caption { text-align: left; font-weight: 600; padding-bottom: .6rem; }
table.disposescope th, table.disposescope td { padding: .25rem .8rem; border-bottom: 1px solid var(--rule); }
table.disposescope th { cursor: pointer; background: var(--head); white-space: nowrap; }
table.disposescope th[aria-sort=ascending]::after { content: " \\25b2"; }
table.disposescope th[aria-sort=descending]::after { content: " \\25bc"; }
table.disposescope td { vertical-align: top; }
table.disposescope th.words { text-align: left; }
table.disposescope .figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table.disposescope td.words { font-family: ui-monospace, monospace; white-space: pre-wrap; }
table.disposescope td.words:last-child { overflow-wrap: anywhere; }
table.disposescope br { display: none; }
table.disposescope code { display: block; color: var(--soft); padding-left: 2em; }
table.disposescope tbody tr:hover { background: var(--hover); }
@media (max-width: 640px) {
  body { margin: 1rem; }
  table.disposescope, table.disposescope tbody, table.disposescope caption { display: block; }
  table.disposescope thead { display: none; }
  table.disposescope tr { display: flex; flex-direction: column; padding: .5rem 0;
    border-bottom: 1px solid var(--rule); }
  table.disposescope tr[hidden] { display: none; }
  table.disposescope td { display: block; border: 0; padding: .05rem 0; }
  table.disposescope td { text-align: left !important; overflow-wrap: anywhere; }
  table.disposescope td::before { content: attr(data-label) " "; color: var(--soft);
    font-family: system-ui, sans-serif; }
  table.disposescope td:empty, table.disposescope td[data-empty] { display: none; }
  table.disposescope td[data-label="created by"] { order: -1; }
  table.disposescope code { padding-left: 1em; }
}
"""

# A browser takes seconds to lay out 100,000 rows, so the page adds rows while the user scrolls.
_SCRIPT = """
const PART = 1000;
class Rows {
  constructor(table) {
    this.body = table.tBodies[0];
    this.all = [...this.body.rows];
    this.matching = this.all;
    this.end = document.createElement("div");
    table.after(this.end);
    this.observer = new IntersectionObserver(found => { if (found.at(-1).isIntersecting) this.more(); },
      {rootMargin: "2000px"});
    this.observer.observe(this.end);
    this.show();
  }
  show() {
    this.body.replaceChildren(...this.matching.slice(0, PART));
  }
  more() {
    const shown = this.body.rows.length;
    if (shown < this.matching.length) {
      this.body.append(...this.matching.slice(shown, shown + PART));
      // Observe it again, so that the browser reports whether it is still near.
      this.observer.unobserve(this.end);
      this.observer.observe(this.end);
    }
  }
  filter(wanted, chosen) {
    this.texts ??= new Map(this.all.map(row => [row, row.textContent.toLowerCase()]));
    const column = [...this.body.parentNode.querySelectorAll("th")].findIndex(th => "choice" in th.dataset);
    const isChosen = row => !chosen || column < 0 || row.cells[column].textContent === chosen;
    const isWanted = row => this.texts.get(row).includes(wanted) && isChosen(row);
    this.matching = wanted || chosen ? this.all.filter(isWanted) : this.all;
    this.show();
  }
  sort(column, compare) {
    const sorted = rows => rows.map(row => [row.cells[column].dataset.order, row])
      .sort((a, b) => compare(a[0], b[0])).map(pair => pair[1]);
    const isFiltered = this.matching !== this.all;
    this.all = sorted(this.all);
    this.matching = isFiltered ? sorted(this.matching) : this.all;
    this.show();
  }
}
const tables = [...document.querySelectorAll("table.disposescope")].map(table => new Rows(table));
const words = new Intl.Collator();
for (const heading of document.querySelectorAll("table.disposescope th")) {
  heading.addEventListener("click", () => {
    const table = heading.closest("table"), isFigure = heading.className === "figure";
    const isDown = heading.ariaSort ? heading.ariaSort === "ascending" : isFigure;
    for (const other of table.querySelectorAll("th")) other.ariaSort = null;
    heading.ariaSort = isDown ? "descending" : "ascending";
    const compare = isFigure ? (a, b) => a - b : words.compare;
    const rows = tables.find(each => each.body === table.tBodies[0]);
    rows.sort(heading.cellIndex, isDown ? (a, b) => compare(b, a) : compare);
  });
}
const search = document.querySelector("input[type=search]");
const choice = document.querySelector("select");
let waiting;
const filter = () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    for (const rows of tables) rows.filter(search.value.toLowerCase(), choice?.value ?? "");
  }, tables.some(rows => rows.all.length > PART) ? 200 : 0);
};
search.addEventListener("input", filter);
choice?.addEventListener("change", filter);
"""
