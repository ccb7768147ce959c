// Functions and lambdas that the compiler always inlines.
//
// GCC stops inlining when a file has grown by a certain amount. Then the operators of vectors.h become calls
// that pass vectors through memory, and a kernel takes up to 13 times as long. So every function of a kernel
// without its own loop begins with DISPOSESCOPE_INLINE, and a lambda has DISPOSESCOPE_INLINED after its
// parameters. tests/tensor/test_kernel_objects.py finds missing ones.

#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#define DISPOSESCOPE_INLINE __forceinline
#define DISPOSESCOPE_INLINED [[msvc::forceinline]]
#else
#define DISPOSESCOPE_INLINE inline __attribute__((always_inline))
#define DISPOSESCOPE_INLINED __attribute__((always_inline))
#endif
