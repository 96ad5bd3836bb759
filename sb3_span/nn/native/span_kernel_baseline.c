/* The kernel for what every processor of its kind has: SSE2 on x86-64, NEON on arm64, and plain C elsewhere. */
#define LANES 4
#include "span_kernel_forward.h"
#include "span_kernel_backward.h"

#if defined(__x86_64__)
const SpanKernel span_kernel_baseline = {"sse2", LANES, forward, backward, scratch};
#elif defined(__aarch64__)
const SpanKernel span_kernel_baseline = {"neon", LANES, forward, backward, scratch};
#else
const SpanKernel span_kernel_baseline = {"c", LANES, forward, backward, scratch};
#endif

const SpanKernel *span_kernel_best(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return &span_kernel_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &span_kernel_avx2;
#endif
    return &span_kernel_baseline;
}
