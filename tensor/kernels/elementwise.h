// The operands of elementwise kernels, and the loops over them.

#pragma once

#include <cstddef>

#include "tensor/kernels/inlining.h"

namespace disposescope::kernels {

// Contiguous arrays of one dtype and, except with `columns`, of one shape. `out` may be one of the operands,
// but must not overlap one partially. The caller keeps the arrays alive.
struct Operands {
    const void* a;
    const void* b;
    void* out;
    double number;            // the value of an operand that is a number
    std::ptrdiff_t columns;   // the length of `b`, one row, when the loop counts rows of `a`
};

using Loop = void (*)(void* operands, std::ptrdiff_t start, std::ptrdiff_t end);

// Loops for float32 and float64.
struct Loops {
    Loop of_floats;
    Loop of_doubles;
};

// Loops of a function of two operands, by the kinds of the operands.
struct BinaryLoops {
    Loops arrays;
    Loops array_and_number;
    Loops number_and_array;
    Loops array_and_row;
};

}  // namespace disposescope::kernels

// Tell the compiler that iterations are independent: each element is read before it is written.
#if defined(__clang__)
#define DISPOSESCOPE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define DISPOSESCOPE_INDEPENDENT _Pragma("GCC ivdep")
#elif defined(_MSC_VER)
#define DISPOSESCOPE_INDEPENDENT __pragma(loop(ivdep))
#else
#define DISPOSESCOPE_INDEPENDENT
#endif

#if defined(DISPOSESCOPE_SIMD)
namespace disposescope::kernels::DISPOSESCOPE_SIMD {

// F has a static function `of`, of one or two elements.
template <typename T, typename F>
static void map_one(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Operands& x = *static_cast<const Operands*>(given);
    const T* const a = static_cast<const T*>(x.a);
    T* const out = static_cast<T*>(x.out);
    DISPOSESCOPE_INDEPENDENT
    for (std::ptrdiff_t i = start; i < end; ++i) out[i] = F::of(a[i]);
}

template <typename T, typename F>
static void map_two(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Operands& x = *static_cast<const Operands*>(given);
    const T* const a = static_cast<const T*>(x.a);
    const T* const b = static_cast<const T*>(x.b);
    T* const out = static_cast<T*>(x.out);
    DISPOSESCOPE_INDEPENDENT
    for (std::ptrdiff_t i = start; i < end; ++i) out[i] = F::of(a[i], b[i]);
}

template <typename T, typename F>
static void map_with_number(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Operands& x = *static_cast<const Operands*>(given);
    const T* const a = static_cast<const T*>(x.a);
    const T b = static_cast<T>(x.number);
    T* const out = static_cast<T*>(x.out);
    DISPOSESCOPE_INDEPENDENT
    for (std::ptrdiff_t i = start; i < end; ++i) out[i] = F::of(a[i], b);
}

template <typename T, typename F>
static void map_number_with(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Operands& x = *static_cast<const Operands*>(given);
    const T a = static_cast<T>(x.number);
    const T* const b = static_cast<const T*>(x.b);
    T* const out = static_cast<T*>(x.out);
    DISPOSESCOPE_INDEPENDENT
    for (std::ptrdiff_t i = start; i < end; ++i) out[i] = F::of(a, b[i]);
}

template <typename T, typename F>
static void map_with_row(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Operands& x = *static_cast<const Operands*>(given);
    const T* const b = static_cast<const T*>(x.b);
    for (std::ptrdiff_t row = start; row < end; ++row) {
        const T* const a = static_cast<const T*>(x.a) + row * x.columns;
        T* const out = static_cast<T*>(x.out) + row * x.columns;
        DISPOSESCOPE_INDEPENDENT
        for (std::ptrdiff_t i = 0; i < x.columns; ++i) out[i] = F::of(a[i], b[i]);
    }
}

template <typename F>
constexpr Loops unary_loops = {map_one<float, F>, map_one<double, F>};

template <typename F>
constexpr Loops loops_of_two = {map_two<float, F>, map_two<double, F>};

template <typename F>
constexpr BinaryLoops binary_loops = {
    {map_two<float, F>, map_two<double, F>},
    {map_with_number<float, F>, map_with_number<double, F>},
    {map_number_with<float, F>, map_number_with<double, F>},
    {map_with_row<float, F>, map_with_row<double, F>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
#endif
