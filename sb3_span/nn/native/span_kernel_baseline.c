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
    int lanes = span_widest_lanes();
    if (lanes == 16) return &span_kernel_avx512;
    if (lanes == 8) return &span_kernel_avx2;
#endif
    return &span_kernel_baseline;
}
