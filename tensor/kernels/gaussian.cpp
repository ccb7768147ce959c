#include "tensor/kernels/gaussian.h"

#include "tensor/kernels/simd_math.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

// Phi(-t) * exp(t*t / 2) * (t + k) as a function of q = (t - k) / (t + k), for t from 0 to where Phi(-t) is
// 0. Phi is the normal distribution function. `body` is the polynomial in q except for its last two steps,
// `linear` and `constant`.
template <typename T>
struct Normal;

template <>
struct Normal<float> {
    static constexpr float k = 4.0f, most = 14.6f;
    static constexpr float erf_most = 4.0f;  // beyond, erf is 1
    // Separate even and odd powers, for a shorter chain of operations.
    static DISPOSESCOPE_INLINE float body(float q) {
        const float z = q * q;
        const float odd = polynomial(z, -0.000129826876f, 0.00156323693f, -0.00752194738f, -0.186523974f);
        return fused(odd, q, polynomial(z, 0.000179103357f, -0.00351538882f, 0.0604053997f, 0.387136668f));
    }
    static constexpr float linear = -0.607896566f, constant = 0.755285144f;
    static constexpr float root = 1.41421354f, root_rest = 2.42032340e-08f;  // the square root of 2
    // erf(x) / x - 1 for z = x*x <= 1
    static DISPOSESCOPE_INLINE float near_erf(float z) {
        return polynomial(
            z, 7.853844e-05f, -0.000801018905f, 0.00518832728f, -0.026853811f, 0.112835854f, -0.37612626f,
            0.128379166f);
    }
};

template <>
struct Normal<double> {
    static constexpr double k = 6.0, most = 38.8;
    static constexpr double erf_most = 6.0;
    static DISPOSESCOPE_INLINE double body(double q) {
        return polynomial(
            q, 8.8777076331223218e-10, 5.2445790447415274e-09, -1.5808392129959535e-10, -4.4466802017761513e-08,
            9.4183295051026898e-09, 3.1214273226827434e-07, -4.3011290237380461e-07, -1.8009492443877097e-06,
            6.7961585832638936e-06, 1.076115654819296e-06, -6.4751749071592681e-05, 0.0001813602831643732,
            3.2869917245369021e-05, -0.0021316051886188223, 0.010029820662987179, -0.030985315509639563,
            0.075171915666135611, -0.1526802320643891, 0.26797424584184426, -0.41390358577559283,
            0.56896889181477794);
    }
    static constexpr double linear = -0.70100902959086553, constant = 0.77735177189336224;
    static constexpr double root = 1.4142135623730951, root_rest = -9.6672933134529135e-17;
    static DISPOSESCOPE_INLINE double near_erf(double z) {
        return polynomial(
            z, 5.9452576939415425e-11, -1.1365663136628493e-09, 1.4657878989888879e-08, -1.6350025076223882e-07,
            1.6460972801190717e-06, -1.4925593505766364e-05, 0.00012055331036846668, -0.00085483269787405675,
            0.005223977624780835, -0.026866170645072893, 0.11283791670954857, -0.37612638903183748,
            0.12837916709551259);
    }
};

// Phi(-t) = rest * exponential, for t >= 0. The square in the exponent is exact, because exp would magnify
// its error. The error of the rest is a tenth of its last digit.
template <typename T>
struct Tail {
    Sum<T> rest;
    Exponential<T> exponential;

    // The rest times `factor`, times 1 + the exponential's tail, without the power of two.
    DISPOSESCOPE_INLINE T times(T factor) const {
        const Sum<T> product = product_of(factor, rest.high);
        return exponential.times({product.high, fused(factor, rest.low, product.low)});
    }
};

// The rest for t + t_rest.
template <typename T>
static DISPOSESCOPE_INLINE Sum<T> rest_of_tail(T t, T t_rest) {
    const Sum<T> below = sum_of(t, Normal<T>::k);
    const T inverse = T(1) / below.high;
    // `inverse` is the exact inverse of t + t_rest + k + beyond.
    const T beyond = below.high * difference(T(1), below.high, inverse) - below.low - t_rest;
    const T q = difference(T(1), T(2) * Normal<T>::k, inverse);
    const Sum<T> sum = exact_step(q, Normal<T>::body(q), Normal<T>::linear);
    const Sum<T> whole = exact_step(q, sum.high, Normal<T>::constant);
    const T whole_rest = fused(q, sum.low, whole.low);
    const T high = whole.high * inverse;
    // The derivative of the rest with respect to t is t * rest - 1 / sqrt(2 pi).
    const T slope = fused(t, high, T(-0.39894228040143267794));
    return {high, fused(whole_rest, inverse, -difference(high, whole.high, inverse)) - beyond * slope};
}

// `rest_of_tail` times t + k, rounded at each step, for activations, whose results are within 4 ulp.
template <typename T>
static DISPOSESCOPE_INLINE T quick_rest(T q) {
    return fused(q, fused(q, Normal<T>::body(q), Normal<T>::linear), Normal<T>::constant);
}

// exp(-t*t / 2)
template <typename T>
static DISPOSESCOPE_INLINE Exponential<T> bell_of(T t) {
    const Sum<T> power = product_of(t, T(-0.5) * t);
    return exponential_of(power.high, power.low);
}

// erfc(t) = 2 * rest * exponential, for t >= 0
template <typename T>
static DISPOSESCOPE_INLINE Tail<T> tail_of_erfc(T t) {
    const Sum<T> square = product_of(t, t);
    const Sum<T> scaled = product_of(t, Normal<T>::root);
    const T scaled_rest = fused(t, Normal<T>::root_rest, scaled.low);
    return {rest_of_tail(scaled.high, scaled_rest), exponential_of(-square.high, -square.low)};
}

struct Erf {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        const T a = at_most(magnitude(x), Normal<T>::erf_most);
        const Tail<T> tail = tail_of_erfc(a);
        // For 1 - erfc, less precision is sufficient.
        const T twice = T(2) * tail.rest.high;
        const T far = T(1) - fused(twice, tail.exponential.tail, twice) * tail.exponential.scale();
        const T near = fused(x, Normal<T>::near_erf(x * x), x);
        return a < T(1) ? near : with_sign_of(far, x);
    }
};

struct Erfc {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        const T a = at_most(magnitude(x), Normal<T>::most * T(0.71));
        const Tail<T> tail = tail_of_erfc(a);
        const T far = scaled(tail.times(T(2)), tail.exponential.exponent);
        const T near = fused(-x, Normal<T>::near_erf(x * x), T(1) - x);
        return a < T(0.25) ? near : (x < T(0) ? T(2) - far : far);
    }
};

// gelu(x) = max(x, 0) - |x| Phi(-|x|)
struct Gelu {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        const T t = magnitude_up_to(x, Normal<T>::most);
        const T part = t / (t + Normal<T>::k);
        const T rest = quick_rest(fused(T(2), part, T(-1))) * part;
        const Exponential<T> bell = bell_of(t);
        const T less = fused(rest, bell.tail, rest) * bell.lifted() * (T(1) / Float<T>::two_to_lift);
        return at_least(x, T(-0.0)) - less;
    }
};

// `GeluByTanh` is x times the logistic function of v = 2 sqrt(2/pi) (x + 0.044715 x**3). `linear` and `cubic`
// are the coefficients of v, and `linear_rest` and `cubic_rest` their rounding errors.
template <typename T>
struct Cubic;

template <>
struct Cubic<float> {
    static constexpr float most = 11.0f;
    static constexpr float linear = 1.5957692f, linear_rest = -4.53406804e-08f;
    static constexpr float cubic = 0.071354814f, cubic_rest = 2.3988324e-09f;
};

template <>
struct Cubic<double> {
    static constexpr double most = 22.0;
    static constexpr double linear = 1.5957691216057308, linear_rest = -9.9693088091109203e-17;
    static constexpr double cubic = 0.07135481627260025, cubic_rest = -6.1751499181553155e-19;
};

template <typename T>
static DISPOSESCOPE_INLINE Sum<T> cubic_of(T t) {
    const Sum<T> square = product_of(t, t);
    const Sum<T> third = product_of(square.high, Cubic<T>::cubic);
    const Sum<T> sum = sum_of(third.high, Cubic<T>::linear);
    const T rest = sum.low + third.low
        + fused(square.low, Cubic<T>::cubic, fused(square.high, Cubic<T>::cubic_rest, Cubic<T>::linear_rest));
    const Sum<T> whole = product_of(t, sum.high);
    return {whole.high, fused(t, rest, whole.low)};
}

struct GeluByTanh {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        const Sum<T> v = cubic_of(at_most(magnitude(x), Cubic<T>::most));
        // Bound the factor: where the result is -0, an infinite factor would give nan.
        const T factor = at_least(x, -Cubic<T>::most);
        return with_sign_of(gated(factor, exponential_of(-v.high, -v.low), x < T(0)), x);  // also for -0
    }
};

struct ErfSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T x) {
        const T a = at_most(magnitude(x), Normal<T>::most);
        const Sum<T> square = product_of(a, a);
        const T e = exponential_of(
            at_least(-square.high, Float<T>::exp_least), a < Normal<T>::most ? -square.low : T(0)).whole();
        return g * (T(1.1283791670955125739) * e);
    }
};

struct GeluSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T x) {
        const T a = at_most(magnitude(x), Normal<T>::most);
        const T inverse = T(1) / (a + Normal<T>::k);
        const T e = bell_of(a).whole();
        const T small = quick_rest(fused(T(-2) * Normal<T>::k, inverse, T(1))) * inverse * e;
        const T density = T(0.39894228040143267794) * e;
        return g * (x < T(0) ? fused(-a, density, small) : fused(a, density, T(1) - small));
    }
};

struct GeluByTanhSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T x) {
        const T a = at_most(magnitude(x), Cubic<T>::most);
        const T square = a * a;
        const T v = a * fused(square, Cubic<T>::cubic, Cubic<T>::linear);
        const T e = exponential_of(-v).whole();
        const T inverse = T(1) / (T(1) + e);
        const T slope = fused(square, T(3) * Cubic<T>::cubic, Cubic<T>::linear);
        const T bend = a * (e * inverse) * (inverse * slope);
        return g * (x < T(0) ? fused(e, inverse, -bend) : inverse + bend);
    }
};

const Gaussian gaussian_kernels = {
    unary_loops<Erf>, unary_loops<Erfc>, unary_loops<Gelu>, unary_loops<GeluByTanh>,
    loops_of_two<ErfSlope>, loops_of_two<GeluSlope>, loops_of_two<GeluByTanhSlope>,
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
