"""Instruction sets: the environment that limits each contender to the same one."""

from collections.abc import Mapping

LEVELS = ("baseline", "avx2", "avx512")

VARIABLE = "DISPOSESCOPE_SIMD"
"""The variable that holds ours to an instruction set."""

_TORCH = {"baseline": "default"}
_ONEDNN = {"baseline": "SSE41", "avx2": "AVX2", "avx512": "AVX512_CORE_BF16"}
_OPENBLAS = {"baseline": "Nehalem", "avx2": "Haswell", "avx512": "SkylakeX"}


def environment(level: str) -> Mapping[str, str]:
    """Return the variables that limit ours, PyTorch, its oneDNN, and NumPy's OpenBLAS to an instruction set.

    Examples
    --------
    >>> environment("avx2")["ATEN_CPU_CAPABILITY"]
    'avx2'
    """
    if level not in LEVELS:
        raise ValueError(f"no instruction set is called {level!r}: write one of {', '.join(LEVELS)}")
    return {
        VARIABLE: level,
        "ATEN_CPU_CAPABILITY": _TORCH.get(level, level),
        "ONEDNN_MAX_CPU_ISA": _ONEDNN[level],
        "OPENBLAS_CORETYPE": _OPENBLAS[level],
    }
