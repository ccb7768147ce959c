"""``disposescope completion``: a shell completes the command's options and names of files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Prints what bash would offer for the last word of a command line.
OFFER = """
source "$1"; shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shtab_disposescope
printf '%s\\n' "${COMPREPLY[@]}"
"""


def command(*arguments: str, forbid: str = "") -> subprocess.CompletedProcess[str]:
    hide = f"import sys; sys.modules[{forbid!r}] = None; " if forbid else ""
    program = f"{hide}import sys; sys.argv[0] = 'disposescope'; from scopes.command.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("shtab")
    path = tmp_path_factory.mktemp("completion") / "disposescope.bash"
    path.write_text(command("completion", "bash").stdout, encoding="utf-8")
    return path


def offered(script: Path, *words: str, cwd: Path) -> list[str]:
    shown = subprocess.run(
        ["bash", "-c", OFFER, "bash", script, *words], cwd=cwd, capture_output=True, text=True, check=True
    )
    return shown.stdout.split()


@pytest.mark.skipif(sys.platform == "win32", reason="bash completes in a shell of POSIX")
def test_bash_completes_commands_options_and_files(script: Path, tmp_path: Path) -> None:
    for name in ("train.py", "trace.json"):
        (tmp_path / name).touch()
    assert offered(script, "disposescope", "re", cwd=tmp_path) == ["report"]
    assert offered(script, "disposescope", "run", "--leak", cwd=tmp_path) == ["--leak-threshold"]
    assert offered(script, "disposescope", "run", "tra", cwd=tmp_path) == ["trace.json", "train.py"]
    assert offered(script, "disposescope", "run", "--html", "trai", cwd=tmp_path) == ["train.py"]
    assert offered(script, "disposescope", "completion", "", cwd=tmp_path) == ["bash", "zsh", "tcsh"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_get_a_script_too(shell: str) -> None:
    pytest.importorskip("shtab")
    done = command("completion", shell)
    assert done.returncode == 0
    assert "leak-threshold" in done.stdout


def test_without_shtab_the_error_says_what_to_install() -> None:
    done = command("completion", "bash", forbid="shtab")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "completion needs shtab, which is not installed: run pip install '.[completion]'" in done.stderr
