// Branch-free building blocks for functions of floats, and exp and log.
//
// Only for kernels' C++ files (simd.h), in loops over single numbers, which compilers vectorise. Templates
// with `R` also take registers of vectors.h. Polynomials are minimax approximations (Remez) on the interval
// in their comment, with errors far below half a unit in the last place. Products are fused with additions
// explicitly, where the instruction set supports it. So a result does not depend on the position of the
// number in its array.

#pragma once

#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

#if defined(__FMA__) || (defined(__aarch64__) && defined(__GNUC__))
#define DISPOSESCOPE_FUSED 1
DISPOSESCOPE_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DISPOSESCOPE_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
#define DISPOSESCOPE_FUSED 0
#endif
template <typename R>
DISPOSESCOPE_INLINE R fused(R a, R b, R c) { return fma(a, b, c); }

template <typename R>
using ElementOf = typename Of<R>::Element;

template <typename R>
DISPOSESCOPE_INLINE R horner(R, R sum) { return sum; }

template <typename R, typename... Rest>
DISPOSESCOPE_INLINE R horner(R x, R sum, ElementOf<R> next, Rest... rest) {
    return horner(x, fused(sum, x, splat<R>(next)), rest...);
}

// The leading coefficient comes first.
template <typename R, typename... Rest>
DISPOSESCOPE_INLINE R polynomial(R x, ElementOf<R> leading, Rest... rest) {
    return horner(x, splat<R>(leading), rest...);
}

template <typename T>
struct Float;

template <>
struct Float<float> {
    static constexpr int digits = 23;
    static constexpr float to_integer = 0x1.8p23f;  // adding it rounds to an integer
    static constexpr float log2_e = 1.44269504f;
    static constexpr float ln2_high = 0x1.62e4p-1f;  // its product with a small integer is exact
    static constexpr float ln2_low = 1.42860677e-06f;
    static constexpr float bias = 127.0f;
    static constexpr float splitter = 4097.0f;
    static constexpr float exp_least = -104.0f;  // exp of smaller numbers is 0
    static constexpr float exp_most = 89.0f;     // exp of larger numbers is infinite
    static constexpr float lift = 64.0f;         // a subnormal number times 2**lift is normal
    static constexpr float two_to_lift = 0x1p64f;
    static constexpr float tanh_most = 10.0f;    // tanh of larger numbers is 1
    static constexpr float smallest_normal = 0x1p-126f;
};

template <>
struct Float<double> {
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
DISPOSESCOPE_INLINE T magnitude(T x) {
    using Bits = UnsignedOf<T>;
    return as<T>(static_cast<Bits>(as<Bits>(x) & (~Bits{0} >> 1)));
}

template <typename T>
DISPOSESCOPE_INLINE T with_sign_of(T x, T sign) {
    using Bits = UnsignedOf<T>;
    constexpr Bits rest = ~Bits{0} >> 1;
    return as<T>(static_cast<Bits>((as<Bits>(x) & rest) | (as<Bits>(sign) & ~rest)));
}

// nan stays nan, because every comparison with it is false.
template <typename R>
DISPOSESCOPE_INLINE R at_most(R x, R bound) { return x > bound ? bound : x; }

template <typename R>
DISPOSESCOPE_INLINE R at_least(R x, R bound) { return x < bound ? bound : x; }

// Return the magnitude, but `bound` if the magnitude is larger or `x` is nan. Compare as integers: for a
// float minimum, compilers would compute the code that follows twice.
template <typename T>
DISPOSESCOPE_INLINE T magnitude_up_to(T x, T bound) {
    using Bits = BitsOf<T>;
    const Bits most = as<Bits>(bound), bits = as<Bits>(magnitude(x));
    return as<T>(bits < most ? bits : most);
}

// Round to the nearest integer, for values in the range of exponents.
template <typename R>
DISPOSESCOPE_INLINE R rounded(R x) {
    const R to_integer = splat<R>(Float<ElementOf<R>>::to_integer);
    return (x + to_integer) - to_integer;
}

// 2**(n + more) for integers; the result must be a normal number.
template <typename R>
DISPOSESCOPE_INLINE R power_of_two(R n, ElementOf<R> more = 0) {
    using F = Float<ElementOf<R>>;
    using Bits = UnsignedOf<R>;
    // The last bits of the sum are the biased exponent. The shift drops the bits before them.
    return as<R>(static_cast<Bits>(as<Bits>(n + splat<R>(F::to_integer + F::bias + more)) << F::digits));
}

// x * 2**n in two steps, because 2**n alone may overflow or underflow.
template <typename R>
DISPOSESCOPE_INLINE R scaled(R x, R n) {
    const R half = rounded(n * splat<R>(ElementOf<R>(0.5)));
    return x * power_of_two(half) * power_of_two(n - half);
}

#if defined(__AVX512F__) && !defined(_MSC_VER)
DISPOSESCOPE_INLINE __m512 scaled(__m512 x, __m512 n) { return _mm512_maskz_scalef_ps(0xffff, x, n); }
DISPOSESCOPE_INLINE __m512d scaled(__m512d x, __m512d n) { return _mm512_maskz_scalef_pd(0xff, x, n); }
#endif

// The unevaluated sum of two numbers.
template <typename T>
struct Sum {
    T high, low;
};

// a * b exactly: with a fused product, or by Dekker's algorithm.
template <typename T>
DISPOSESCOPE_INLINE Sum<T> product_of(T a, T b) {
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
DISPOSESCOPE_INLINE Sum<T> sum_of(T a, T b) {  // Knuth
    const T s = a + b, t = s - a;
    return {s, (a - (s - t)) + (b - t)};
}

// a - b * c with one rounding, or almost one. For b * c close to `a`.
template <typename T>
DISPOSESCOPE_INLINE T difference(T a, T b, T c) {
#if DISPOSESCOPE_FUSED
    return fused(-b, c, a);
#else
    const Sum<T> product = product_of(b, c);
    return (a - product.high) - product.low;
#endif
}

// x * sum + next, a step of a polynomial, exact if `next` is at least a third of the result.
template <typename T>
DISPOSESCOPE_INLINE Sum<T> exact_step(T x, T sum, T next) {
    const T high = fused(x, sum, next);
    return {high, -difference(high - next, x, sum)};
}

// exp(x) as (1 + tail) * 2**exponent. `tail`, which is r + r*r * curve, has full relative precision. `r_rest`
// is the rounding error of `r`.
template <typename R>
struct Exponential {
    R r, r_rest, curve, tail, exponent;

    DISPOSESCOPE_INLINE R whole() const { return scaled(one() + tail, exponent); }
    // The rounding error of `whole`.
    DISPOSESCOPE_INLINE R rest() const { return scaled((one() - (one() + tail)) + tail, exponent); }
    // factor * (1 + tail), within 1.1 units in the last place.
    DISPOSESCOPE_INLINE R times(Sum<R> factor) const {
        const R bend = fused(r * r, curve, r_rest);
        const R low = fused(factor.high, bend, fused(factor.low, r, factor.low));
        return factor.high + fused(factor.high, r, low);
    }
    // The power of two, times 2**lift.
    DISPOSESCOPE_INLINE R lifted() const { return power_of_two(exponent, Float<ElementOf<R>>::lift); }
    // The power of two, for exponents of normal numbers.
    DISPOSESCOPE_INLINE R scale() const { return power_of_two(exponent); }

   private:
    static DISPOSESCOPE_INLINE R one() { return splat<R>(ElementOf<R>(1)); }
};

// q(r) in expm1(r) = r + r*r * q(r), for |r| <= log(2) / 2
template <typename R>
DISPOSESCOPE_INLINE R tail_of_expm1(R r, float) {
    return polynomial(r, 0.00139465381f, 0.00836664531f, 0.0416662805f, 0.16666542f, 0.5f);
}
template <typename R>
DISPOSESCOPE_INLINE R tail_of_expm1(R r, double) {
    return polynomial(
        r, 2.5100472505694996e-08, 2.7620201591031547e-07, 2.7557268276905696e-06, 2.4801521057868204e-05,
        0.00019841269863171557, 0.0013888888917367081, 0.008333333333330039, 0.041666666666623824,
        0.16666666666666669, 0.50000000000000011);
}

// x / log(2), rounded to an integer.
template <typename R>
DISPOSESCOPE_INLINE R periods_of(R x) {
    using F = Float<ElementOf<R>>;
    const R to_integer = splat<R>(F::to_integer);
    return fused(x, splat<R>(F::log2_e), to_integer) - to_integer;
}

// The exponential of `x`, which must be from exp_least to exp_most.
template <typename R>
DISPOSESCOPE_INLINE Exponential<R> exponential_of(R x) {
    using T = ElementOf<R>;
    const R n = periods_of(x);
    const R high = fused(n, splat<R>(-Float<T>::ln2_high), x);
    const R r = fused(n, splat<R>(-Float<T>::ln2_low), high);
    const R curve = tail_of_expm1(r, T());
    return {r, fused(n, splat<R>(-Float<T>::ln2_low), high - r), curve, fused(r * r, curve, r), n};
}

// The exponential of x + low; `low` is at most the last digit of `x`.
template <typename R>
DISPOSESCOPE_INLINE Exponential<R> exponential_of(R x, R low) {
    using T = ElementOf<R>;
    const R n = periods_of(x);
    const R high = fused(n, splat<R>(-Float<T>::ln2_high), x);
    const R rest = fused(n, splat<R>(-Float<T>::ln2_low), low);
    const R r = high + rest;
    const R curve = tail_of_expm1(r, T());
    return {r, (high - r) + rest, curve, fused(r * r, curve, r), n};
}

template <typename R>
DISPOSESCOPE_INLINE R exp(R x) {
    using F = Float<ElementOf<R>>;
    return exponential_of(at_least(at_most(x, splat<R>(F::exp_most)), splat<R>(F::exp_least))).whole();
}

// `factor` times the logistic function of a number x; `power` is exp(-|x|).
template <typename T>
DISPOSESCOPE_INLINE T gated(T factor, Exponential<T> power, bool is_negative) {
    constexpr T lift = Float<T>::two_to_lift;
    const T lifted = power.lifted();
    const T e = fused(lifted, power.tail, lifted) * (T(1) / lift);
    const T below = T(1) + e;
    // The approximate error of 1 / below: the rounding error of the sum, times 1 / below, to within a tenth.
    const T correction = (e - (below - T(1))) * fused(T(-0.5), below, T(1.5));
    const T quotient = (is_negative ? fused(factor, power.tail, factor) * lifted : factor) / below;
    // Bound the quotient, because infinity minus infinity times the correction would be nan.
    const T whole = fused(at_most(quotient, T(4) * lift), -correction, quotient);
    return whole * (is_negative ? T(1) / lift : T(1));
}

// (2 atanh(s) - 2s) / s**3, by z = s*s: `tail_of_atanh` for z <= 1/9, `tail_of_logarithm` for z <= 0.0295,
// which is the range of `log`.
DISPOSESCOPE_INLINE float tail_of_atanh(float z) {
    return polynomial(z, 0.243009448f, 0.214276582f, 0.286168844f, 0.39998877f, 0.666666746f);
}
DISPOSESCOPE_INLINE double tail_of_atanh(double z) {
    return polynomial(
        z, 0.16467655491919445, 0.069942356185245261, 0.10972569407498337, 0.11715950354251814,
        0.13336805840505275, 0.15384451931359613, 0.18181823202932104, 0.22222222125470789, 0.28571428572510016,
        0.39999999999993979, 0.66666666666666674);
}
template <typename R>
DISPOSESCOPE_INLINE R tail_of_logarithm(R z, float) {
    return polynomial(z, 0.236106426f, 0.285358846f, 0.400003552f, 0.666666627f);
}
template <typename R>
DISPOSESCOPE_INLINE R tail_of_logarithm(R z, double) {
    return polynomial(
        z, 0.14827308027861885, 0.15311057416268986, 0.18183675381650791, 0.22222196560103485,
        0.28571428760686013, 0.39999999999338964, 0.66666666666667451);
}

template <typename R>
DISPOSESCOPE_INLINE R log(R x) {
    using T = ElementOf<R>;
    using F = Float<T>;
    using Bits = UnsignedOf<R>;
    using Bit = UnsignedOf<T>;
    constexpr int digits = F::digits;
    constexpr Bit fraction = (Bit{1} << digits) - 1;
    constexpr Bit sign = ~(~Bit{0} >> 1);
    const R zero = splat<R>(T(0));
    const auto is_tiny = x < splat<R>(F::smallest_normal);
    const R normal = is_tiny ? x * splat<R>(T(Bit{1} << digits)) : x;
    // x = m * 2**k with m from sqrt(1/2) to sqrt(2).
    const Bits root = as<Bits>(splat<R>(T(0.70710678118654752440)));
    const Bits lifted = as<Bits>(normal) - root + sign;  // adding the sign bit keeps k positive
    const R k = as<R>((lifted >> digits) | as<Bits>(splat<R>(T(Bit{1} << digits))))
        - splat<R>(T(Bit{1} << digits) + T(2) * (F::bias + T(1))) - (is_tiny ? splat<R>(T(digits)) : zero);
    const R f = as<R>((lifted & fraction) + root) - splat<R>(T(1));
    const R s = f / (splat<R>(T(2)) + f);
    const R z = s * s;
    const R half = splat<R>(T(0.5)) * f * f;
    // log(1 + f) = f - (f*f/2 - s * (f*f/2 + z * tail)), as in fdlibm.
    const R correction =
        fused(s, fused(z, tail_of_logarithm(z, T()), half), k * splat<R>(F::ln2_low));
    const R y = fused(k, splat<R>(F::ln2_high), f - (half - correction));
    const R endless = splat<R>(infinity<T>());
    const R at_zero = x == zero ? -endless : endless - endless;
    const R elsewhere = x == x ? at_zero : x;
    const R bounded = x < endless ? y : x;
    return x > zero ? bounded : elsewhere;
}

// log(1 + x) for 0 <= x <= 1, where `rest` is the rounding error of `x`: 2 atanh(x / (2 + x))
template <typename T>
DISPOSESCOPE_INLINE T log1p_of(T x, T rest) {
    const T below = T(2) + x;
    const T below_rest = ((T(2) - below) + x) + rest;
    const T inverse = T(1) / below;
    const T s = x * inverse;
    const T s_rest = (difference(x, s, below) + (rest - s * below_rest)) * inverse;
    const T z = s * s;
    return (s + s) + fused(s * z, tail_of_atanh(z), s_rest + s_rest);
}

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
