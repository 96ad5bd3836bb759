/* The kernel for one width of vectors: the forward pass, and what the backward pass in span_kernel_backward.h shares with it.
 * The files span_kernel_*.c include both, each with its own LANES.
 *
 * How the work is laid out:
 * - Samples lie in the lanes of vectors: a block is LANES samples, and every parameter is one number for all of them. So no lane is
 *   idle whatever the network's sizes, nothing is summed over lanes until the very end, and parameters are read where they are.
 * - For each dimension all N basis functions are evaluated, zeros included, and a factor is a sum over all of them. That is more
 *   to add than the few that are not zero, and yet less work than to look up which they are; and what is not finite spoils what it
 *   spoils in torch.
 * - Kept for the backward pass are z and its slope. It computes factors again, with the products of all factors before each one;
 *   walking back it has the product of all factors behind. No division, so zero factors are nothing special.
 * - The last block is filled up with copies of the last sample, whose outputs nobody reads and whose gradients are zero.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "span_kernel.h"

#define INLINE static inline __attribute__((always_inline))

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int Ints __attribute__((vector_size(4 * LANES)));
typedef Vec Loose __attribute__((aligned(4), may_alias)); /* anywhere in memory; as fast as aligned where it is */

INLINE Vec load(const float *p) { return *(const Loose *)p; }
INLINE void store(float *p, Vec v) { *(Loose *)p = v; }
INLINE Vec fill(float value) { return (Vec){0} + value; }
INLINE Vec choose(Ints mask, Vec a, Vec b) { return (Vec)((mask & (Ints)a) | (~mask & (Ints)b)); }

#define Real Vec
#define Whole Ints
#define span_fill fill
#define span_select choose
#define span_whole(x) __builtin_convertvector(x, Ints)
#define span_real(i) __builtin_convertvector(i, Vec)
#define span_magnitude(x) ((Vec)((Ints)(x) & 0x7fffffff))
#define span_upper_half(x) ((Vec)((Ints)(x) & ~0xfff))
#define span_power_of_two(n) ((Vec)(((n) + 127) << 23))
#include "span_spline.h"
#include "span_exp.h"

typedef float Quad __attribute__((vector_size(16)));
typedef Quad LooseQuad __attribute__((aligned(4), may_alias));
#if defined(__clang__)
#define mix(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define mix(a, b, i, j, k, l) __builtin_shuffle(a, b, (int __attribute__((vector_size(16)))){i, j, k, l})
#endif

/* The sum of a vector's quarters, halves, or itself. */
INLINE Quad fold(Vec v) {
    Quad parts[LANES / 4], sum;
    memcpy(parts, &v, sizeof v);
    sum = parts[0];
    for (int i = 1; i < LANES / 4; i++) sum += parts[i];
    return sum;
}

INLINE float sum_lanes(Vec v) {
    Quad sum = fold(v);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The sums of the lanes of four vectors: hardly longer than for one. */
INLINE Quad sum_four(Vec v0, Vec v1, Vec v2, Vec v3) {
    Quad a = fold(v0), b = fold(v1), c = fold(v2), d = fold(v3);
    Quad ab = mix(a, b, 0, 4, 1, 5) + mix(a, b, 2, 6, 3, 7), cd = mix(c, d, 0, 4, 1, 5) + mix(c, d, 2, 6, 3, 7);
    return mix(ab, cd, 0, 1, 4, 5) + mix(ab, cd, 2, 3, 6, 7);
}

/* Scratch memory is one block, handed out piece by piece. */
typedef struct {
    char *next;
} Arena;

static void *take(Arena *arena, size_t count) {
    void *piece = arena->next;
    arena->next += span_round_up(count * sizeof(float), 64);
    return piece;
}

static size_t piece(size_t count) { return span_round_up(count * sizeof(float), 64); }

/* ---------------------------------------------------------------- one network's parameters, where they are */

typedef struct {
    int inputs, latent, basis, modes, outputs, degree; /* I D N M O */
    float grid;                                        /* grid points a unit of z */
    const float *w_pre, *b_pre, *scale, *coef, *head_w, *head_b;
} Network;

static int are_finite(const float *values, size_t count) {
    size_t i = 0;
    Ints bad = {0};
    for (; i + LANES <= count; i += LANES) bad |= ~(span_magnitude(load(values + i)) <= FLT_MAX);
    for (int k = 0; k < LANES; k++)
        if (bad[k]) return 0;
    for (; i < count; i++)
        if (!(fabsf(values[i]) <= FLT_MAX)) return 0;
    return 1;
}

/* Returns whether all of its parameters are finite. */
static int find_network(Network *n, const SpanShape *s, const SpanInputs *in, size_t c) {
    size_t latent = s->latent, coefs = latent * s->basis * s->modes, heads = (size_t)s->outputs * s->modes;
    *n = (Network){s->inputs, s->latent, s->basis, s->modes, s->outputs, s->degree};
    n->grid = s->degree == SPAN_BUMPS ? (float)(s->basis - 1) : (float)(s->basis - s->degree);
    n->w_pre = in->w_pre + c * latent * s->inputs, n->b_pre = in->b_pre + c * latent;
    n->scale = s->degree == SPAN_BUMPS ? in->scale + c * latent : NULL;
    n->coef = in->coef + c * coefs;
    if (s->outputs) n->head_w = in->head_w + c * heads, n->head_b = in->head_b + c * s->outputs;
    return are_finite(n->w_pre, latent * s->inputs) && are_finite(n->b_pre, latent) && are_finite(n->coef, coefs) &&
           (!n->scale || are_finite(n->scale, latent)) && (!s->outputs || are_finite(n->head_w, heads));
}

/* ---------------------------------------------------------------- samples into lanes, and back */

/* Rows of `width` numbers of a batch, as (width, B in whole blocks). What there is too much is the last row again, or zero. */
static void to_lanes(const float *rows, int batch, int width, int is_zero, float *to) {
    size_t stride = span_round_up(batch, LANES);
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < width; i++) to[i * stride + b] = rows[(size_t)b * width + i];
    for (int i = 0; i < width; i++)
        for (size_t b = batch; b < stride; b++) to[i * stride + b] = is_zero ? 0.0f : to[i * stride + batch - 1];
}

static void from_lanes(const float *from, int batch, int width, float *rows) {
    size_t stride = span_round_up(batch, LANES);
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < width; i++) rows[(size_t)b * width + i] = from[i * stride + b];
}

/* ---------------------------------------------------------------- z = sigmoid(W_pre x + b_pre) of one block */

/* x: rows of `stride`. z: (D, LANES), and its slope. Near z = 1 the slope z (1 - z) would be lost to rounding. */
static void preprocess(const Network *n, const float *x, size_t stride, float *z, float *slope, size_t z_stride) {
    for (int k = 0; k < n->latent; k++) {
        const float *w = n->w_pre + (size_t)k * n->inputs;
        Vec a = fill(n->b_pre[k]), b = fill(0.0f);
        int i = 0;
        for (; i + 2 <= n->inputs; i += 2) a += w[i] * load(x + i * stride), b += w[i + 1] * load(x + (i + 1) * stride);
        if (i < n->inputs) a += w[i] * load(x + i * stride);
        Vec e = span_exp_minus(a + b), value = 1.0f / (1.0f + e);
        store(z + k * z_stride, value);
        if (slope) store(slope + k * z_stride, choose(e < 1.0f, e * value * value, value * (1.0f - value)));
    }
}

/* ---------------------------------------------------------------- the basis functions of one dimension */

/* z * grid - i with one rounding. Wide vectors come with fused multiply-add. */
INLINE Vec distance_to(int i, Vec z, float grid) {
    return LANES > 4 ? z * grid - (float)i : span_distance(z, grid, (Ints){0} + i);
}

/* value: (N, LANES); for the backward pass also the derivatives by z, and by the scale for bumps. */
INLINE void find_bumps(const Network *n, int k, Vec z, float *value, float *by_z, float *by_scale, const int for_backward) {
    const float grid = n->grid, step = 1.0f / grid, slope = n->scale[k] / grid;
    for (int i = 0; i < n->basis; i++) {
        Vec distance = distance_to(i, z, grid), at = distance * slope; /* in grid points */
        store(value + i * LANES, span_bump(at));
        if (for_backward) {
            Vec by_t = span_bump_slope(at);
            store(by_z + i * LANES, by_t * slope * grid);
            store(by_scale + i * LANES, by_t * distance * step);
        }
    }
}

/* Of the degree + 1 that are not zero each one falls on the i-th basis function in some samples and not in others. */
INLINE void find_bsplines(const Network *n, Vec z, const int degree, float *value, float *by_z, const int for_backward) {
    const float grid = n->grid;
    Ints first = span_index(z * grid, fill(grid - 1.0f));
    Vec fraction = span_distance(z, grid, first); /* of the knot span */
    Vec values[4], slopes[4];
    for (int j = 0; j <= degree; j++) {
        values[j] = span_bspline(degree, j, fraction);
        if (for_backward) slopes[j] = span_bspline_slope(degree, j, fraction) * grid;
    }
    for (int i = 0; i < n->basis; i++) {
        Vec sum = z - z, slope = sum; /* 0, or a NaN */
        for (int j = 0; j <= degree; j++) {
            Ints is_here = first == i - j;
            sum = choose(is_here, values[j], sum);
            if (for_backward) slope = choose(is_here, slopes[j], slope);
        }
        store(value + i * LANES, sum);
        if (for_backward) store(by_z + i * LANES, slope);
    }
}

INLINE void find_basis(const Network *n, int k, Vec z, float *value, float *by_z, float *by_scale, const int for_backward) {
    switch (n->degree) {
        case 1: find_bsplines(n, z, 1, value, by_z, for_backward); break;
        case 2: find_bsplines(n, z, 2, value, by_z, for_backward); break;
        case 3: find_bsplines(n, z, 3, value, by_z, for_backward); break;
        default: find_bumps(n, k, z, value, by_z, by_scale, for_backward);
    }
}

/* ---------------------------------------------------------------- modes of one block */

/* Frequent numbers of basis functions are compiled specially: `basis` is a constant then, and the values stay in registers. */
#define FOR_BASIS(count, work)                       \
    switch (count) {                                 \
        case 4: { enum { basis = 4 }; work; } break; \
        case 5: { enum { basis = 5 }; work; } break; \
        case 6: { enum { basis = 6 }; work; } break; \
        case 8: { enum { basis = 8 }; work; } break; \
        default: { const int basis = (count); work; } \
    }

INLINE void put_factor(Vec factor, size_t m, float *modes, float *factors, float *before, const int for_backward) {
    Vec product = load(modes + m * LANES);
    if (for_backward) store(factors + m * LANES, factor), store(before + m * LANES, product);
    store(modes + m * LANES, product * factor);
}

/* The factors of dimension k multiplied into the modes, (M, LANES); for the backward pass each factor is kept, and the product of
 * those before it. */
INLINE void multiply(const Network *n, int k, const float *value, float *modes, float *factors, float *before, const int basis,
                     const int for_backward) {
    const size_t count = n->modes;
    const float *coef = n->coef + (size_t)k * n->basis * count;
    size_t m = 0;
    for (; m + 2 <= count; m += 2, coef += 2) {
        Vec factor0 = coef[0] * load(value), factor1 = coef[1] * load(value);
        for (int i = 1; i < basis; i++) {
            Vec own = load(value + i * LANES);
            factor0 += coef[i * count] * own, factor1 += coef[i * count + 1] * own;
        }
        put_factor(factor0, m, modes, factors, before, for_backward);
        put_factor(factor1, m + 1, modes, factors, before, for_backward);
    }
    if (m < count) {
        Vec factor = coef[0] * load(value);
        for (int i = 1; i < basis; i++) factor += coef[i * count] * load(value + i * LANES);
        put_factor(factor, m, modes, factors, before, for_backward);
    }
}

static void start_modes(const Network *n, float *modes) {
    for (int m = 0; m < n->modes; m++) store(modes + m * LANES, fill(1.0f));
}

/* The modes of a block as the head reads them, in their place: what may be done to products of splines is done here, and undone in
 * through_bound for their gradient. */
static void bound_modes(const SpanShape *s, float *modes) {
    if (s->bounded)
        for (int m = 0; m < s->modes; m++) store(modes + m * LANES, span_tanh(load(modes + m * LANES)));
}

/* out: (O, stride), or the modes themselves without a head. */
static void read_head(const Network *n, const float *modes, float *out, size_t stride) {
    if (!n->outputs)
        for (int m = 0; m < n->modes; m++) store(out + m * stride, load(modes + m * LANES));
    for (int o = 0; o < n->outputs; o++) {
        Vec sum = fill(n->head_b[o]);
        for (int m = 0; m < n->modes; m++) sum += n->head_w[(size_t)o * n->modes + m] * load(modes + m * LANES);
        store(out + o * stride, sum);
    }
}

static int forward(const SpanShape *s, const SpanInputs *in, float *out, float *z) {
    const size_t stride = span_round_up(s->batch, LANES), latent = s->latent, width = s->outputs ? s->outputs : s->modes;
    char *memory = malloc(piece(s->inputs * stride) + piece(latent * LANES) + piece((size_t)s->basis * LANES) +
                          piece((size_t)s->modes * LANES) + piece(width * stride) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    float *x = take(&arena, s->inputs * stride), *own_z = take(&arena, latent * LANES);
    float *value = take(&arena, (size_t)s->basis * LANES), *modes = take(&arena, (size_t)s->modes * LANES);
    float *result = take(&arena, width * stride);
    to_lanes(in->x, s->batch, s->inputs, 0, x);
    int status = SPAN_DONE;
    for (int c = 0; c < s->stack && status == SPAN_DONE; c++) {
        Network n;
        if (!find_network(&n, s, in, c)) status = SPAN_NOT_FINITE;
        float *kept = z ? z + (size_t)c * 2 * latent * stride : own_z;
        for (size_t b = 0; b < stride; b += LANES) {
            float *at = z ? kept + b : kept;
            const size_t z_stride = z ? stride : LANES;
            preprocess(&n, x + b, stride, at, z ? at + latent * stride : NULL, z_stride);
            start_modes(&n, modes);
            for (int k = 0; k < n.latent; k++) {
                find_basis(&n, k, load(at + k * z_stride), value, NULL, NULL, 0);
                FOR_BASIS(n.basis, multiply(&n, k, value, modes, NULL, NULL, basis, 0));
            }
            bound_modes(s, modes);
            read_head(&n, modes, result + b, stride);
        }
        from_lanes(result, s->batch, (int)width, out + (size_t)c * s->batch * width);
    }
    free(memory);
    return status;
}
