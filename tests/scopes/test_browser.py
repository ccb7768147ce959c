"""The report as a page, in a real browser: Debian's ``chromium`` and ``chromium-driver``, by Selenium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import scopes
import tensor
from scopes.reports.history import History
from scopes.reports.pages import page
from scopes.reports.tables import Cell, Report, Table, as_html, figure, size, words

webdriver = pytest.importorskip("selenium.webdriver")
Select = pytest.importorskip("selenium.webdriver.support.select").Select
WebDriverWait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("needs chromium and chromedriver", allow_module_level=True)

ROWS = 100_000


class Names(Report):
    """A report with many rows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def _table(self) -> Table:
        headings = (("number", True), ("bytes", True), ("name", False))
        rows: list[tuple[Cell, ...]] = [
            (figure(n), size(n * 7919 % self.count), words(f"row {n}")) for n in range(self.count)
        ]
        return Table("names", headings, rows)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield found
    found.quit()


def opened(browser: Any, path: Path) -> Any:
    browser.get(path.as_uri())
    return browser


def column(browser: Any, number: int, most: int = 5) -> list[str]:
    """The text of the first rows that are shown, in one column."""
    return browser.execute_script(
        "return [...document.querySelectorAll('tbody tr:not([hidden])')].slice(0, arguments[1])"
        ".map(row => row.cells[arguments[0]].textContent)",
        number,
        most,
    )


def click(browser: Any, heading: str) -> None:
    browser.execute_script(
        "[...document.querySelectorAll('th')].find(each => each.textContent === arguments[0]).click()",
        heading,
    )


def search(browser: Any, text: str) -> None:
    field = browser.find_element("css selector", "input[type=search]")
    field.clear()
    field.send_keys(text)


def errors(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_click_sorts_and_the_field_filters(browser: Any, tmp_path: Path) -> None:
    Names(30).to_html(tmp_path / "page.html")
    opened(browser, tmp_path / "page.html")
    assert column(browser, 0, 3) == ["0", "1", "2"]
    click(browser, "number")
    assert column(browser, 0, 3) == ["29", "28", "27"]  # figures: the largest first
    click(browser, "number")
    assert column(browser, 0, 3) == ["0", "1", "2"]
    click(browser, "name")
    assert column(browser, 2, 3) == ["row 0", "row 1", "row 10"]
    search(browser, "row 2")
    expected = ["row 2", *[f"row {n}" for n in range(20, 30)]]
    waited_for(browser, lambda: column(browser, 2, 99) == expected)
    assert errors(browser) == []


def test_a_list_shows_the_rows_of_one_worker(browser: Any, tmp_path: Path) -> None:
    headings = (("worker", False), ("bytes", True))
    rows = [(words(f"worker {n % 12}"), size(n)) for n in range(48)]
    tables = "\n".join([as_html(Table("lines", headings, rows, choice="worker"), is_styled=False)] * 2)
    names = [f"worker {rank}" for rank in range(12)]
    (tmp_path / "page.html").write_text(page("kept", tables, choices=names), encoding="utf-8")
    opened(browser, tmp_path / "page.html")
    chosen = Select(browser.find_element("css selector", "select"))
    chosen.select_by_visible_text("worker 1")  # and not worker 10 and 11
    waited_for(browser, lambda: column(browser, 0, 99) == ["worker 1"] * 8)
    search(browser, "13 bytes")
    waited_for(browser, lambda: column(browser, 1, 99) == ["13 bytes"] * 2)
    chosen.select_by_visible_text("all")
    search(browser, "worker")
    waited_for(browser, lambda: len(column(browser, 0, 99)) == 96)
    assert errors(browser) == []


def test_the_chart_is_drawn_inside_its_frame(browser: Any, tmp_path: Path) -> None:
    history, kept = History(), []
    with scopes.track():
        history.begin()
        kept += [tensor.ones((1000,)) for _ in range(100)]
        report = history.look()
        history.end()
    (tmp_path / "page.html").write_text(
        page("kept", report._repr_html_(), (), history.chart(report)), encoding="utf-8"
    )
    opened(browser, tmp_path / "page.html")
    area, frame, lines = browser.execute_script(
        "const box = (selector) => { const r = document.querySelector(selector).getBoundingClientRect();"
        " return [r.left, r.top, r.right, r.bottom]; };"
        "return [box('svg .area'), box('svg'), document.querySelectorAll('svg .line').length]"
    )
    assert lines == 1
    assert area[2] - area[0] > 0.9 * (frame[2] - frame[0])
    assert area[3] - area[1] > 0.8 * (frame[3] - frame[1])
    assert frame[0] <= area[0]
    assert area[2] <= frame[2]
    assert errors(browser) == []


def test_100_000_rows_scroll_sort_and_filter(browser: Any, tmp_path: Path) -> None:
    Names(ROWS).to_html(tmp_path / "page.html")
    opened(browser, tmp_path / "page.html")
    count = "return document.querySelectorAll('tbody tr').length"
    for _ in range(3):
        shown = browser.execute_script(count)
        browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")
        waited_for(browser, lambda shown=shown: browser.execute_script(count) > shown)
    assert column(browser, 0, 4000)[:3000] == [f"{n:,}" for n in range(3000)]
    click(browser, "number")
    assert column(browser, 0, 2) == [f"{ROWS - 1:,}", f"{ROWS - 2:,}"]
    search(browser, "row 9999")
    names = [*[f"row {n}" for n in range(99_999, 99_989, -1)], "row 9999"]
    waited_for(browser, lambda: column(browser, 2, 99) == names)
    assert errors(browser) == []


def waited_for(browser: Any, condition: Callable[[], bool]) -> None:
    WebDriverWait(browser, 120).until(lambda _: condition())
