#include "tensor/kernels/exponentials.h"

#include "tensor/kernels/simd_math.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

struct Exp {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return exp(x); }
};

struct Log {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return log(x); }
};

// (tanh(x) / x - 1) / z for z = x*x <= 0.56**2
static DISPOSESCOPE_INLINE float tail_of_tanh(float z) {
    return polynomial(z, -0.00620742841f, 0.0210272167f, -0.0538422763f, 0.133324996f, -0.333333164f);
}
static DISPOSESCOPE_INLINE double tail_of_tanh(double z) {
    return polynomial(
        z, -1.9049016785673146e-05, 8.2601729439446024e-05, -0.00023288840023001444, 0.00058825301050837114,
        -0.0014554969260629667, 0.0035920850031252037, -0.0088632319168862397, 0.021869488344809371,
        -0.053968253962354246, 0.13333333333324249, -0.33333333333333287);
}

struct Tanh {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        const T a = at_most(magnitude(x), Float<T>::tanh_most);
        const Exponential<T> e = exponential_of(T(2) * a);
        const T far = T(1) - T(2) / (fused(e.scale(), e.tail, e.scale()) + T(1));
        const T z = x * x;
        const T near = fused(x * z, tail_of_tanh(z), x);
        return with_sign_of(a < T(0.55) ? near : far, x);  // also for -0
    }
};

// exp(-|x|). Beyond `bound` the result is effectively 0.
template <typename T>
static DISPOSESCOPE_INLINE Exponential<T> falling_power(T x, T bound) { return exponential_of(at_least(-magnitude(x), bound)); }

struct Sigmoid {
    // 1 / (1 + exp(-x)). Numerator and denominator are scaled by 2**-lift, so that the exponential is finite
    // for subnormal results.
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        constexpr T lowered = T(1) / Float<T>::two_to_lift;
        const Exponential<T> e = exponential_of(-at_most(at_least(x, Float<T>::exp_least), T(40)));
        const T scale = power_of_two(e.exponent, -Float<T>::lift);
        return lowered / (lowered + fused(scale, e.tail, scale));
    }
};

struct Silu {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        // Bound the factor: where the result is -0, an infinite factor would give nan.
        const T factor = at_least(x, T(2) * Float<T>::exp_least);
        const Exponential<T> power = falling_power(x, Float<T>::exp_least - T(8));
        return with_sign_of(gated(factor, power, x < T(0)), x);  // also for -0
    }
};

struct Softplus {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        const Exponential<T> e = falling_power(x, Float<T>::exp_least);
        return log1p_of(e.whole(), e.rest()) + (x < T(0) ? T(0) : x);
    }
};

struct Logsigmoid {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return -Softplus::of(-x); }
};

struct TanhSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T y) { return g * fused(-y, y, T(1)); }
};

struct SigmoidSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T y) { return g * (y * (T(1) - y)); }
};

struct SiluSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T x) {
        const T a = at_most(at_least(x, Float<T>::exp_least), -Float<T>::exp_least);
        const T e = exponential_of(-magnitude(a)).whole();
        const T inverse = T(1) / (T(1) + e);
        const bool is_negative = a < T(0);
        const T gate = is_negative ? e * inverse : inverse;
        const T other = is_negative ? inverse : e * inverse;
        return g * (gate * fused(a, other, T(1)));
    }
};

// 1 - exp(-y), with full relative precision for small y.
template <typename T>
static DISPOSESCOPE_INLINE T fall_of(T y) {
    const Exponential<T> e = exponential_of(at_least(-y, Float<T>::exp_least + T(30)));
    const T scale = e.scale();
    return -fused(scale, e.tail, scale - T(1));
}

struct SoftplusSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T y) { return g * fall_of(y); }
};

struct LogsigmoidSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T y) { return g * fall_of(-y); }
};

const Exponentials exponentials_kernels = {
    unary_loops<Exp>, unary_loops<Log>, unary_loops<Tanh>, unary_loops<Sigmoid>, unary_loops<Silu>,
    unary_loops<Softplus>, unary_loops<Logsigmoid>,
    loops_of_two<TanhSlope>, loops_of_two<SigmoidSlope>, loops_of_two<SiluSlope>, loops_of_two<SoftplusSlope>,
    loops_of_two<LogsigmoidSlope>,
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
