// Functions and lambdas that a compiler inlines whatever its budget says.
//
// GCC stops inlining when a file has grown by some part. The operators of vectors.h then stay calls that pass their
// vectors through memory, and a kernel takes up to 13 times as long. So every function of a kernel without a loop of
// its own begins with DISPOSESCOPE_INLINE; a lambda has DISPOSESCOPE_INLINED after its parameters.
// tests/tensor/test_kernel_objects.py finds those that lack it.

#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#define DISPOSESCOPE_INLINE __forceinline
#define DISPOSESCOPE_INLINED [[msvc::forceinline]]
#else
#define DISPOSESCOPE_INLINE inline __attribute__((always_inline))
#define DISPOSESCOPE_INLINED __attribute__((always_inline))
#endif
