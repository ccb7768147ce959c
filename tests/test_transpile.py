"""The script that compiles Cython modules to C++ for the build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.modules import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("transpile.py", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "one.pxd").write_text("cdef int one()\n", encoding="utf-8")
    (tmp_path / "package" / "one.pyx").write_text("cdef int one():\n    return 1\n", encoding="utf-8")
    (tmp_path / "package" / "two.pyx").write_text(
        "from package.one cimport one\n\ndef two():\n    return one() + one()\n", encoding="utf-8"
    )
    (tmp_path / "build").mkdir()
    return tmp_path


def transpile(folder: Path) -> subprocess.CompletedProcess[str]:
    """Make all files older than now, then run the script as the build does."""
    for file in folder.rglob("*"):
        time = file.stat().st_mtime_ns - 10**9
        os.utime(file, ns=(time, time))
    command = [sys.executable, str(folder / "transpile.py"), "package/one.pyx", "package/two.pyx", "--", "-3"]
    return subprocess.run(command, cwd=folder / "build", capture_output=True, text=True, check=False)


def dependencies(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("build/package/*.dep")}


def test_module_that_has_not_changed_is_not_compiled_again(folder: Path) -> None:
    assert transpile(folder).returncode == 0
    before = dependencies(folder)
    assert set(before) == {"one.cxx.dep", "two.cxx.dep"}
    assert transpile(folder).returncode == 0
    assert dependencies(folder) == {name: time - 10**9 for name, time in before.items()}


def test_changed_declaration_compiles_what_imports_it_and_keeps_an_equal_result(folder: Path) -> None:
    transpile(folder)
    result = folder / "build" / "package" / "two.cxx"
    written = result.stat().st_mtime_ns
    before = dependencies(folder)
    declaration = folder / "package" / "one.pxd"
    newer = before["two.cxx.dep"] + 2 * 10**9
    declaration.write_text("cdef int one()\n\n", encoding="utf-8")
    os.utime(declaration, ns=(newer, newer))
    assert transpile(folder).returncode == 0
    assert dependencies(folder)["two.cxx.dep"] != before["two.cxx.dep"] - 10**9
    assert result.stat().st_mtime_ns == written - 10**9


def test_error_of_cython_ends_the_script_with_its_status(folder: Path) -> None:
    (folder / "package" / "two.pyx").write_text("def two(:\n", encoding="utf-8")
    failed = transpile(folder)
    assert failed.returncode != 0
    assert "package/two.pyx" in failed.stderr + failed.stdout
    assert not (folder / "build" / "package" / "two.cxx").exists()
