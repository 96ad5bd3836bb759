/* A stack of SPAN networks, forward and backward, on float32 arrays. Plain C99 on raw pointers.
 *
 * Shape letters as in the Python code: C stacked networks, B batch, I inputs, D latent dimensions, N basis functions,
 * M modes of a group of dimensions, W modes of all groups, O outputs of the linear head. All arrays are dense and row-major.
 */
#ifndef SPAN_KERNEL_H
#define SPAN_KERNEL_H

#include <stddef.h>

enum { SPAN_BUMPS = 0 }; /* any other value of SpanShape.degree is the degree of B-splines, 1 to 3 */

typedef struct {
    int stack, batch, inputs, latent, basis, modes, outputs; /* C B I D N M O; O = 0 is a body without a head */
    int degree;                                              /* SPAN_BUMPS, or the degree of the B-splines */
    int group;                                               /* dimensions that a mode multiplies; M modes for each such group */
} SpanShape;

/* Of all groups together; the last group may have fewer dimensions. */
static inline size_t span_all_modes(const SpanShape *s) { return (size_t)((s->latent + s->group - 1) / s->group) * s->modes; }

typedef struct {
    const float *x;      /* (B, I), the same for all networks */
    const float *w_pre;  /* (C, D, I) */
    const float *b_pre;  /* (C, D) */
    const float *scale;  /* (C, D), for bumps only */
    const float *coef;   /* (C, D, N, M) */
    const float *head_w; /* (C, O, W), with a head only */
    const float *head_b; /* (C, O) */
} SpanInputs;

typedef struct { /* where the gradients go; x may be NULL, and w_pre may be NULL, which leaves out all parameters */
    float *x, *w_pre, *b_pre, *scale, *coef, *head_w, *head_b;
    int x_first; /* of x those inputs from here on are wanted, and the others not written */
} SpanGradients;

/* With anything but SPAN_DONE what was written is not to be used. SPAN_NOT_FINITE: a parameter is a NaN or infinite, which the
 * caller has to deal with in another way. */
enum { SPAN_DONE = 0, SPAN_NOT_FINITE = 1, SPAN_NO_MEMORY = -1 };

typedef struct {
    const char *name; /* the instructions it is compiled for */
    int lanes;        /* floats in a vector */
    /* out: (C, B, O), or (C, B, W) without a head. z: (C, 2, D, B rounded up to lanes), what the backward pass needs; NULL when
     * there will be none. */
    int (*forward)(const SpanShape *, const SpanInputs *, float *out, float *z);
    int (*backward)(const SpanShape *, const SpanInputs *, const float *z, const float *grad_out, const SpanGradients *);
    /* Bytes that the backward pass needs beside its arguments, while it runs. The forward pass needs less. */
    size_t (*scratch)(const SpanShape *);
} SpanKernel;

#if defined(__x86_64__)
extern const SpanKernel span_kernel_avx512, span_kernel_avx2;
#endif
extern const SpanKernel span_kernel_baseline;

/* The widest kernel that this machine can run. */
const SpanKernel *span_kernel_best(void);

/* How many floats the widest vectors have that this machine can work with. */
static inline int span_widest_lanes(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return 16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#endif
    return 4;
}

static inline size_t span_round_up(size_t n, size_t lanes) { return (n + lanes - 1) / lanes * lanes; }

#endif
