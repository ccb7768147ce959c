"""The process's own memory, for tests that compare it with what is reported."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

# `make test SANITIZE=address` loads it before Python: it keeps freed memory aside, and notes of all memory.
_IS_SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")

TELLS_MEMORY = Path("/proc/self/statm").exists() and not _IS_SANITIZED
TELLS_PEAKS = TELLS_MEMORY and os.access("/proc/self/clear_refs", os.W_OK)

needs_process_memory = pytest.mark.skipif(
    not TELLS_MEMORY, reason="reads /proc/self/statm, whose figures AddressSanitizer changes"
)
needs_process_peaks = pytest.mark.skipif(
    not TELLS_PEAKS, reason="writes /proc/self/clear_refs, and AddressSanitizer changes the figures"
)

# Of all mappings together, counted in the page tables. The sums in `status` and `statm` are kept by each core
# or thread for a while, and may be off by megabytes where there are many.
_EXACT = Path("/proc/self/smaps_rollup")
_SUMS = Path("/proc/self/status")


def own_bytes() -> int:
    """Return what this process has of its own: without files that are mapped, with what is swapped out."""
    return _sum_of("Anonymous|RssAnon|Swap|VmSwap")


def resident_bytes() -> int:
    """Return what of this process's memory is there, files that are mapped too; 0 where nothing tells."""
    return _sum_of("Rss|VmRSS") if TELLS_MEMORY else 0


def _sum_of(names: str) -> int:
    text = (_EXACT if _EXACT.exists() else _SUMS).read_text(encoding="utf-8")
    return 1024 * sum([int(kibibytes) for kibibytes in re.findall(rf"^(?:{names}):\s+(\d+) kB", text, re.M)])
