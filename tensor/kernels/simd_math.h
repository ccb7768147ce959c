// Parts of which functions of floats are made, without branches, so that compilers vectorise loops over them.
//
// For kernels' C++ files alone (simd.h). Polynomials are minimax (Remez) on the interval that each names; what they
// leave is far below half a unit of the last place. Products are fused with additions where the instruction set
// can, and by name only: so a number's result does not depend on its place in an array.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

#if defined(__FMA__) || (defined(__aarch64__) && defined(__GNUC__))
#define DISPOSESCOPE_FUSED 1
static inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
#define DISPOSESCOPE_FUSED 0
template <typename T>
static inline T fused(T a, T b, T c) { return a * b + c; }
#endif

// The leading coefficient comes first.
template <typename T>
static inline T polynomial(T, T sum) { return sum; }

template <typename T, typename... Rest>
static inline T polynomial(T x, T sum, T next, Rest... rest) {
    return polynomial(x, fused(sum, x, next), rest...);
}

template <typename To, typename From>
static inline To bits_as(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

template <typename T>
struct Float;

template <>
struct Float<float> {
    using Bits = std::uint32_t;
    static constexpr int digits = 23;
    static constexpr float to_integer = 0x1.8p23f;  // added, it leaves no place for a fraction
    static constexpr float log2_e = 1.44269504f;
    static constexpr float ln2_high = 0x1.62e4p-1f;  // times a small integer it is exact
    static constexpr float ln2_low = 1.42860677e-06f;
    static constexpr float bias = 127.0f;
    static constexpr float splitter = 4097.0f;
    static constexpr float exp_least = -104.0f;  // from here on exp is 0
    static constexpr float exp_most = 89.0f;     // and from here on infinite
    static constexpr float lift = 64.0f;         // 2**lift times a subnormal number is normal
    static constexpr float two_to_lift = 0x1p64f;
    static constexpr float tanh_most = 10.0f;    // and tanh 1
    static constexpr float smallest_normal = 0x1p-126f;
};

template <>
struct Float<double> {
    using Bits = std::uint64_t;
    static constexpr int digits = 52;
    static constexpr double to_integer = 0x1.8p52;
    static constexpr double log2_e = 1.4426950408889634;
    static constexpr double ln2_high = 0x1.62e42fefap-1;
    static constexpr double ln2_low = 0x1.cf79abc9e3b39p-40;
    static constexpr double bias = 1023.0;
    static constexpr double splitter = 134217729.0;
    static constexpr double exp_least = -746.0;
    static constexpr double exp_most = 710.0;
    static constexpr double lift = 512.0;
    static constexpr double two_to_lift = 0x1p512;
    static constexpr double tanh_most = 20.0;
    static constexpr double smallest_normal = 0x1p-1022;
};

template <typename T>
static inline T magnitude(T x) {
    using Bits = typename Float<T>::Bits;
    return bits_as<T>(static_cast<Bits>(bits_as<Bits>(x) & (~Bits{0} >> 1)));
}

template <typename T>
static inline T with_sign_of(T x, T sign) {
    using Bits = typename Float<T>::Bits;
    constexpr Bits rest = ~Bits{0} >> 1;
    return bits_as<T>(static_cast<Bits>((bits_as<Bits>(x) & rest) | (bits_as<Bits>(sign) & ~rest)));
}

// Not a number stays that, since every comparison with it is false.
template <typename T>
static inline T at_most(T x, T bound) { return x > bound ? bound : x; }

template <typename T>
static inline T at_least(T x, T bound) { return x < bound ? bound : x; }

// To the nearest integer, in the range of exponents.
template <typename T>
static inline T rounded(T x) { return (x + Float<T>::to_integer) - Float<T>::to_integer; }

// 2**n for an integer n whose power is a normal number.
template <typename T>
static inline T power_of_two(T n) {
    using Bits = typename Float<T>::Bits;
    // The last bits of the sum are the exponent as it is stored; those before them fall out of the shift.
    return bits_as<T>(
        static_cast<Bits>(bits_as<Bits>(n + (Float<T>::to_integer + Float<T>::bias)) << Float<T>::digits));
}

// a * b as the unevaluated sum of two numbers, exactly: by a fused product, or Dekker's way.
template <typename T>
struct Sum {
    T high, low;
};

template <typename T>
static inline Sum<T> product_of(T a, T b) {
    const T p = a * b;
#if DISPOSESCOPE_FUSED
    return {p, fused(a, b, -p)};
#else
    if constexpr (sizeof(T) == sizeof(float)) {
        const double exact = static_cast<double>(a) * b;
        return {p, static_cast<T>(exact - p)};
    }
    const T sa = Float<T>::splitter * a, sb = Float<T>::splitter * b;
    const T a1 = sa - (sa - a), b1 = sb - (sb - b);
    const T a2 = a - a1, b2 = b - b1;
    return {p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2};
#endif
}

template <typename T>
static inline Sum<T> sum_of(T a, T b) {  // Knuth
    const T s = a + b, t = s - a;
    return {s, (a - (s - t)) + (b - t)};
}

// a - b * c with one rounding, or next to none: small where b * c is close to `a`.
template <typename T>
static inline T difference(T a, T b, T c) {
#if DISPOSESCOPE_FUSED
    return fused(-b, c, a);
#else
    const Sum<T> product = product_of(b, c);
    return (a - product.high) - product.low;
#endif
}

// x * sum + next, a step of a polynomial, where `next` is at least a third of the result.
template <typename T>
static inline Sum<T> exact_step(T x, T sum, T next) {
    const T high = fused(x, sum, next);
    return {high, -difference(high - next, x, sum)};
}

// exp(x) as (1 + tail) * 2**exponent, `tail` with its full relative precision: that of r + r*r * curve + r_rest.
template <typename T>
struct Exponential {
    T r, r_rest, curve, tail, exponent;

    T whole() const { return (T(1) + tail) * half() * other_half(); }
    // What `whole` has lost by rounding.
    T rest() const { return ((T(1) - (T(1) + tail)) + tail) * half() * other_half(); }
    // factor * (1 + tail), within 1.1 units of the last place.
    T times(Sum<T> factor) const {
        const T bend = fused(r * r, curve, r_rest);
        const T low = fused(factor.high, bend, fused(factor.low, r, factor.low));
        return factor.high + fused(factor.high, r, low);
    }
    // In two steps, since 2**exponent alone may be too large or too small: for the last operations.
    T half() const { return power_of_two(first()); }
    T other_half() const { return power_of_two(exponent - first()); }
    // The power, times 2**lift.
    T lifted() const { return power_of_two(exponent + Float<T>::lift); }
    // For exponents that are known to be of normal numbers.
    T scale() const { return power_of_two(exponent); }

   private:
    T first() const { return rounded(exponent * T(0.5)); }
};

// q(r) of expm1(r) = r + r*r * q(r) for |r| <= log(2) / 2
static inline float tail_of_expm1(float r) {
    return polynomial(r, 0.00139465381f, 0.00836664531f, 0.0416662805f, 0.16666542f, 0.5f);
}
static inline double tail_of_expm1(double r) {
    return polynomial(
        r, 2.0924563681140205e-09, 2.5109147519186371e-08, 2.7557242356578564e-07, 2.7557243911310489e-06,
        2.4801587361051451e-05, 0.00019841269886401451, 0.0013888888888866568, 0.0083333333333215319,
        0.041666666666666699, 0.16666666666666677, 0.5);
}

// Of x + low, where `low` is at most the last digit of `x`, which is within the bounds of exp.
template <typename T>
static inline Exponential<T> exponential_of(T x, T low = T(0)) {
    const T n = rounded(x * Float<T>::log2_e);
    const T high = fused(n, -Float<T>::ln2_high, x), rest = fused(n, -Float<T>::ln2_low, low);
    const T r = high + rest;
    const T curve = tail_of_expm1(r);
    return {r, (high - r) + rest, curve, fused(r * r, curve, r), n};
}

// `factor` times the logistic function of a number whose magnitude has `power` as exp(-magnitude).
template <typename T>
static inline T gated(T factor, Exponential<T> power, bool is_negative) {
    constexpr T lift = Float<T>::two_to_lift;
    const T lifted = power.lifted();
    const T e = fused(lifted, power.tail, lifted) * (T(1) / lift);
    const T below = T(1) + e;
    // By how much too small 1 / below is, about: the rounding of the sum, by 1 / below, to within a tenth.
    const T correction = (e - (below - T(1))) * fused(T(-0.5), below, T(1.5));
    const T quotient = (is_negative ? fused(factor, power.tail, factor) * lifted : factor) / below;
    // Bounded, since infinity times the correction would be subtracted from itself.
    const T whole = fused(at_most(quotient, T(4) * lift), -correction, quotient);
    return whole * (is_negative ? T(1) / lift : T(1));
}

// (2 atanh(s) - 2s) / s**3 for z = s*s <= 1/9, and for z <= 0.0295, which is that of a logarithm
static inline float tail_of_atanh(float z) {
    return polynomial(z, 0.243009448f, 0.214276582f, 0.286168844f, 0.39998877f, 0.666666746f);
}
static inline double tail_of_atanh(double z) {
    return polynomial(
        z, 0.16467655491919445, 0.069942356185245261, 0.10972569407498337, 0.11715950354251814,
        0.13336805840505275, 0.15384451931359613, 0.18181823202932104, 0.22222222125470789, 0.28571428572510016,
        0.39999999999993979, 0.66666666666666674);
}
static inline float tail_of_logarithm(float z) {
    return polynomial(z, 0.236106426f, 0.285358846f, 0.400003552f, 0.666666627f);
}
static inline double tail_of_logarithm(double z) {
    return polynomial(
        z, 0.14827308027861885, 0.15311057416268986, 0.18183675381650791, 0.22222196560103485,
        0.28571428760686013, 0.39999999999338964, 0.66666666666667451);
}

// log(1 + x) for 0 <= x <= 1, `x` given with what it lacks by rounding: 2 atanh(x / (2 + x))
template <typename T>
static inline T log1p_of(T x, T rest) {
    const T below = T(2) + x;
    const T below_rest = ((T(2) - below) + x) + rest;
    const T inverse = T(1) / below;
    const T s = x * inverse;
    const T s_rest = (difference(x, s, below) + (rest - s * below_rest)) * inverse;
    const T z = s * s;
    return (s + s) + fused(s * z, tail_of_atanh(z), s_rest + s_rest);
}

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
