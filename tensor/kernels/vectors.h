// Packs: vectors of 64 bytes of floats or doubles, for any size of the processor's registers. So the order of
// a sum is the same for each instruction set.
//
// For kernels that are compiled once for each instruction set (simd.h). All names are in that set's
// namespace.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <math.h>

#include "tensor/kernels/inlining.h"

#if defined(__AVX2__) && !defined(_MSC_VER)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
#endif

// Unroll a loop with a constant number of steps over an array of packs. Otherwise GCC may unroll it too late
// to keep the array in registers. It then stores the array in each step of the outer loop, and a product took
// 5 times as long.
#if defined(__clang__)
#define DISPOSESCOPE_UNROLLED _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define DISPOSESCOPE_UNROLLED _Pragma("GCC unroll 16")
#else
#define DISPOSESCOPE_UNROLLED
#endif

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

using std::ptrdiff_t;

// The element type of a number or register, and integers of the same size.
template <typename R>
struct Of;

template <>
struct Of<float> {
    using Element = float;
    using Bits = std::int32_t;
    using Unsigned = std::uint32_t;
};

template <>
struct Of<double> {
    using Element = double;
    using Bits = std::int64_t;
    using Unsigned = std::uint64_t;
};

// `Register` is the type the processor computes with: a single number if the compiler does not support
// vectors.
template <typename T>
struct Lanes {
    using Register = T;
};

#if defined(__GNUC__)

#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX2__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif

template <>
struct Lanes<float> {
    typedef float Register __attribute__((vector_size(register_bytes)));
};

template <>
struct Lanes<double> {
    typedef double Register __attribute__((vector_size(register_bytes)));
};

template <>
struct Of<Lanes<float>::Register> {
    using Element = float;
    typedef std::int32_t Bits __attribute__((vector_size(register_bytes)));
    typedef std::uint32_t Unsigned __attribute__((vector_size(register_bytes)));
};

template <>
struct Of<Lanes<double>::Register> {
    using Element = double;
    typedef std::int64_t Bits __attribute__((vector_size(register_bytes)));
    typedef std::uint64_t Unsigned __attribute__((vector_size(register_bytes)));
};

#endif

template <typename R>
DISPOSESCOPE_INLINE R splat(typename Of<R>::Element x) {
    return x - R{};  // free, and unlike an addition it keeps the sign of -0
}

template <typename R>
using BitsOf = typename Of<R>::Bits;
template <typename R>
using UnsignedOf = typename Of<R>::Unsigned;

template <typename To, typename From>
DISPOSESCOPE_INLINE To as(From x) {
    static_assert(sizeof(To) == sizeof(From), "of one size");
    To y;
    std::memcpy(&y, &x, sizeof(To));
    return y;
}

template <typename T>
DISPOSESCOPE_INLINE constexpr T infinity() {
    return sizeof(T) == sizeof(float) ? T(HUGE_VALF) : T(HUGE_VAL);
}

// Return the larger value; `b` if one of them is nan.
template <typename R>
DISPOSESCOPE_INLINE R larger(R a, R b) {
    return a > b ? a : b;
}

// a * b + c, rounded once if the processor can do that at the same speed.
template <typename R>
DISPOSESCOPE_INLINE R fma(R a, R b, R c) {
    return a * b + c;
}

#if defined(__AVX2__) && defined(__FMA__) && !defined(_MSC_VER)
DISPOSESCOPE_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DISPOSESCOPE_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#if defined(__AVX512F__)
DISPOSESCOPE_INLINE __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
DISPOSESCOPE_INLINE __m512d fma(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
#else
DISPOSESCOPE_INLINE __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
DISPOSESCOPE_INLINE __m256d fma(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
#endif
#elif defined(__aarch64__) && defined(__GNUC__)
DISPOSESCOPE_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DISPOSESCOPE_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
DISPOSESCOPE_INLINE Lanes<float>::Register fma(
    Lanes<float>::Register a, Lanes<float>::Register b, Lanes<float>::Register c
) {
    return vfmaq_f32(c, a, b);
}
DISPOSESCOPE_INLINE Lanes<double>::Register fma(
    Lanes<double>::Register a, Lanes<double>::Register b, Lanes<double>::Register c
) {
    return vfmaq_f64(c, a, b);
}
#endif

template <typename T>
struct Pack {
    using Register = typename Lanes<T>::Register;
    static constexpr int size = 64 / sizeof(T);
    static constexpr int parts = 64 / sizeof(Register), width = size / parts;
    Register part[parts];

    static DISPOSESCOPE_INLINE Pack of(T x) {
        Pack y;
        for (int i = 0; i < parts; ++i) y.part[i] = splat<Register>(x);
        return y;
    }

    static DISPOSESCOPE_INLINE Pack load(const T* x) {
        Pack y;
        for (int i = 0; i < parts; ++i) std::memcpy(&y.part[i], x + i * width, sizeof(Register));
        return y;
    }

    DISPOSESCOPE_INLINE void store(T* to) const {
        for (int i = 0; i < parts; ++i) std::memcpy(to + i * width, &part[i], sizeof(Register));
    }

    // Load a pack; if fewer elements are left, load the first `left` and fill with `rest`.
    static DISPOSESCOPE_INLINE Pack load_up_to(const T* x, ptrdiff_t left, T rest = 0) {
        return left >= size ? load(x) : load_first(x, left, rest);
    }

    // Load the first `n` elements of `x`, fewer than a pack, and fill with `rest`.
    static DISPOSESCOPE_INLINE Pack load_first(const T* x, ptrdiff_t n, T rest) {
        T values[size];
        for (int i = 0; i < size; ++i) values[i] = rest;
        for (ptrdiff_t i = 0; i < n; ++i) values[i] = x[i];
        return load(values);
    }

    DISPOSESCOPE_INLINE void store_up_to(T* to, ptrdiff_t left) const {
        if (left >= size)
            store(to);
        else
            store_first(to, left);
    }

    DISPOSESCOPE_INLINE void store_first(T* to, ptrdiff_t n) const {
        T values[size];
        store(values);
        for (ptrdiff_t i = 0; i < n; ++i) to[i] = values[i];
    }
};

#if defined(__AVX512F__) && !defined(_MSC_VER)
template <>
DISPOSESCOPE_INLINE Pack<float> Pack<float>::load_first(const float* x, ptrdiff_t n, float rest) {
    return {{_mm512_mask_loadu_ps(_mm512_set1_ps(rest), static_cast<__mmask16>((1u << n) - 1), x)}};
}
template <>
DISPOSESCOPE_INLINE Pack<double> Pack<double>::load_first(const double* x, ptrdiff_t n, double rest) {
    return {{_mm512_mask_loadu_pd(_mm512_set1_pd(rest), static_cast<__mmask8>((1u << n) - 1), x)}};
}
template <>
DISPOSESCOPE_INLINE void Pack<float>::store_first(float* to, ptrdiff_t n) const {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), part[0]);
}
template <>
DISPOSESCOPE_INLINE void Pack<double>::store_first(double* to, ptrdiff_t n) const {
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << n) - 1), part[0]);
}
#elif defined(__AVX2__) && !defined(_MSC_VER)
// Set all bits of the lanes before `n`.
DISPOSESCOPE_INLINE __m256i first_floats(ptrdiff_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
DISPOSESCOPE_INLINE __m256i first_doubles(ptrdiff_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
// A masked load does not access the memory of inactive lanes. A masked store takes 12 cycles or more on AMD,
// so `store_first` uses smaller plain stores instead.
template <>
DISPOSESCOPE_INLINE Pack<float> Pack<float>::load_first(const float* x, ptrdiff_t n, float rest) {
    Pack y;
    for (int i = 0; i < parts; ++i) {
        const __m256i mask = first_floats(n - i * width);
        y.part[i] = _mm256_blendv_ps(
            _mm256_set1_ps(rest), _mm256_maskload_ps(x + i * width, mask), _mm256_castsi256_ps(mask));
    }
    return y;
}
template <>
DISPOSESCOPE_INLINE Pack<double> Pack<double>::load_first(const double* x, ptrdiff_t n, double rest) {
    Pack y;
    for (int i = 0; i < parts; ++i) {
        const __m256i mask = first_doubles(n - i * width);
        y.part[i] = _mm256_blendv_pd(
            _mm256_set1_pd(rest), _mm256_maskload_pd(x + i * width, mask), _mm256_castsi256_pd(mask));
    }
    return y;
}
template <>
DISPOSESCOPE_INLINE void Pack<float>::store_first(float* to, ptrdiff_t n) const {
    static_assert(parts == 2, "one whole register at most");
    __m256 left = part[0];
    if (n >= width) {
        _mm256_storeu_ps(to, left);
        left = part[1];
        to += width;
    }
    __m128 half = _mm256_castps256_ps128(left);
    if (n & 4) {
        _mm_storeu_ps(to, half);
        half = _mm256_extractf128_ps(left, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi(reinterpret_cast<__m64*>(to), half);
        half = _mm_movehl_ps(half, half);
        to += 2;
    }
    if (n & 1) _mm_store_ss(to, half);
}
template <>
DISPOSESCOPE_INLINE void Pack<double>::store_first(double* to, ptrdiff_t n) const {
    static_assert(parts == 2, "one whole register at most");
    __m256d left = part[0];
    if (n >= width) {
        _mm256_storeu_pd(to, left);
        left = part[1];
        to += width;
    }
    __m128d half = _mm256_castpd256_pd128(left);
    if (n & 2) {
        _mm_storeu_pd(to, half);
        half = _mm256_extractf128_pd(left, 1);
        to += 2;
    }
    if (n & 1) _mm_store_sd(to, half);
}
#endif

template <typename T, typename Function>
DISPOSESCOPE_INLINE Pack<T> map(Pack<T> a, Function f) {
    for (int i = 0; i < Pack<T>::parts; ++i) a.part[i] = f(a.part[i]);
    return a;
}

template <typename T, typename Function>
DISPOSESCOPE_INLINE Pack<T> map(Pack<T> a, Pack<T> b, Function f) {
    for (int i = 0; i < Pack<T>::parts; ++i) a.part[i] = f(a.part[i], b.part[i]);
    return a;
}

template <typename T>
DISPOSESCOPE_INLINE Pack<T> operator+(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) DISPOSESCOPE_INLINED { return x + y; });
}
template <typename T>
DISPOSESCOPE_INLINE Pack<T> operator-(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) DISPOSESCOPE_INLINED { return x - y; });
}
template <typename T>
DISPOSESCOPE_INLINE Pack<T> operator*(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) DISPOSESCOPE_INLINED { return x * y; });
}
template <typename T>
DISPOSESCOPE_INLINE Pack<T> operator/(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) DISPOSESCOPE_INLINED { return x / y; });
}
template <typename T>
DISPOSESCOPE_INLINE Pack<T> larger(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) DISPOSESCOPE_INLINED { return larger(x, y); });
}
template <typename T>
DISPOSESCOPE_INLINE Pack<T> fma(Pack<T> a, Pack<T> b, Pack<T> c) {
    for (int i = 0; i < Pack<T>::parts; ++i) c.part[i] = fma(a.part[i], b.part[i], c.part[i]);
    return c;
}

// Set negative values to 0. A comparison with nan is false, so nan stays nan.
template <typename T>
DISPOSESCOPE_INLINE Pack<T> rectified(Pack<T> a) {
    return map(a, [](auto x) DISPOSESCOPE_INLINED { return x <= splat<decltype(x)>(0) ? splat<decltype(x)>(0) : x; });
}

// The lanes that had a nan.
template <typename R>
struct LanesWithNan {
    BitsOf<R> lanes;
    DISPOSESCOPE_INLINE void note(R a, R b) { lanes |= (a != a) | (b != b); }
    DISPOSESCOPE_INLINE void note(LanesWithNan other) { lanes |= other.lanes; }
    DISPOSESCOPE_INLINE R in(R x) const { return lanes ? splat<R>(NAN) : x; }
};

#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(_MSC_VER)
template <>
DISPOSESCOPE_INLINE void LanesWithNan<Lanes<float>::Register>::note(__m256 a, __m256 b) {
    lanes |= as<BitsOf<Lanes<float>::Register>>(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
template <>
DISPOSESCOPE_INLINE void LanesWithNan<Lanes<double>::Register>::note(__m256d a, __m256d b) {
    lanes |= as<BitsOf<Lanes<double>::Register>>(_mm256_cmp_pd(a, b, _CMP_UNORD_Q));
}
#elif defined(__AVX512F__) && !defined(_MSC_VER)
template <>
struct LanesWithNan<Lanes<float>::Register> {
    __mmask16 lanes;
    DISPOSESCOPE_INLINE void note(__m512 a, __m512 b) { lanes |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
    DISPOSESCOPE_INLINE void note(LanesWithNan other) { lanes |= other.lanes; }
    DISPOSESCOPE_INLINE __m512 in(__m512 x) const { return _mm512_mask_mov_ps(x, lanes, _mm512_set1_ps(NAN)); }
};
template <>
struct LanesWithNan<Lanes<double>::Register> {
    __mmask8 lanes;
    DISPOSESCOPE_INLINE void note(__m512d a, __m512d b) { lanes |= _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q); }
    DISPOSESCOPE_INLINE void note(LanesWithNan other) { lanes |= other.lanes; }
    DISPOSESCOPE_INLINE __m512d in(__m512d x) const { return _mm512_mask_mov_pd(x, lanes, _mm512_set1_pd(NAN)); }
};
#endif

// Join the lanes by halves: 0 with 8, 1 with 9, ..., then 0 with 4, ... `f` takes numbers and registers.
template <typename T, typename Function>
DISPOSESCOPE_INLINE T join_numbers(const T* values, int count, Function f) {
    T left[16];
    for (int i = 0; i < count; ++i) left[i] = values[i];
    for (int half = count / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) left[i] = f(left[i], left[i + half]);
    return left[0];
}

template <typename T, typename R, typename Function>
DISPOSESCOPE_INLINE T join_register(R x, Function f) {
#if defined(__GNUC__)
    if constexpr (sizeof(R) > 2 * sizeof(T)) {
        typedef T Half __attribute__((vector_size(sizeof(R) / 2)));
        Half low, high;
        std::memcpy(&low, &x, sizeof(Half));
        std::memcpy(&high, reinterpret_cast<const char*>(&x) + sizeof(Half), sizeof(Half));
        return join_register<T>(f(low, high), f);
    }
#endif
    T values[sizeof(R) / sizeof(T)];
    std::memcpy(values, &x, sizeof(R));
    return join_numbers(values, sizeof(R) / sizeof(T), f);
}

template <typename T, typename Function>
DISPOSESCOPE_INLINE T join(Pack<T> a, Function f) {
    for (int half = Pack<T>::parts / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) a.part[i] = f(a.part[i], a.part[i + half]);
    return join_register<T>(a.part[0], f);
}

template <typename T>
DISPOSESCOPE_INLINE T sum(Pack<T> a) {
    return join(a, [](auto x, auto y) DISPOSESCOPE_INLINED { return x + y; });
}
template <typename T>
DISPOSESCOPE_INLINE T largest(Pack<T> a) {
    return join(a, [](auto x, auto y) DISPOSESCOPE_INLINED { return x > y ? x : y; });
}

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
