#include "tensor/kernels/choices.h"

#include <cstdint>

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

template <typename T, bool a_varies, bool b_varies>
static void choose_in_order(
    const unsigned char* condition, const T* a, const T* b, T* out, std::ptrdiff_t size) {
    DISPOSESCOPE_INDEPENDENT
    for (std::ptrdiff_t i = 0; i < size; ++i) {
        // Read both values, to avoid a branch.
        const T first = a[a_varies ? i : 0], second = b[b_varies ? i : 0];
        const T mask = static_cast<T>(T(0) - static_cast<T>(condition[i] != 0));
        out[i] = static_cast<T>(second ^ ((first ^ second) & mask));
    }
}

template <typename T>
static void choose_run(const Choice& x, const unsigned char* condition, std::ptrdiff_t start, std::ptrdiff_t size) {
    const T* const a = static_cast<const T*>(x.a) + start * x.step_of_a;
    const T* const b = static_cast<const T*>(x.b) + start * x.step_of_b;
    T* const out = static_cast<T*>(x.out) + start;
    if (x.step_of_a != 0 && x.step_of_b != 0) choose_in_order<T, true, true>(condition, a, b, out, size);
    else if (x.step_of_a != 0) choose_in_order<T, true, false>(condition, a, b, out, size);
    else if (x.step_of_b != 0) choose_in_order<T, false, true>(condition, a, b, out, size);
    else choose_in_order<T, false, false>(condition, a, b, out, size);
}

template <typename T>
static void choose(void* given, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Choice& x = *static_cast<const Choice*>(given);
    for (std::ptrdiff_t size; start < end; start += size) {
        const std::ptrdiff_t first = start % x.conditions, left = x.conditions - first;
        size = end - start < left ? end - start : left;
        choose_run<T>(x, x.condition + first, start, size);
    }
}

struct KeepNonzero {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x, T by) { return by != T(0) ? x : T(0); }
};

const Choices choices_kernels = {
    {choose<std::uint8_t>, choose<std::uint16_t>, choose<std::uint32_t>, choose<std::uint64_t>},
    binary_loops<KeepNonzero>,
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
