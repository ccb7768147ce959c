"""The process's own memory, for tests that compare it with what is reported."""

from __future__ import annotations

import os
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
