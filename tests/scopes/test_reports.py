import builtins
import html.parser
import io
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import scopes
from scopes import leaks, new_dispose_scope, scope_tree, track
from scopes.reports import pages
from scopes.reports.pages import Curve, chart_of
from scopes.reports.tables import SHOWN, Cell, Report, Table, figure, size, words
from tests.things import Thing

ROOT = Path(__file__).parents[2]
VOID = {"meta", "br", "input"}


class Page(html.parser.HTMLParser):
    """Reads a page: that each tag is closed in its turn, and what the cells say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


class Fruit(Report):
    """A report of this test's."""

    def __init__(self, *rows: tuple[Cell, ...]) -> None:
        self.rows = rows

    def _table(self) -> Table:
        headings = (("name", False), ("bytes", True), ("how", False))
        return Table("fruit & <b>veg</b>", headings, self.rows, "and {} more fruit")


def row(name: str, nbytes: int, how: str, more: str = "") -> tuple[Cell, ...]:
    return words(name), size(nbytes), Cell(how, how, more)


FRUIT = Fruit(row("apple", 3 * 2**20, "a.py:3 in f", "x = [1] < [2]"), row("fig", 10, "b.py:10 in <module>"))


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real = builtins.__import__

    def missing(name: str, *args: object, **kwargs: object) -> object:
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError("No module named 'rich'", name="rich")
        return real(name, *args, **kwargs)

    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
            patch.delitem(sys.modules, name)
        patch.setattr(builtins, "__import__", missing)
        yield


def test_text_is_in_columns_with_figures_to_the_right() -> None:
    assert str(FRUIT) == (
        "fruit & <b>veg</b>\n"
        "\n"
        "name      bytes  how\n"
        "-----  --------  -------------------\n"
        "apple     3 MiB  a.py:3 in f\n"
        "                     x = [1] < [2]\n"
        "fig    10 bytes  b.py:10 in <module>"
    )


def test_text_of_no_rows_is_the_title() -> None:
    assert str(Fruit()) == "fruit & <b>veg</b>"


def test_text_stops_after_some_rows_and_says_how_many_more_there_are() -> None:
    many = Fruit(*[row(f"fruit {n}", n, "") for n in range(SHOWN + 1500)])
    lines = str(many).splitlines()
    assert len(lines) == 4 + SHOWN + 1
    assert lines[-1] == "and 1,500 more fruit"
    assert "more fruit" not in str(Fruit(*many.rows[:SHOWN]))
    assert len(Page(many.to_html()).rows) == 1 + SHOWN + 1500


def test_figures_are_shown_for_people_and_sorted_as_numbers() -> None:
    assert figure(1234567) == Cell("1,234,567", 1234567)
    assert figure(0.12345) == Cell("0.1235", 0.12345)
    assert size(2048) == Cell("2 KiB", 2048)


def test_a_page_is_complete_needs_no_other_file_and_escapes_its_texts() -> None:
    text = FRUIT.to_html()
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.rows == [
        ["name", "bytes", "how"],
        ["apple", "3 MiB", "a.py:3 in fx = [1] < [2]"],
        ["fig", "10 bytes", "b.py:10 in <module>"],
    ]
    assert "fruit & <b>veg</b>" in page.text
    assert not any(tag in {"b", "module", "link", "img", "iframe"} for tag, _ in page.tags)
    assert not any("src" in attributes or "href" in attributes for _, attributes in page.tags)
    assert "http" not in text
    assert '<meta name="viewport"' in text
    assert '<input type="search"' in text
    orders = [attributes["data-order"] for tag, attributes in page.tags if tag == "td"]
    assert orders == ["apple", str(3 * 2**20), "a.py:3 in f", "fig", "10", "b.py:10 in <module>"]


def test_a_page_offers_a_list_of_its_choices_and_none_without_choices() -> None:
    found = Page(pages.page("title", "<table></table>", choices=["worker 0", "<b>"]))
    assert [tag for tag, _ in found.tags].count("option") == 3
    assert "allworker 0<b>" in found.text
    text = pages.page("title", "<table></table>")
    assert "select" not in {tag for tag, _ in Page(text).tags}
    assert re.search(r'<input type="search"[^>]*></p>', text)


def test_the_script_of_a_page_has_no_syntax_error(tmp_path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    (script,) = re.findall(r"<script>(.*)</script>", FRUIT.to_html(), re.DOTALL)
    path = tmp_path / "page.js"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run([node, "--check", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_to_html_writes_the_page_to_the_given_path(tmp_path) -> None:
    path = tmp_path / "report.html"
    assert FRUIT.to_html(path) == path.read_text(encoding="utf-8")
    assert FRUIT.to_html(str(path)) == FRUIT.to_html()


def test_a_notebook_shows_the_table_alone() -> None:
    shown = FRUIT._repr_html_()
    assert shown.startswith('<div class="scroll"><table')
    assert "text-align: right" in shown  # a notebook does not have our style sheet
    assert len(Page(shown).rows) == 3
    assert "<script" not in shown


def test_print_writes_plain_text_without_rich(without_rich: None) -> None:
    stream = io.StringIO()
    FRUIT.print(stream)
    assert stream.getvalue() == f"{FRUIT}\n"


def test_print_writes_to_standard_output_by_default(without_rich, capsys: pytest.CaptureFixture) -> None:
    FRUIT.print()
    assert capsys.readouterr().out == f"{FRUIT}\n"


def test_print_writes_nothing_without_a_standard_output(
    without_rich: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    FRUIT.print()


@pytest.mark.parametrize(
    "environment", [{}, {"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "TERM": "dumb"}], ids=str
)
def test_print_writes_by_rich_where_it_is_installed_and_folds_no_line_of_a_log(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    long = "a_long_directory/" * 17 + "file.py:10 in function"
    Fruit(row("[bold]apple[/bold]", 10, long, "f(x)")).print(stream)
    text = stream.getvalue()
    assert long in text
    assert "[bold]apple[/bold]" in text  # no markup
    assert "fruit & <b>veg</b>" in text


@pytest.mark.parametrize("columns", [50, 200])
def test_print_writes_as_many_columns_as_the_terminal_has(columns: int) -> None:
    pytest.importorskip("rich")
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    with open(theirs, "w", encoding="utf-8") as stream:  # noqa: PTH123
        Fruit(row("apple", 10, "word " * 100)).print(stream)
        lines = re.sub(r"\x1b\[[\d;]*m", "", os.read(ours, 100_000).decode()).splitlines()
    os.close(ours)
    assert columns - 5 <= max(map(len, lines)) <= columns


def test_rich_prints_a_report_as_a_table() -> None:
    console = pytest.importorskip("rich.console")
    stream = io.StringIO()
    console.Console(file=stream, width=100).print(Fruit(*FRUIT.rows * SHOWN))
    assert "a.py:3 in f" in stream.getvalue()
    assert f"and {SHOWN} more fruit" in stream.getvalue()


def test_importing_scopes_imports_no_optional_package() -> None:
    source = "import sys, scopes; print(sorted({'rich', 'numpy', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_leaks_and_trees_are_shown_in_all_ways() -> None:
    with track(), new_dispose_scope("step") as scope:
        thing = scope.detach(Thing(2048))
        for report in (leaks(), scope_tree()):
            assert "2 KiB" in str(report)
            assert "2 KiB" in Page(report.to_html()).text
            assert "2 KiB" in Page(report._repr_html_()).text
            assert "step" in str(report)
        assert "1 alive, 2 KiB, created by 1 line in 1 round" in str(leaks())
        del thing
    assert not scopes.is_tracking()


def test_a_page_is_not_written_over_a_file_of_the_users(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="is not a report of disposescope"):
        FRUIT.to_html(path)
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_chart_draws_all_and_its_parts() -> None:
    whole = Curve("all", [(0.0, 0), (1.0, 2048), (2.0, 1024)])
    drawn = chart_of(whole, [Curve("a.py:3 in <module>", [(0.0, 0), (1.0, 1024), (2.0, 1024)])])
    page = Page(drawn)
    assert "2 KiB at most" in page.text
    assert "a.py:3 in <module>" in page.text
    # Steps: across, then up to the half of the highest.
    (line,) = [str(attributes["d"]) for tag, attributes in page.tags if attributes.get("class") == "line c0"]
    heights = [float(part.partition("V")[2]) for part in line.split("H")[1:]]
    assert heights == [110.0, 110.0]
    assert chart_of(Curve("all", [(0.0, 1)]), []) == ""
