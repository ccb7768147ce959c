// Vectors of floats and doubles for kernels of reductions, of 64 bytes whatever the processor has registers for:
// so the order in which a sum is added up, and with it the sum, is the same for each instruction set.
//
// To be included by kernels that are compiled once for each set (simd.h): all names are of that set.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <math.h>

#if defined(__AVX2__) && !defined(_MSC_VER)
#include <immintrin.h>
#endif

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

using std::ptrdiff_t;

// What a number, or a register full of them, consists of, and integers of the same size.
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

// `Register` is what the processor computes on at once: one number where the compiler knows no vectors.
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
inline R splat(typename Of<R>::Element x) {
    return x - R{};  // which costs nothing: a sum would lose the sign of -0
}

template <typename R>
using BitsOf = typename Of<R>::Bits;
template <typename R>
using UnsignedOf = typename Of<R>::Unsigned;

template <typename To, typename From>
inline To as(From x) {
    static_assert(sizeof(To) == sizeof(From), "of one size");
    To y;
    std::memcpy(&y, &x, sizeof(To));
    return y;
}

template <typename T>
constexpr T infinity() {
    return sizeof(T) == sizeof(float) ? T(HUGE_VALF) : T(HUGE_VAL);
}

// The larger; `a` where `b` is nan, `b` where `a` is.
template <typename R>
inline R larger(R a, R b) {
    return a > b ? a : b;
}

// a * b + c, rounded once where the processor can do so at the same speed.
template <typename R>
inline R fma(R a, R b, R c) {
    return a * b + c;
}

#if defined(__AVX2__) && defined(__FMA__) && !defined(_MSC_VER)
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#if defined(__AVX512F__)
inline __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
inline __m512d fma(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
#else
inline __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline __m256d fma(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
#endif
#endif

template <typename T>
struct Pack {
    using Register = typename Lanes<T>::Register;
    static constexpr int size = 64 / sizeof(T);
    static constexpr int parts = 64 / sizeof(Register), width = size / parts;
    Register part[parts];

    static Pack of(T x) {
        Pack y;
        for (int i = 0; i < parts; ++i) y.part[i] = splat<Register>(x);
        return y;
    }

    static Pack load(const T* x) {
        Pack y;
        for (int i = 0; i < parts; ++i) std::memcpy(&y.part[i], x + i * width, sizeof(Register));
        return y;
    }

    void store(T* to) const {
        for (int i = 0; i < parts; ++i) std::memcpy(to + i * width, &part[i], sizeof(Register));
    }

    // A pack, or where not all of it is there its first `left` elements.
    static Pack load_up_to(const T* x, ptrdiff_t left, T rest = 0) {
        return left >= size ? load(x) : load_first(x, left, rest);
    }

    // The first `n` elements of `x`, fewer than a pack has, then `rest`.
    static Pack load_first(const T* x, ptrdiff_t n, T rest) {
        T values[size];
        for (int i = 0; i < size; ++i) values[i] = rest;
        for (ptrdiff_t i = 0; i < n; ++i) values[i] = x[i];
        return load(values);
    }

    void store_first(T* to, ptrdiff_t n) const {
        T values[size];
        store(values);
        for (ptrdiff_t i = 0; i < n; ++i) to[i] = values[i];
    }
};

#if defined(__AVX512F__) && !defined(_MSC_VER)
template <>
inline Pack<float> Pack<float>::load_first(const float* x, ptrdiff_t n, float rest) {
    return {{_mm512_mask_loadu_ps(_mm512_set1_ps(rest), static_cast<__mmask16>((1u << n) - 1), x)}};
}
template <>
inline Pack<double> Pack<double>::load_first(const double* x, ptrdiff_t n, double rest) {
    return {{_mm512_mask_loadu_pd(_mm512_set1_pd(rest), static_cast<__mmask8>((1u << n) - 1), x)}};
}
template <>
inline void Pack<float>::store_first(float* to, ptrdiff_t n) const {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), part[0]);
}
template <>
inline void Pack<double>::store_first(double* to, ptrdiff_t n) const {
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << n) - 1), part[0]);
}
#endif

template <typename T, typename Function>
inline Pack<T> map(Pack<T> a, Function f) {
    for (int i = 0; i < Pack<T>::parts; ++i) a.part[i] = f(a.part[i]);
    return a;
}

template <typename T, typename Function>
inline Pack<T> map(Pack<T> a, Pack<T> b, Function f) {
    for (int i = 0; i < Pack<T>::parts; ++i) a.part[i] = f(a.part[i], b.part[i]);
    return a;
}

template <typename T>
inline Pack<T> operator+(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) { return x + y; });
}
template <typename T>
inline Pack<T> operator-(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) { return x - y; });
}
template <typename T>
inline Pack<T> operator*(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) { return x * y; });
}
template <typename T>
inline Pack<T> operator/(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) { return x / y; });
}
template <typename T>
inline Pack<T> larger(Pack<T> a, Pack<T> b) {
    return map(a, b, [](auto x, auto y) { return larger(x, y); });
}
template <typename T>
inline Pack<T> fma(Pack<T> a, Pack<T> b, Pack<T> c) {
    for (int i = 0; i < Pack<T>::parts; ++i) c.part[i] = fma(a.part[i], b.part[i], c.part[i]);
    return c;
}

// What is negative becomes 0. nan is no less than 0: it stays.
template <typename T>
inline Pack<T> rectified(Pack<T> a) {
    return map(a, [](auto x) { return x <= splat<decltype(x)>(0) ? splat<decltype(x)>(0) : x; });
}

// Lanes in which a number was none.
template <typename R>
struct LanesWithNan {
    BitsOf<R> lanes;
    void note(R a, R b) { lanes |= (a != a) | (b != b); }
    void note(LanesWithNan other) { lanes |= other.lanes; }
    R in(R x) const { return lanes ? splat<R>(NAN) : x; }
};

#if defined(__AVX512F__) && !defined(_MSC_VER)
template <>
struct LanesWithNan<Lanes<float>::Register> {
    __mmask16 lanes;
    void note(__m512 a, __m512 b) { lanes |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
    void note(LanesWithNan other) { lanes |= other.lanes; }
    __m512 in(__m512 x) const { return _mm512_mask_mov_ps(x, lanes, _mm512_set1_ps(NAN)); }
};
template <>
struct LanesWithNan<Lanes<double>::Register> {
    __mmask8 lanes;
    void note(__m512d a, __m512d b) { lanes |= _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q); }
    void note(LanesWithNan other) { lanes |= other.lanes; }
    __m512d in(__m512d x) const { return _mm512_mask_mov_pd(x, lanes, _mm512_set1_pd(NAN)); }
};
#endif

// The lanes joined by halves: 0 with 8, 1 with 9 ..., then 0 with 4 ... `f` takes numbers, and registers too.
template <typename T, typename Function>
inline T join_numbers(const T* values, int count, Function f) {
    T left[16];
    for (int i = 0; i < count; ++i) left[i] = values[i];
    for (int half = count / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) left[i] = f(left[i], left[i + half]);
    return left[0];
}

template <typename T, typename R, typename Function>
inline T join_register(R x, Function f) {
#if defined(__GNUC__)
    if constexpr (sizeof(R) > 16) {
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
inline T join(Pack<T> a, Function f) {
    for (int half = Pack<T>::parts / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) a.part[i] = f(a.part[i], a.part[i + half]);
    return join_register<T>(a.part[0], f);
}

template <typename T>
inline T sum(Pack<T> a) {
    return join(a, [](auto x, auto y) { return x + y; });
}
template <typename T>
inline T largest(Pack<T> a) {
    return join(a, [](auto x, auto y) { return x > y ? x : y; });
}

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
