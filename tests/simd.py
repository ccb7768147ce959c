"""Programs run once for each instruction set that kernels have here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tensor.kernels.running import best_instruction_set

LEVELS = ("baseline", "avx2", "avx512")


def printed_at_each_level(program: str) -> dict[str, str]:
    """Return what `program` prints in a process of its own, by the instruction set that kernels use there."""
    levels = LEVELS[: LEVELS.index(best_instruction_set()) + 1]
    return {
        level: subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "DISPOSESCOPE_SIMD": level},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=600,
        ).stdout
        for level in levels
    }
