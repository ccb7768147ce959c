// Attention in blocks of queries and keys, for each instruction set (simd.h). The memory is linear in the
// length of the sequence.

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// The numbers of queries and keys in a block.
constexpr std::ptrdiff_t attention_queries = 64, attention_keys = 64;

// Strides in elements from one batch entry, head or row to the next. Features are contiguous.
struct Steps {
    std::ptrdiff_t batch, head, row;
};

struct AttentionWork {
    // Each head of keys and values is used by `group` consecutive heads of queries.
    std::ptrdiff_t batch, key_heads, group, queries, keys, features, value_features;
    const void *query, *key, *value;
    Steps query_steps, key_steps, value_steps;
    // Scores are scale * query . key, plus a float mask. A boolean mask excludes scores where it is false.
    double scale;
    const void* numbers;            // or null
    const std::uint8_t* booleans;   // or null
    Steps mask_steps;               // 0 along broadcast dimensions
    bool is_causal;                 // query i attends to keys up to i
    // Dropout of the softmax. The seed, the row and the key decide whether an element is kept, so no mask is
    // stored.
    bool drops;
    std::uint64_t seed;
    std::uint32_t dropped_below;    // the probability times 2**32
    double kept_scale;
    void* out;
    Steps out_steps;
    void* logsumexp;                // (batch, heads, queries); 0 where all keys are masked
    // Backward
    const void* gradient;           // of `out`
    Steps gradient_steps;
    void *query_gradient, *key_gradient, *value_gradient;  // initially zeros; null if not needed
    Steps query_gradient_steps, key_gradient_steps, value_gradient_steps;
    // Each piece of `grain` units has its own part of `scratch`. A part has `scratch_stride` elements.
    void* scratch;
    std::ptrdiff_t scratch_stride, grain;
};

struct KeptWork {
    std::uint64_t seed;
    std::uint32_t dropped_below;
    std::ptrdiff_t keys;
    std::uint8_t* kept;  // booleans
};

struct Attention {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // For floats and doubles. A unit is a block of queries of one head (forward) or a head of keys
    // (backward).
    Kernel forward[2], backward[2];
    // A unit is a row of one head; rows are numbered over all heads.
    Kernel kept;
};

inline std::ptrdiff_t attention_forward_scratch(std::ptrdiff_t features, std::ptrdiff_t value_features) {
    return attention_keys * features + attention_queries * (attention_keys + value_features + 2) + attention_keys;
}

inline std::ptrdiff_t attention_backward_scratch(
    std::ptrdiff_t features, std::ptrdiff_t value_features, std::ptrdiff_t queries_of_group
) {
    return attention_keys * (features + value_features + 2 * attention_queries + 1) + queries_of_group;
}

DISPOSESCOPE_KERNELS(Attention, attention)

}  // namespace disposescope::kernels
