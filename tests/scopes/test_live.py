"""The live view of ``disposescope run --live``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import scopes
import tensor
from scopes import new_dispose_scope
from scopes.reports.live import LiveView, begin_live_view

ROOT = Path(__file__).parents[2]
PROGRAM = """
import time
import tensor
from scopes import new_dispose_scope

kept = []
for n in range(40):
    with new_dispose_scope("step") as scope:
        kept.append(scope.detach(tensor.ones((1000,))))
    print("step", n)
    time.sleep(0.1)
"""


def printed(view: LiveView, console: Any) -> str:
    console.print(view.view())
    return console.export_text()


def test_the_view_shows_bytes_and_growth_by_line_and_the_scopes() -> None:
    console = pytest.importorskip("rich.console").Console(record=True, width=160, file=StringIO())
    with scopes.track():
        view = LiveView(console, "train.py")
        kept = [tensor.ones((1000,))]
        assert "0 in 0 s" in printed(view, console)
        with new_dispose_scope("step") as scope:
            kept.append(scope.detach(tensor.ones((2000,))))
        text = printed(view, console)
    assert "train.py: " in text
    assert "11.72 KiB in 2 disposables, +7.812 KiB" in text
    assert re.search(r"7.812 KiB +\+7.812 KiB +1 +\S*test_live.py:\d+ in .*kept.append\(scope.detach", text)
    assert re.search(r"step +1 +1 +7.812 KiB +7.812 KiB", text)


def test_figures_end_below_their_headings_and_lines_begin_there() -> None:
    console = pytest.importorskip("rich.console").Console(record=True, width=160, file=StringIO())
    with scopes.track():
        view = LiveView(console, "train.py")
        kept = [tensor.ones((1000,)) for _ in range(100)]
        kept += [tensor.ones((1,))]
        lines = printed(view, console).splitlines()
    (heading,) = [line for line in lines if "created by" in line]
    rows = [line for line in lines if "test_live.py:" in line]
    assert len(rows) == 2
    for row in rows:
        figures = re.match(r" +(\S+ \w+) +(0) +(\d+) +(\S*test_live\.py:)", row)
        assert figures is not None
        ends = [heading.index(name) + len(name) for name in ("bytes", "growth", "alive")]
        assert [figures.end(1), figures.end(2), figures.end(3)] == ends
        assert figures.start(4) == heading.index("created by")


def test_a_line_that_is_longer_than_the_terminal_is_cut() -> None:
    console = pytest.importorskip("rich.console").Console(record=True, width=80, file=StringIO())
    with scopes.track():
        view = LiveView(console, "train.py")
        kept = tensor.ones((1000,))  # a comment that makes this line longer than 80 columns
        text = printed(view, console)
    kept.dispose()
    assert "3.906 KiB" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_the_view_is_redrawn_and_the_report_is_printed_at_the_end(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    import pty

    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "disposescope", "run", "--live", "train.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(ours)
    assert process.wait(timeout=60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert len(set(re.findall(r"train.py: [\d.]+ s, [\d.]+ \w+ in [\d]+ disposables", text))) >= 3
    assert "step 39" in text  # what the program prints is shown too
    assert text.index("step 39") < text.index("train.py has ended.")


def test_without_a_terminal_the_program_runs_and_one_line_says_so(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    (tmp_path / "train.py").write_text("print('done')", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "disposescope", "run", "--live", "train.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "done\n"
    assert "--live shows nothing, because the standard error stream is not a terminal" in done.stderr


def test_without_rich_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '.\[report\]'"):
        begin_live_view("train.py", print)
