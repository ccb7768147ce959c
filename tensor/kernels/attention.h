// Attention in blocks of queries and keys, for each instruction set (simd.h): memory is linear in the sequence.

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Queries and keys of a block.
constexpr std::ptrdiff_t attention_queries = 64, attention_keys = 64;

// Elements, not bytes, from one batch entry, head or row to the next; features lie side by side.
struct Steps {
    std::ptrdiff_t batch, head, row;
};

struct AttentionWork {
    // Each head of keys and values serves `group` heads of queries, one after the other.
    std::ptrdiff_t batch, key_heads, group, queries, keys, features, value_features;
    const void *query, *key, *value;
    Steps query_steps, key_steps, value_steps;
    // Scores become scale * query . key, plus a mask of numbers; where a mask of booleans is false they do not count.
    double scale;
    const void* numbers;            // or null
    const std::uint8_t* booleans;   // or null
    Steps mask_steps;               // 0 where one row serves all
    bool is_causal;                 // query i sees keys up to i
    // Dropout of what softmax gives: whether element (query, key) stays is a function of these, so that nothing is kept.
    bool drops;
    std::uint64_t seed;
    std::uint32_t dropped_below;    // of 2**32
    double kept_scale;
    void* out;
    Steps out_steps;
    void* logsumexp;                // (batch, heads, queries); 0 where all is masked
    // Backward
    const void* gradient;           // of `out`
    Steps gradient_steps;
    void *query_gradient, *key_gradient, *value_gradient;  // zeros at first; null if not wanted
    Steps query_gradient_steps, key_gradient_steps, value_gradient_steps;
    // Each piece, `grain` units, has so many elements for itself.
    void* scratch;
    std::ptrdiff_t scratch_apart, grain;
};

struct KeptWork {
    std::uint64_t seed;
    std::uint32_t dropped_below;
    std::ptrdiff_t keys;
    std::uint8_t* kept;  // booleans
};

struct Attention {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Of floats, of doubles. A unit is a block of queries of one head, forward; a head of keys, backward.
    Kernel forward[2], backward[2];
    // A unit is a row of one head, counted through all.
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
