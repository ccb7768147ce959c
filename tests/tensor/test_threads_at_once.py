"""The memory pool and the threads of kernels under ThreadSanitizer: what runs at once without the GIL."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_sixteen_threads_on_the_memory_pool_and_the_kernels_threads_have_no_data_race(tmp_path: Path) -> None:
    compiler = [*shlex.split(os.environ.get("CXX", "g++")), "-std=c++17", "-O1", "-g", "-fsanitize=thread"]
    empty = tmp_path / "empty.cpp"
    empty.write_text("int main() {}", encoding="utf-8")
    try:
        subprocess.run([*compiler, empty, "-o", tmp_path / "empty"], capture_output=True, check=True)
        subprocess.run([tmp_path / "empty"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"{compiler[0]} has no ThreadSanitizer, or it does not run here")
    program = tmp_path / "threads_at_once"
    source = Path(__file__).with_name("threads_at_once.cpp")
    flags = ["-I", ROOT, "-DDISPOSESCOPE_DEBUG=0", "-pthread"]
    subprocess.run([*compiler, *flags, source, "-o", program], check=True)
    ended = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("all bytes are freed\n", "", 0)
