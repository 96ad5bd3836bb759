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
 *   walking back it has the product of all factors behind. No division, so zero factors are nothing special. Who knows the loss
 *   beforehand has both passes one after the other for each block, and nothing is computed twice (backward_through).
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
#define span_less(a, b, x, y) choose((a) < (b), x, y)
#define span_whole(x) __builtin_convertvector(x, Ints)
#define span_real(i) __builtin_convertvector(i, Vec)
#define span_magnitude(x) ((Vec)((Ints)(x) & 0x7fffffff))
#define span_upper_half(x) ((Vec)((Ints)(x) & ~0xfff))
#define span_power_of_two(n) ((Vec)(((n) + 127) << 23))
#if LANES > 4 && defined(__x86_64__) /* one instruction each; of two numbers, one a NaN, these return the second */
#if LANES == 16
#define X86(name) _mm512_##name
#undef span_less
#define span_less(a, b, x, y) ((Vec)_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x))
#else
#define X86(name) _mm256_##name
#undef span_less
#define span_less(a, b, x, y) ((Vec)_mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ)))
#endif
#define span_at_least(bound, x) ((Vec)X86(max_ps)(bound, x))
#define span_at_most(bound, x) ((Vec)X86(min_ps)(bound, x))
#define span_nearest(x) ((Ints)X86(cvtps_epi32)(x))
#endif
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

/* A matrix of four rows and columns, transposed. */
INLINE void transpose_four(Quad *rows) {
    Quad a = mix(rows[0], rows[1], 0, 4, 1, 5), b = mix(rows[0], rows[1], 2, 6, 3, 7);
    Quad c = mix(rows[2], rows[3], 0, 4, 1, 5), d = mix(rows[2], rows[3], 2, 6, 3, 7);
    rows[0] = mix(a, c, 0, 1, 4, 5), rows[1] = mix(a, c, 2, 3, 6, 7);
    rows[2] = mix(b, d, 0, 1, 4, 5), rows[3] = mix(b, d, 2, 3, 6, 7);
}

/* The sums of the lanes of four vectors: hardly longer than for one. */
INLINE Quad sum_four(Vec v0, Vec v1, Vec v2, Vec v3) {
#if LANES == 16 && defined(__x86_64__)
    __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(v0, v1, 0x44), _mm512_shuffle_f32x4(v0, v1, 0xee));
    __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(v2, v3, 0x44), _mm512_shuffle_f32x4(v2, v3, 0xee));
    Vec each = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd)); /* a quarter for each */
    Quad rows[4];
    memcpy(rows, &each, sizeof each);
#else
    Quad rows[4] = {fold(v0), fold(v1), fold(v2), fold(v3)};
#endif
    transpose_four(rows);
    return (rows[0] + rows[1]) + (rows[2] + rows[3]);
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
    int inputs, latent, basis, modes, outputs, degree, group, all_modes; /* I D N M O, and W at the end */
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
    size_t latent = s->latent, coefs = latent * s->basis * s->modes, heads = (size_t)s->outputs * span_all_modes(s);
    *n = (Network){s->inputs, s->latent, s->basis, s->modes, s->outputs, s->degree, s->group, (int)span_all_modes(s)};
    n->grid = s->degree == SPAN_BUMPS ? (float)(s->basis - 1) : (float)(s->basis - s->degree);
    n->w_pre = in->w_pre + c * latent * s->inputs, n->b_pre = in->b_pre + c * latent;
    n->scale = s->degree == SPAN_BUMPS ? in->scale + c * latent : NULL;
    n->coef = in->coef + c * coefs;
    if (s->outputs) n->head_w = in->head_w + c * heads, n->head_b = in->head_b + c * s->outputs;
    return are_finite(n->w_pre, latent * s->inputs) && are_finite(n->b_pre, latent) && are_finite(n->coef, coefs) &&
           (!n->scale || are_finite(n->scale, latent)) && (!s->outputs || are_finite(n->head_w, heads));
}

/* ---------------------------------------------------------------- samples into lanes, and back */

/* A matrix of rows, each `from_row` numbers behind the one before, transposed. */
static void transpose(const float *from, size_t from_row, int rows, int columns, float *to, size_t to_row) {
    int r = 0;
    for (; r + 4 <= rows; r += 4, from += 4 * from_row) {
        int i = 0;
        for (; i + 4 <= columns; i += 4) {
            Quad four[4];
            for (int j = 0; j < 4; j++) four[j] = *(const LooseQuad *)(from + j * from_row + i);
            transpose_four(four);
            for (int j = 0; j < 4; j++) *(LooseQuad *)(to + (i + j) * to_row + r) = four[j];
        }
        for (; i < columns; i++)
            for (int j = 0; j < 4; j++) to[i * to_row + r + j] = from[j * from_row + i];
    }
    for (; r < rows; r++, from += from_row)
        for (int i = 0; i < columns; i++) to[i * to_row + r] = from[i];
}

/* Rows of `width` numbers of a batch, as (width, B in whole blocks). What there is too much is the last row again, or zero. */
static void to_lanes(const float *rows, int batch, int width, int is_zero, float *to) {
    size_t stride = span_round_up(batch, LANES);
    transpose(rows, width, batch, width, to, stride);
    for (int i = 0; i < width; i++)
        for (size_t b = batch; b < stride; b++) to[i * stride + b] = is_zero ? 0.0f : to[i * stride + batch - 1];
}

/* And back: of rows of `width` numbers those from `first` on. */
static void from_lanes(const float *from, int batch, int width, int first, float *rows) {
    size_t stride = span_round_up(batch, LANES);
    transpose(from + first * stride, stride, width - first, batch, rows + first, width);
}

/* ---------------------------------------------------------------- z = sigmoid(W_pre x + b_pre) of one block */

INLINE void squash_one(Vec a, float *z, float *slope) {
    Vec e = span_exp_minus(a), value = 1.0f / (1.0f + e);
    store(z, value);
    if (slope) store(slope, span_at_most(fill(FLT_MAX), e) * value * value); /* which is z (1 - z), and not lost to rounding near 1 */
}

/* x: rows of `stride`. z: (D, LANES), and its slope. Four dimensions at a time, which read x once. */
static void preprocess(const Network *n, const float *x, size_t stride, float *z, float *slope, size_t z_stride) {
    const size_t inputs = n->inputs;
    int k = 0;
    for (; k + 4 <= n->latent; k += 4) {
        const float *w = n->w_pre + k * inputs;
        Vec a0 = fill(n->b_pre[k]), a1 = fill(n->b_pre[k + 1]), a2 = fill(n->b_pre[k + 2]), a3 = fill(n->b_pre[k + 3]);
        for (size_t i = 0; i < inputs; i++, w++) {
            Vec own = load(x + i * stride);
            a0 += w[0] * own, a1 += w[inputs] * own, a2 += w[2 * inputs] * own, a3 += w[3 * inputs] * own;
        }
        const Vec a[4] = {a0, a1, a2, a3};
        for (int i = 0; i < 4; i++) squash_one(a[i], z + (k + i) * z_stride, slope ? slope + (k + i) * z_stride : NULL);
    }
    for (; k < n->latent; k++) {
        const float *w = n->w_pre + k * inputs;
        Vec a = fill(n->b_pre[k]);
        for (size_t i = 0; i < inputs; i++) a += w[i] * load(x + i * stride);
        squash_one(a, z + k * z_stride, slope ? slope + k * z_stride : NULL);
    }
}

/* ---------------------------------------------------------------- the basis functions of one dimension */

/* z * grid - i with one rounding. Wide vectors come with fused multiply-add. */
INLINE Vec distance_to(int i, Vec z, float grid) {
    return LANES > 4 ? z * grid - (float)i : span_distance(z, grid, (Ints){0} + i);
}

/* What the forward pass of a block leaves for the backward pass; without one, memory for one dimension. */
typedef struct {
    float *values, *slopes; /* (D, N, LANES): the basis functions, and their slopes as find_basis leaves them */
    float *factors;         /* (D, M, LANES) */
    float *products;        /* (D, M, LANES): of the factors of its group before each dimension that is not the first */
    float *modes;           /* (W, LANES) */
} Trace;

/* value: (N, LANES); for the backward pass also the slopes at the distance in grid points and widths of the bump. */
INLINE void find_bumps(const Network *n, int k, Vec z, float *value, float *slope, const int basis, const int keeps) {
    const float width = n->scale[k] / n->grid;
    for (int i = 0; i < basis; i++) {
        Vec at = distance_to(i, z, n->grid) * width;
        store(value + i * LANES, span_bump(at));
        if (keeps) store(slope + i * LANES, span_bump_slope(at));
    }
}

/* Of the degree + 1 that are not zero each one falls on the i-th basis function in some samples and not in others. The slopes are
 * those at the fraction of a knot span. */
INLINE void find_bsplines(const Network *n, Vec z, const int degree, float *value, float *slope, const int basis, const int keeps) {
    const float grid = n->grid;
    Ints first = span_index(z * grid, fill(grid - 1.0f));
    Vec fraction = span_distance(z, grid, first);
    Vec values[4], slopes[4];
    for (int j = 0; j <= degree; j++) {
        values[j] = span_bspline(degree, j, fraction);
        if (keeps) slopes[j] = span_bspline_slope(degree, j, fraction);
    }
    for (int i = 0; i < basis; i++) {
        Vec sum = z - z, steepness = sum; /* 0, or a NaN */
        for (int j = 0; j <= degree; j++) {
            Ints is_here = first == i - j;
            sum = choose(is_here, values[j], sum);
            if (keeps) steepness = choose(is_here, slopes[j], steepness);
        }
        store(value + i * LANES, sum);
        if (keeps) store(slope + i * LANES, steepness);
    }
}

INLINE void find_basis(const Network *n, int k, Vec z, float *value, float *slope, const int basis, const int keeps) {
    switch (n->degree) {
        case 1: find_bsplines(n, z, 1, value, slope, basis, keeps); break;
        case 2: find_bsplines(n, z, 2, value, slope, basis, keeps); break;
        case 3: find_bsplines(n, z, 3, value, slope, basis, keeps); break;
        default: find_bumps(n, k, z, value, slope, basis, keeps);
    }
}

/* ---------------------------------------------------------------- modes of one block */

/* Frequent numbers of basis functions are compiled specially: `basis` is a constant then, and what belongs to one dimension stays in
 * registers. */
#define FOR_BASIS(count, work)                                              \
    switch (count) {                                                        \
        case 3: { enum { basis = 3, in_registers = 1 }; work; } break;      \
        case 4: { enum { basis = 4, in_registers = 1 }; work; } break;      \
        case 5: { enum { basis = 5, in_registers = 1 }; work; } break;      \
        case 6: { enum { basis = 6, in_registers = 1 }; work; } break;      \
        case 8: { enum { basis = 8, in_registers = 1 }; work; } break;      \
        default: { const int basis = (count); enum { in_registers = 0 }; work; } \
    }
enum { MOST_IN_REGISTERS = 8 };

/* The first dimension of a group has none before it, and its factors are asked for by nobody. */
INLINE void put_factor(Vec factor, size_t m, const float *before, float *product, float *factors, const int keeps) {
    if (keeps && before) store(factors + m * LANES, factor);
    store(product + m * LANES, before ? load(before + m * LANES) * factor : factor);
}

/* The factors of dimension k, multiplied by the products of those before it, (M, LANES), if there are any. Two modes at a time. */
INLINE void multiply(const Network *n, int k, const float *value, const float *before, float *product, float *factors,
                     const int basis, const int in_registers, const int keeps) {
    const size_t count = n->modes;
    const float *coef = n->coef + (size_t)k * basis * count;
    Vec own[MOST_IN_REGISTERS];
    for (int i = 0; i < basis && in_registers; i++) own[i] = load(value + i * LANES);
    size_t m = 0;
    for (; m + 2 <= count; m += 2, coef += 2) {
        Vec factor0 = coef[0] * load(value), factor1 = coef[1] * load(value);
        for (int i = 1; i < basis; i++) {
            Vec v = in_registers ? own[i] : load(value + i * LANES);
            factor0 += coef[i * count] * v, factor1 += coef[i * count + 1] * v;
        }
        put_factor(factor0, m, before, product, factors, keeps);
        put_factor(factor1, m + 1, before, product, factors, keeps);
    }
    if (m < count) {
        Vec factor = coef[0] * load(value);
        for (int i = 1; i < basis; i++) factor += coef[i * count] * load(value + i * LANES);
        put_factor(factor, m, before, product, factors, keeps);
    }
}

/* The products of each group's factors from z, rows of `stride`. */
INLINE void multiply_all(const Network *n, const float *z, size_t stride, const Trace *t, const int basis, const int in_registers,
                         const int keeps) {
    const size_t of_basis = keeps ? (size_t)basis * LANES : 0, of_modes = keeps ? (size_t)n->modes * LANES : 0;
    float *modes = t->modes;
    for (int k = 0, left = n->group; k < n->latent; k++) {
        const int is_first = left == n->group, is_last = --left == 0 || k + 1 == n->latent;
        float own[in_registers ? basis * LANES : 1], *value = keeps || !in_registers ? t->values + k * of_basis : own;
        float *before = t->products + k * of_modes, *product = is_last ? modes : before + of_modes;
        find_basis(n, k, load(z + k * stride), value, t->slopes + k * of_basis, basis, keeps);
        multiply(n, k, value, is_first ? NULL : before, product, t->factors + k * of_modes, basis, in_registers, keeps);
        if (is_last) modes += n->modes * LANES, left = n->group;
    }
}

INLINE Vec root(Vec x) {
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
}

/* The modes of a block as the head reads them, in their place: what may be done to products of splines is done here, and undone in
 * through_norm for their gradient, which needs what they were divided by. */
static Vec norm_modes(const SpanShape *s, float *modes) {
    if (!s->mode_norm) return fill(1.0f);
    const int count = (int)span_all_modes(s);
    Vec sum = fill(0.0f), squares = sum;
    for (int m = 0; m < count; m++) sum += load(modes + m * LANES);
    const Vec mean = sum / (float)count;
    for (int m = 0; m < count; m++) {
        Vec from_mean = load(modes + m * LANES) - mean;
        squares += from_mean * from_mean;
    }
    const Vec deviation = root(squares / (float)count + SPAN_NORM_EPSILON);
    for (int m = 0; m < count; m++) store(modes + m * LANES, (load(modes + m * LANES) - mean) / deviation);
    return deviation;
}

/* out: (O, stride), or the modes themselves without a head. */
static void read_head(const Network *n, const float *modes, float *out, size_t stride) {
    if (!n->outputs)
        for (int m = 0; m < n->all_modes; m++) store(out + m * stride, load(modes + m * LANES));
    /* Four sums at a time, of four outputs or of every fourth mode: one alone would wait for each of its additions. */
    const size_t count = n->all_modes;
    int o = 0;
    for (; o + 4 <= n->outputs; o += 4) {
        const float *w = n->head_w + o * count;
        Vec s0 = fill(n->head_b[o]), s1 = fill(n->head_b[o + 1]), s2 = fill(n->head_b[o + 2]), s3 = fill(n->head_b[o + 3]);
        for (size_t m = 0; m < count; m++, w++) {
            Vec own = load(modes + m * LANES);
            s0 += w[0] * own, s1 += w[count] * own, s2 += w[2 * count] * own, s3 += w[3 * count] * own;
        }
        const Vec sums[4] = {s0, s1, s2, s3};
        for (int i = 0; i < 4; i++) store(out + (o + i) * stride, sums[i]);
    }
    for (; o < n->outputs; o++) {
        const float *w = n->head_w + o * count;
        Vec s0 = fill(n->head_b[o]), s1 = fill(0.0f), s2 = s1, s3 = s1;
        size_t m = 0;
        for (const float *own = modes; m + 4 <= count; m += 4, own += 4 * LANES) {
            s0 += w[m] * load(own), s1 += w[m + 1] * load(own + LANES);
            s2 += w[m + 2] * load(own + 2 * LANES), s3 += w[m + 3] * load(own + 3 * LANES);
        }
        for (; m < count; m++) s0 += w[m] * load(modes + m * LANES);
        store(out + o * stride, (s0 + s1) + (s2 + s3));
    }
}

static int forward(const SpanShape *s, const SpanInputs *in, float *out, float *z) {
    const size_t stride = span_round_up(s->batch, LANES), latent = s->latent, all_modes = span_all_modes(s);
    const size_t width = s->outputs ? (size_t)s->outputs : all_modes;
    char *memory = malloc(piece(s->inputs * stride) + piece(latent * LANES) + piece((size_t)s->basis * LANES) +
                          piece((size_t)s->modes * LANES) + piece(all_modes * LANES) + piece(width * stride) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    float *x = take(&arena, s->inputs * stride), *own_z = take(&arena, latent * LANES);
    Trace trace = {.values = take(&arena, (size_t)s->basis * LANES), .products = take(&arena, (size_t)s->modes * LANES),
                   .modes = take(&arena, all_modes * LANES)};
    float *modes = trace.modes, *result = take(&arena, width * stride);
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
            FOR_BASIS(n.basis, multiply_all(&n, at, z_stride, &trace, basis, in_registers, 0));
            norm_modes(s, modes);
            read_head(&n, modes, result + b, stride);
        }
        from_lanes(result, s->batch, (int)width, 0, out + (size_t)c * s->batch * width);
    }
    free(memory);
    return status;
}
