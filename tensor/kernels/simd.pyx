"""The instruction set of kernels: the best of the processor, or a lower one that the user selects."""

import os

cdef extern from *:
    """
    #if defined(DISPOSESCOPE_HAS_AVX2) && defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>

    /* Whether the processor has the instructions, and the system saves the registers. */
    static int best_level(void) {
        int r[4];
        __cpuid(r, 0);
        if (r[0] < 7) return 0;
        __cpuid(r, 1);
        const bool has_fma = (r[2] >> 12) & 1, has_xsave = (r[2] >> 27) & 1;
        if (!has_fma || !has_xsave) return 0;
        const unsigned long long saved = _xgetbv(0);
        __cpuidex(r, 7, 0);
        const unsigned b = (unsigned)r[1];
        const bool has_avx2 = (b >> 5) & 1, has_bmi2 = (b >> 8) & 1;
        if (!has_avx2 || !has_bmi2 || (saved & 0x6) != 0x6) return 0;
        const bool has_avx512 = (b >> 16) & (b >> 17) & (b >> 28) & (b >> 30) & (b >> 31) & 1;
        return has_avx512 && (saved & 0xe6) == 0xe6 ? 2 : 1;
    }
    #elif defined(DISPOSESCOPE_HAS_AVX2)
    static int best_level(void) {
        __builtin_cpu_init();
        if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
        if (!__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")) return 0;
    #if defined(DISPOSESCOPE_HAS_AVX512)
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
            && __builtin_cpu_supports("avx512cd")) return 2;
    #endif
        return 1;
    }
    #else
    static int best_level(void) { return 0; }
    #endif
    """
    int best_level() noexcept

_NAMES = ("baseline", "avx2", "avx512")


cdef int _chosen_level() except -1:
    wanted = os.environ.get("DISPOSESCOPE_SIMD", "")
    if not wanted:
        return best_level()
    if wanted not in _NAMES:
        raise ImportError(f"DISPOSESCOPE_SIMD must be one of {', '.join(_NAMES)}, or not set; not {wanted!r}")
    return min(_NAMES.index(wanted), best_level())


simd_level = _chosen_level()


def instruction_set():
    """Return the instruction set that kernels use: "baseline", "avx2" or "avx512".

    By default it is the best one of the processor. The environment variable ``DISPOSESCOPE_SIMD``, read when
    `tensor` is imported, selects a lower one, for tests.
    """
    return _NAMES[simd_level]


def best_instruction_set():
    """Return the best instruction set that this build and the processor support."""
    return _NAMES[best_level()]
