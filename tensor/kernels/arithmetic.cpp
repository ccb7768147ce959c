#include "tensor/kernels/arithmetic.h"

#include <math.h>

#include "tensor/kernels/simd_math.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

#define DISPOSESCOPE_OF_TWO(Name, result)           \
    struct Name {                                   \
        template <typename T>                       \
        static DISPOSESCOPE_INLINE T of(T a, T b) { return result; } \
    }
#define DISPOSESCOPE_OF_ONE(Name, result)           \
    struct Name {                                   \
        template <typename T>                       \
        static DISPOSESCOPE_INLINE T of(T a) { return result; }  \
    }

static DISPOSESCOPE_INLINE float root_of(float x) { return sqrtf(x); }
static DISPOSESCOPE_INLINE double root_of(double x) { return sqrt(x); }

DISPOSESCOPE_OF_TWO(Add, a + b);
DISPOSESCOPE_OF_TWO(Subtract, a - b);
DISPOSESCOPE_OF_TWO(Multiply, a * b);
DISPOSESCOPE_OF_TWO(Divide, a / b);
// nan if one operand is nan. Of two nans or two zeros, return the first, like NumPy.
DISPOSESCOPE_OF_TWO(Maximum, a >= b || a != a ? a : b);
DISPOSESCOPE_OF_TWO(Minimum, a <= b || a != a ? a : b);
DISPOSESCOPE_OF_ONE(Negative, -a);
DISPOSESCOPE_OF_ONE(Absolute, magnitude(a));
DISPOSESCOPE_OF_ONE(Square, a * a);
DISPOSESCOPE_OF_ONE(Sqrt, root_of(a));
DISPOSESCOPE_OF_ONE(Reciprocal, T(1) / a);
DISPOSESCOPE_OF_ONE(ReciprocalRoot, T(1) / root_of(a));
DISPOSESCOPE_OF_ONE(Relu, a > T(0) || a != a ? a : T(0));  // -0 becomes 0

// x + 3, clipped to [0, 6]; nan stays nan
template <typename T>
static DISPOSESCOPE_INLINE T shifted_and_bounded(T x) {
    const T y = x + T(3);
    return y < T(0) ? T(0) : y > T(6) ? T(6) : y;
}
DISPOSESCOPE_OF_ONE(Hardsigmoid, shifted_and_bounded(a) / T(6));
DISPOSESCOPE_OF_ONE(Hardswish, a * shifted_and_bounded(a) / T(6));

const Arithmetic arithmetic_kernels = {
    binary_loops<Add>, binary_loops<Subtract>, binary_loops<Multiply>, binary_loops<Divide>,
    binary_loops<Maximum>, binary_loops<Minimum>,
    unary_loops<Negative>, unary_loops<Absolute>, unary_loops<Square>, unary_loops<Sqrt>,
    unary_loops<Reciprocal>, unary_loops<ReciprocalRoot>, unary_loops<Relu>,
    unary_loops<Hardsigmoid>, unary_loops<Hardswish>,
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
