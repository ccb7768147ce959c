#include "tensor/kernels/powers.h"

#include <math.h>

#include "tensor/kernels/simd_math.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

// The elements processed at a time, in arrays on the stack. All loops below run in the first-level cache, and
// are simple enough for the compiler to vectorise.
constexpr int block = 256;

static DISPOSESCOPE_INLINE double finite_or_zero(double x) { return magnitude(x) < HUGE_VAL ? x : 0.0; }

// Compute powers of floats as doubles, whose 29 additional bits hold the rounding errors of 64 products.
static void power_of_floats(double* x, std::ptrdiff_t size, int n) {
    double power[block];
    const unsigned m = n < 0 ? -static_cast<unsigned>(n) : n;
    unsigned bit = 1;
    while (m >> 1 >= bit) bit <<= 1;
    for (std::ptrdiff_t i = 0; i < size; ++i) power[i] = x[i];
    while (bit > 1) {
        bit >>= 1;
        if (m & bit) {
            for (std::ptrdiff_t i = 0; i < size; ++i) power[i] = power[i] * power[i] * x[i];
        } else {
            for (std::ptrdiff_t i = 0; i < size; ++i) power[i] = power[i] * power[i];
        }
    }
    if (n < 0) {
        for (std::ptrdiff_t i = 0; i < size; ++i) x[i] = 1.0 / power[i];
    } else if (n > 0) {
        for (std::ptrdiff_t i = 0; i < size; ++i) x[i] = power[i];
    } else {
        for (std::ptrdiff_t i = 0; i < size; ++i) x[i] = 1.0;
    }
}

// Multiply the unevaluated sums high + low by the sums by + by_low, which may be the same arrays.
static void multiply_sums(
    double* high, double* low, const double* by, const double* by_low, std::ptrdiff_t size) {
    DISPOSESCOPE_INDEPENDENT
    for (std::ptrdiff_t i = 0; i < size; ++i) {
        const Sum<double> product = product_of(high[i], by[i]);
        const double cross = finite_or_zero(high[i] * by_low[i] + low[i] * by[i]);
        const double error = cross + finite_or_zero(product.low);
        // Adding 0 would lose the sign of -0.
        const double sum = error != 0.0 ? product.high + error : product.high;
        low[i] = finite_or_zero(error - (sum - product.high));
        high[i] = sum;
    }
}

// Compute powers of doubles as sums high + low: the rounding errors of 64 products of doubles could add up to
// 32 units in the last place.
static void power_of_doubles(double* x, std::ptrdiff_t size, int n) {
    double base[block], base_low[block], low[block];
    const unsigned m = n < 0 ? -static_cast<unsigned>(n) : n;
    unsigned bit = 1;
    while (m >> 1 >= bit) bit <<= 1;
    if (n == 0) {
        for (std::ptrdiff_t i = 0; i < size; ++i) x[i] = 1.0;
        return;
    }
    for (std::ptrdiff_t i = 0; i < size; ++i) {
        if (n < 0) {
            // Compute the power of the reciprocal. The reciprocal of the power would overflow earlier.
            base[i] = 1.0 / x[i];
            const Sum<double> product = product_of(base[i], x[i]);
            base_low[i] = finite_or_zero(((1.0 - product.high) - finite_or_zero(product.low)) * base[i]);
        } else {
            base[i] = x[i];
            base_low[i] = 0.0;
        }
        x[i] = base[i];
        low[i] = base_low[i];
    }
    while (bit > 1) {
        bit >>= 1;
        multiply_sums(x, low, x, low, size);
        if (m & bit) multiply_sums(x, low, base, base_low, size);
    }
}

template <typename T>
static void whole_power(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Operands& operands = *static_cast<const Operands*>(given);
    const int n = static_cast<int>(operands.number);
    double buffer[block];
    for (std::ptrdiff_t first = start; first < end; first += block) {
        const T* const x = static_cast<const T*>(operands.a) + first;
        T* const out = static_cast<T*>(operands.out) + first;
        const std::ptrdiff_t size = end - first < block ? end - first : block;
        for (std::ptrdiff_t i = 0; i < size; ++i) buffer[i] = x[i];
        if (sizeof(T) == sizeof(float)) {
            power_of_floats(buffer, size, n);
        } else {
            power_of_doubles(buffer, size, n);
        }
        for (std::ptrdiff_t i = 0; i < size; ++i) out[i] = static_cast<T>(buffer[i]);
    }
}

static DISPOSESCOPE_INLINE float root_of(float x) { return sqrtf(x); }
static DISPOSESCOPE_INLINE double root_of(double x) { return sqrt(x); }

struct Cube {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return x * x * x; }
};

// Map -0 to 0 and -infinity to infinity: pow does so for exponents with a fraction, but a square root would
// return -0 and nan.
template <typename T>
static DISPOSESCOPE_INLINE T base_of(T x) { return x == -static_cast<T>(HUGE_VAL) ? -x : x + T(0); }

struct Half {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return root_of(x); }  // -0 stays -0, as in NumPy and PyTorch
};

struct ThreeHalves {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) {
        const T base = base_of(x);
        return base * root_of(base);
    }
};

struct MinusHalf {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return T(1) / root_of(base_of(x)); }
};

struct CubeSlope {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T g, T x) { return g * (T(3) * (x * x)); }
};

template <typename T>
static void product_with_number(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Operands& x = *static_cast<const Operands*>(given);
    const T number = static_cast<T>(x.number);
    const T* const a = static_cast<const T*>(x.a);
    const T* const b = static_cast<const T*>(x.b);
    T* const out = static_cast<T*>(x.out);
    DISPOSESCOPE_INDEPENDENT
    for (std::ptrdiff_t i = start; i < end; ++i) out[i] = a[i] * (number * b[i]);
}

const Powers powers_kernels = {
    {whole_power<float>, whole_power<double>},
    unary_loops<Cube>, unary_loops<Half>, unary_loops<ThreeHalves>, unary_loops<MinusHalf>,
    loops_of_two<CubeSlope>, {product_with_number<float>, product_with_number<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
