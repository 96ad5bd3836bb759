/* The kernel for x86-64 processors with AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#endif
#define LANES 16
#include "span_kernel_forward.h"
#include "span_kernel_backward.h"
const SpanKernel span_kernel_avx512 = {"avx512", LANES, forward, backward, scratch};
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
typedef int span_not_empty; /* for other processors: a source file must not be empty */
