#include "tensor/kernels/gaussian.h"

#include "tensor/kernels/simd_math.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

// Phi(-t) * exp(t*t / 2) * (t + k) by q = (t - k) / (t + k), Phi being the normal distribution's function: from
// t = 0 to where Phi(-t) is 0.
template <typename T>
struct Normal;

template <>
struct Normal<float> {
    static constexpr float k = 4.0f, most = 14.6f;
    static constexpr float erf_most = 4.0f;  // beyond, erf is 1
    static inline float body(float q) {
        return polynomial(
            q, -0.000132433765f, 0.000178369897f, 0.00156958855f, -0.00351207703f, -0.00752500258f,
            0.0604037642f, -0.186523482f, 0.387136906f, -0.607896566f, 0.755285144f);
    }
    // erf(x) / x - 1 for z = x*x <= 1
    static inline float near_erf(float z) {
        return polynomial(
            z, 7.853844e-05f, -0.000801018905f, 0.00518832728f, -0.026853811f, 0.112835854f, -0.37612626f,
            0.128379166f);
    }
};

template <>
struct Normal<double> {
    static constexpr double k = 6.0, most = 38.8;
    static constexpr double erf_most = 6.0;
    static inline double body(double q) {
        return polynomial(
            q, 7.0070341422040231e-10, 4.7423701765096415e-09, 7.980174768985755e-12, -4.3006530176358545e-08,
            9.9011749889900556e-09, 3.1033080850135083e-07, -4.3117747348831007e-07, -1.7996984376238284e-06,
            6.7971040380390568e-06, 1.0755906288183814e-06, -6.4752223924322626e-05, 0.00018136042072542703,
            3.2870063621100848e-05, -0.0021316052108519205, 0.010029820634972373, -0.030985315507525393,
            0.07517191566935684, -0.15268023206449685, 0.26797424584163981, -0.41390358577559033,
            0.56896889181478394, -0.70100902959086553, 0.77735177189336224);
    }
    static inline double near_erf(double z) {
        return polynomial(
            z, 5.9452576939415425e-11, -1.1365663136628493e-09, 1.4657878989888879e-08, -1.6350025076223882e-07,
            1.6460972801190717e-06, -1.4925593505766364e-05, 0.00012055331036846668, -0.00085483269787405675,
            0.005223977624780835, -0.026866170645072893, 0.11283791670954857, -0.37612638903183748,
            0.12837916709551259);
    }
};

// Phi(-t) = rest * exponential of t >= 0. The square is exact, since its error would be magnified.
template <typename T>
struct Tail {
    T rest;
    Exponential<T> exponential;
};

template <typename T>
static inline T rest_of_tail(T t) {
    const T inverse = T(1) / (t + Normal<T>::k);
    return Normal<T>::body((t - Normal<T>::k) * inverse) * inverse;
}

template <typename T>
static inline Tail<T> tail_of(T t) {
    const Sum<T> square = product_of(t, t);
    return {rest_of_tail(t), exponential_of(T(-0.5) * square.high, T(-0.5) * square.low)};
}

// erfc(t) = 2 * rest * exponential of t >= 0
template <typename T>
static inline Tail<T> tail_of_erfc(T t) {
    const Sum<T> square = product_of(t, t);
    return {rest_of_tail(t * T(1.4142135623730950488)), exponential_of(-square.high, -square.low)};
}

struct Erf {
    template <typename T>
    static inline T of(T x) {
        const T a = at_most(magnitude(x), Normal<T>::erf_most);
        const Tail<T> tail = tail_of_erfc(a);
        const T twice = tail.rest + tail.rest;
        const T far = T(1) - fused(twice, tail.exponential.tail, twice) * tail.exponential.scale();
        const T near = fused(x, Normal<T>::near_erf(x * x), x);
        return a < T(1) ? near : with_sign_of(far, x);
    }
};

struct Erfc {
    template <typename T>
    static inline T of(T x) {
        const T a = at_most(magnitude(x), Normal<T>::most * T(0.71));
        const Tail<T> tail = tail_of_erfc(a);
        const T twice = tail.rest + tail.rest;
        const T far = fused(twice, tail.exponential.tail, twice) * tail.exponential.half()
            * tail.exponential.other_half();
        const T near = fused(-x, Normal<T>::near_erf(x * x), T(1) - x);
        return a < T(0.25) ? near : (x < T(0) ? T(2) - far : far);
    }
};

struct Gelu {
    template <typename T>
    static inline T of(T x) {
        const Tail<T> tail = tail_of(at_most(magnitude(x), Normal<T>::most));
        const Exponential<T>& e = tail.exponential;
        // Below these bounds the result is -0, which an infinite factor would make nan.
        const T factor = at_least(x, -Normal<T>::most) * tail.rest;
        const bool is_negative = x < T(0);
        const T a = is_negative ? factor : tail.rest;
        const T small = fused(a, e.tail, a) * e.lifted() * (T(1) / Float<T>::two_to_lift);
        return is_negative ? small : x * (T(1) - small);
    }
};

// The approximation is x times the logistic function of v = 2 sqrt(2/pi) (x + 0.044715 x**3). These are the two
// coefficients, and what they lack by rounding.
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
static inline Sum<T> cubic_of(T t) {
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
    static inline T of(T x) {
        const Sum<T> v = cubic_of(at_most(magnitude(x), Cubic<T>::most));
        const Exponential<T> power = exponential_of(-v.high, -v.low);
        const T lifted = power.lifted();
        const T e = fused(lifted, power.tail, lifted) * (T(1) / Float<T>::two_to_lift);
        const bool is_negative = x < T(0);
        const T factor = at_least(x, -Cubic<T>::most);
        const T above = is_negative ? fused(factor, power.tail, factor) * lifted : factor;
        return above / (T(1) + e) * (is_negative ? T(1) / Float<T>::two_to_lift : T(1));
    }
};

struct ErfSlope {
    template <typename T>
    static inline T of(T g, T x) {
        const T a = at_most(magnitude(x), Normal<T>::most);
        const Sum<T> square = product_of(a, a);
        const T e = exponential_of(
            at_least(-square.high, Float<T>::exp_least), a < Normal<T>::most ? -square.low : T(0)).whole();
        return g * (T(1.1283791670955125739) * e);
    }
};

struct GeluSlope {
    template <typename T>
    static inline T of(T g, T x) {
        const T a = at_most(magnitude(x), Normal<T>::most);
        const Tail<T> tail = tail_of(a);
        const T e = tail.exponential.whole();
        const T small = tail.rest * e;
        const T density = T(0.39894228040143267794) * e;
        return g * (x < T(0) ? fused(-a, density, small) : fused(a, density, T(1) - small));
    }
};

struct GeluByTanhSlope {
    template <typename T>
    static inline T of(T g, T x) {
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
