"""The build backend: pip installs a compiler for the build where the machine has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scikit_build_core")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="CMake finds Visual Studio, off the path")

ROOT = Path(__file__).parents[1]


def backend(program: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `program` beside the backend, with programs of the folder `path` alone."""
    kept = {name: value for name, value in os.environ.items() if name != "CXX"}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, '.ci'); import backend; {program}"],
        cwd=ROOT,
        env=kept | {"PATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("what", ["wheel", "editable"])
def test_a_build_asks_for_zig_only_where_no_compiler_is_found(what: str, tmp_path: Path) -> None:
    program = f"print('ziglang' in backend.get_requires_for_build_{what}())"
    assert backend(program, tmp_path).stdout == "True\n"
    assert backend(program, tmp_path, CXX="icpx").stdout == "False\n"
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    assert backend(program, tmp_path).stdout == "False\n"


def test_a_build_without_any_compiler_says_what_to_install(tmp_path: Path) -> None:
    done = backend("sys.modules['ziglang'] = None; backend.build_wheel('nowhere')", tmp_path)
    assert done.returncode == 1
    assert "install one, set CXX, or run `pip install ziglang`" in done.stderr
    assert "Traceback" not in done.stderr
