"""What the C library keeps of arrays too small for the pool."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")

# Prints the fresh pages of a step that keeps 100 results of 400,000 bytes, and what trim() gives back.
A_STEP = """
import mmap, resource
import tensor
from tensor import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * mmap.PAGESIZE

def step():
    results = [x + 1 for _ in range(100)]

x = tensor.ones((100_000,))
assert x.nbytes < memory.configuration().min_pooled_bytes
step(), step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
kept = resident()
memory.trim()
print(pages * mmap.PAGESIZE, kept - resident())
"""


def fresh_and_given_back(**variables: str) -> tuple[int, int]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC", "GLIBC"))
    }
    run = subprocess.run(
        [sys.executable, "-c", A_STEP],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    fresh, given_back = map(int, run.stdout.split())
    return fresh, given_back


def test_results_that_go_together_leave_their_memory_to_the_next_step_and_trim_gives_it_back() -> None:
    fresh, given_back = fresh_and_given_back()
    assert fresh < 4_000_000
    assert given_back > 36_000_000


@pytest.mark.parametrize(
    "setting",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"MALLOC_MMAP_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_a_setting_of_the_users_own_goes_before(setting: dict[str, str]) -> None:
    fresh, given_back = fresh_and_given_back(**setting)
    assert fresh > 36_000_000
    assert given_back < 4_000_000
