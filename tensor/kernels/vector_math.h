// exp and log of floats and doubles, one number or a vector of them at a time, without branches.
//
// Errors, measured over all exponents: exp at most 0.9 units in the last place, log 1.0. Results below the
// smallest normal number are rounded to multiples of the smallest one, as IEEE 754 has it; nan, infinities and
// zeros give what the C library gives.

#pragma once

#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

template <typename T>
struct Constants;

template <>
struct Constants<float> {
    static constexpr int mantissa = 23;
    static constexpr std::int32_t bias = 127;
    // Added to a number, it rounds it to an integer, which is then in the last bits.
    static constexpr float rounding = 12582912.0f;
    static constexpr float log2e = 1.44269504088896340736f;
    // The logarithm of 2; a few bits, so that its multiples are exact, and the rest.
    static constexpr float ln2_high = 0.693359375f, ln2_low = -0.000212194442f;
    // exp is 0, and infinite, beyond.
    static constexpr float least = -104.0f, most = 89.0f;
    static constexpr float root_half = 0.707106781f, smallest = 1.17549435e-38f, two_to_mantissa = 8388608.0f;
};

template <>
struct Constants<double> {
    static constexpr int mantissa = 52;
    static constexpr std::int64_t bias = 1023;
    static constexpr double rounding = 6755399441055744.0;
    static constexpr double log2e = 1.44269504088896340736;
    static constexpr double ln2_high = 0.69314718048553914, ln2_low = 7.4406171100123968e-11;
    static constexpr double least = -746.0, most = 710.0;
    static constexpr double root_half = 0.70710678118654752, smallest = 2.2250738585072014e-308;
    static constexpr double two_to_mantissa = 4503599627370496.0;
};

template <typename R>
inline R polynomial(R x, const typename Of<R>::Element* coefficients, int count) {
    R y = splat<R>(coefficients[count - 1]);
    for (int i = count - 2; i >= 0; --i) y = fma(y, x, splat<R>(coefficients[i]));
    return y;
}

// (exp(r) - 1 - r) / r**2 for r within half of ln(2), to 7e-10 and 2e-17 of exp(r), by interpolation at Chebyshev's
// points.
constexpr float exp_of_float[] = {0.5f,           0.166666672f,   0.041666463f,
                                  0.00833331048f, 0.00139337312f, 0.000198910799f};
constexpr double exp_of_double[] = {0.50000000000000011,    0.16666666666666669,    0.041666666666623824,
                                    0.008333333333330039,   0.0013888888917367081,  0.00019841269863171557,
                                    2.4801521057868204e-05, 2.7557268276905696e-06, 2.7620201591031547e-07,
                                    2.5100472505694996e-08};

template <typename R>
inline R exp_polynomial(R r, float) {
    return polynomial(r, exp_of_float, 6);
}
template <typename R>
inline R exp_polynomial(R r, double) {
    return polynomial(r, exp_of_double, 10);
}

// (log(1 + f) - 2 s) / s**3 for s = f / (2 + f), as a function of s**2.
constexpr float log_of_float[] = {0.666666865f, 0.399887592f, 0.295809865f};
constexpr double log_of_double[] = {0.66666666666666696, 0.39999999999898889, 0.28571428626253836,
                                    0.22222211089379496, 0.18182892432536871, 0.15331611722055008,
                                    0.14617807153417325};

template <typename R>
inline R log_polynomial(R z, float) {
    return polynomial(z, log_of_float, 3);
}
template <typename R>
inline R log_polynomial(R z, double) {
    return polynomial(z, log_of_double, 7);
}

// x * 2**n, where n is an integer, and is within the range of exponents of two factors.
template <typename R>
inline R scaled(R x, R n) {
    using T = typename Of<R>::Element;
    using C = Constants<T>;
    using Bits = BitsOf<R>;
    const R rounding = splat<R>(C::rounding);
    const Bits zero = as<Bits>(rounding);
    // In two steps, since 2**n may be no number.
    const Bits half = as<Bits>(fma(n, splat<R>(T(0.5)), rounding)) - zero;
    const Bits rest = as<Bits>(n + rounding) - zero - half;
    return x * as<R>((half + C::bias) << C::mantissa) * as<R>((rest + C::bias) << C::mantissa);
}

#if defined(__AVX512F__) && !defined(_MSC_VER)
inline __m512 scaled(__m512 x, __m512 n) { return _mm512_maskz_scalef_ps(0xffff, x, n); }
inline __m512d scaled(__m512d x, __m512d n) { return _mm512_maskz_scalef_pd(0xff, x, n); }
#endif

template <typename R>
inline R exp(R x) {
    using T = typename Of<R>::Element;
    using C = Constants<T>;
    x = x < splat<R>(C::least) ? splat<R>(C::least) : x;  // nan stays
    x = x > splat<R>(C::most) ? splat<R>(C::most) : x;
    const R rounding = splat<R>(C::rounding);
    const R n = fma(x, splat<R>(C::log2e), rounding) - rounding;
    R r = fma(n, splat<R>(-C::ln2_high), x);
    r = fma(n, splat<R>(-C::ln2_low), r);
    const R q = exp_polynomial(r, T());
    return scaled(fma(r * r, q, r) + splat<R>(T(1)), n);
}

template <typename R>
inline R log(R x) {
    using T = typename Of<R>::Element;
    using C = Constants<T>;
    using Bits = BitsOf<R>;
    using Unsigned = UnsignedOf<R>;
    const R zero = splat<R>(T(0));
    const auto is_small = x < splat<R>(C::smallest);
    const R normal = is_small ? x * splat<R>(C::two_to_mantissa) : x;
    // normal = m * 2**n, with m from the root of a half to that of 2
    const Bits start = as<Bits>(splat<R>(C::root_half));
    const Bits distance = as<Bits>(normal) - start;
    const Bits one = as<Bits>(splat<R>(T(1)));
    const R m = as<R>((distance & (((Bits{} + 1) << C::mantissa) - 1)) + start);
    // The exponent in the last bits of a large number. It is made positive before, since not all processors can
    // shift 64 bits with their sign.
    const Bits biased = as<Bits>(as<Unsigned>(distance + one) >> C::mantissa);
    const R large = as<R>(biased + as<Bits>(splat<R>(C::rounding)));
    const R n = large - splat<R>(C::rounding + T(C::bias)) - (is_small ? splat<R>(T(C::mantissa)) : zero);
    const R f = m - splat<R>(T(1));
    const R s = f / (splat<R>(T(2)) + f);
    const R z = s * s;
    const R half = splat<R>(T(0.5)) * f * f;
    // log(1 + f) = f - f**2 / 2 + s * (f**2 / 2 + z * polynomial), which cancels least
    const R tail = s * fma(z, log_polynomial(z, T()), half);
    R y = fma(n, splat<R>(C::ln2_high), f - (half - fma(n, splat<R>(C::ln2_low), tail)));
    const R endless = splat<R>(infinity<T>());
    y = x == endless ? endless : y;
    y = x == zero ? zero - endless : y;
    y = x < zero ? endless - endless : y;
    return x != x ? x : y;
}

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
