/* The kernel for one width of vectors: the forward pass, and what the backward pass in span_kernel_backward.h shares with it.
 * The files span_kernel_*.c include both, each with its own LANES.
 *
 * How the work is laid out:
 * - Vectors run over latent dimensions where those are independent (preprocessing, basis values), and over modes where
 *   modes are (factors and their product). Parameters are copied to scratch memory once a call, padded to whole vectors.
 * - For each sample the non-zero basis values of all dimensions are found first ("taps": a first index and K values), then each
 *   dimension's factor is a short sum of K rows of coefficients, multiplied into the running product.
 * - Kept for the backward pass are z and its slope. It computes taps and factors again, with the products of all factors before each
 *   one; walking back it has the product of all factors behind. No division, so zero factors are nothing special.
 * - K is 3 for bumps at their initial scale and 4 once the scale has shrunk, which it does: both are compiled specially, as 2 for
 *   B-splines of degree 1, and any other K works. It is the same for all dimensions of a network: some of the taps may be zero.
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
typedef Ints LooseInts __attribute__((aligned(4), may_alias));

INLINE Vec load(const float *p) { return *(const Loose *)p; }
INLINE void store(float *p, Vec v) { *(Loose *)p = v; }
INLINE void store_ints(int *p, Ints v) { *(LooseInts *)p = v; }
INLINE Vec fill(float value) { return (Vec){0} + value; }
INLINE Vec choose(Ints mask, Vec a, Vec b) { return (Vec)((mask & (Ints)a) | (~mask & (Ints)b)); }

#define Real Vec
#define Whole Ints
#define span_fill fill
#define span_select choose
#define span_whole(x) __builtin_convertvector(x, Ints)
#define span_real(i) __builtin_convertvector(i, Vec)
#define span_upper_half(x) ((Vec)((Ints)(x) & ~0xfff))
#define span_power_of_two(n) ((Vec)(((n) + 127) << 23))
#include "span_spline.h"
#include "span_exp.h"

/* All bits set, which read as a float is a NaN, where x is a NaN or infinite. */
INLINE Ints not_finite(Vec x) { return ~(span_magnitude(x) <= FLT_MAX); }

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

/* The sums of the lanes of each of `count` vectors, a multiple of four: four at a time take hardly longer than one. */
INLINE void sum_rows(const float *rows, int count, float *sums) {
    for (int k = 0; k < count; k += 4, rows += 4 * LANES) {
        Quad a = fold(load(rows)), b = fold(load(rows + LANES)), c = fold(load(rows + 2 * LANES)), d = fold(load(rows + 3 * LANES));
        Quad ab = mix(a, b, 0, 4, 1, 5) + mix(a, b, 2, 6, 3, 7), cd = mix(c, d, 0, 4, 1, 5) + mix(c, d, 2, 6, 3, 7);
        *(LooseQuad *)(sums + k) = mix(ab, cd, 0, 1, 4, 5) + mix(ab, cd, 2, 3, 6, 7);
    }
}

/* ---------------------------------------------------------------- one network's parameters, padded to whole vectors */

typedef struct {
    int inputs, latent, basis, modes, outputs, degree; /* I D N M O */
    int latent_pad, modes_pad, inputs_pad;             /* rounded up to vectors */
    int taps;                                          /* K, what the dimension with the most has not zero */
    float grid;                                        /* grid points a unit of z */
    float *w_pre;                                      /* (I, latent_pad): transposed */
    float *w_pre_rows;                                 /* (D, inputs_pad), backward only */
    float *b_pre;                                      /* (latent_pad) */
    float *slope;                                      /* scale / grid */
    float *reach;                                      /* half the support of a bump, in grid points */
    float *coef;                                       /* (D, N, modes_pad) */
    float *head_w;                                     /* (O, modes_pad) */
} Network;

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

static size_t network_bytes(const SpanShape *s) {
    size_t latent = span_round_up(s->latent, LANES), modes = span_round_up(s->modes, LANES);
    size_t inputs = span_round_up(s->inputs, LANES);
    return piece(s->inputs * latent) + piece(s->latent * inputs) + 3 * piece(latent) +
           piece((size_t)s->latent * s->basis * modes) + piece((size_t)s->outputs * modes);
}

static Network make_network(const SpanShape *s, Arena *arena) {
    Network n = {.inputs = s->inputs, .latent = s->latent, .basis = s->basis, .modes = s->modes, .outputs = s->outputs};
    n.degree = s->degree;
    n.latent_pad = (int)span_round_up(s->latent, LANES);
    n.modes_pad = (int)span_round_up(s->modes, LANES);
    n.inputs_pad = (int)span_round_up(s->inputs, LANES);
    n.grid = s->degree == SPAN_BUMPS ? (float)(s->basis - 1) : (float)(s->basis - s->degree);
    n.w_pre = take(arena, (size_t)n.inputs * n.latent_pad);
    n.w_pre_rows = take(arena, (size_t)n.latent * n.inputs_pad);
    n.b_pre = take(arena, n.latent_pad);
    n.slope = take(arena, n.latent_pad);
    n.reach = take(arena, n.latent_pad);
    n.coef = take(arena, (size_t)n.latent * n.basis * n.modes_pad);
    n.head_w = take(arena, (size_t)n.outputs * n.modes_pad);
    return n;
}

static void copy_padded(float *restrict to, const float *restrict from, size_t rows, size_t width, size_t padded) {
    for (size_t r = 0; r < rows; r++) { /* rows are short: a call of memcpy for each would cost more */
        for (size_t i = 0; i < width; i++) to[r * padded + i] = from[r * width + i];
        for (size_t i = width; i < padded; i++) to[r * padded + i] = 0.0f;
    }
}

/* How many bumps can be above zero at one point, and how far they reach: from the learned scale of a dimension. */
static int measure_bumps(Network *n, int k, float scale) {
    float magnitude = fabsf(scale);
    /* A scale of almost nothing makes every bump reach everywhere; a NaN must not become a number of taps. */
    float reach = magnitude > 1e-6f * n->grid ? 1.5f * n->grid / magnitude : 1.5e6f;
    int taps = 2.0f * reach < (float)n->basis ? (int)ceilf(2.0f * reach) : n->basis;
    n->slope[k] = scale / n->grid;
    n->reach[k] = reach;
    return taps;
}

/* Of whole vectors. */
static int are_finite(const float *values, size_t count) {
    Ints bad = {0};
    for (size_t i = 0; i < count; i += LANES) bad |= not_finite(load(values + i));
    for (int i = 0; i < LANES; i++)
        if (bad[i]) return 0;
    return 1;
}

/* Returns whether the kernel can take the network: the zeros of the basis are never multiplied here, so a parameter that is
 * not finite would spoil less than it must. */
static int load_network(Network *n, const SpanInputs *in, int c, int for_backward) {
    const float *w_pre = in->w_pre + (size_t)c * n->latent * n->inputs, *b_pre = in->b_pre + (size_t)c * n->latent;
    for (int i = 0; i < n->inputs; i++) {
        float *column = n->w_pre + (size_t)i * n->latent_pad;
        for (int k = 0; k < n->latent; k++) column[k] = w_pre[(size_t)k * n->inputs + i];
        for (int k = n->latent; k < n->latent_pad; k++) column[k] = 0.0f;
    }
    copy_padded(n->b_pre, b_pre, 1, n->latent, n->latent_pad);
    n->taps = n->degree == SPAN_BUMPS ? 1 : n->degree + 1;
    for (int k = 0; k < n->latent_pad && n->degree == SPAN_BUMPS; k++) {
        int taps = measure_bumps(n, k, k < n->latent ? in->scale[(size_t)c * n->latent + k] : n->grid);
        if (taps > n->taps) n->taps = taps;
    }
    size_t rows = (size_t)n->latent * n->basis;
    copy_padded(n->coef, in->coef + c * rows * n->modes, rows, n->modes, n->modes_pad);
    if (n->outputs) {
        size_t size = (size_t)n->outputs * n->modes;
        copy_padded(n->head_w, in->head_w + c * size, n->outputs, n->modes, n->modes_pad);
    }
    if (for_backward) copy_padded(n->w_pre_rows, w_pre, n->latent, n->inputs, n->inputs_pad);
    return are_finite(n->coef, rows * n->modes_pad) && are_finite(n->w_pre, (size_t)n->inputs * n->latent_pad) &&
           are_finite(n->b_pre, n->latent_pad) && (n->degree != SPAN_BUMPS || are_finite(n->slope, n->latent_pad)) &&
           are_finite(n->head_w, (size_t)n->outputs * n->modes_pad);
}

/* ---------------------------------------------------------------- z = sigmoid(W_pre x + b_pre) */

/* z, and for the backward pass its slope behind it. Near z = 1 the slope z (1 - z) would be lost to rounding. */
INLINE void put_sigmoid(float *z, int width, Vec a, const int for_backward) {
    Vec e = span_exp_minus(a), value = 1.0f / (1.0f + e);
    store(z, value);
    if (for_backward) store(z + width, choose(e < 1.0f, e * value * value, value * (1.0f - value)));
}

/* Four samples at a time, so that a row of weights is loaded once for the four. A sample's row of z has latent_pad floats,
 * and for the backward pass as many again. */
INLINE void preprocess(const Network *n, const float *x, int batch, float *z, const int for_backward) {
    const int width = n->latent_pad, inputs = n->inputs, stride = width * (1 + for_backward);
    int b = 0;
    for (; b + 4 <= batch; b += 4) {
        const float *x0 = x + (size_t)b * inputs, *x1 = x0 + inputs, *x2 = x1 + inputs, *x3 = x2 + inputs;
        for (int k = 0; k < width; k += LANES) {
            Vec a0 = load(n->b_pre + k), a1 = a0, a2 = a0, a3 = a0;
            for (int i = 0; i < inputs; i++) {
                Vec w = load(n->w_pre + (size_t)i * width + k);
                a0 += x0[i] * w, a1 += x1[i] * w, a2 += x2[i] * w, a3 += x3[i] * w;
            }
            float *row = z + (size_t)b * stride + k;
            put_sigmoid(row, width, a0, for_backward), put_sigmoid(row + stride, width, a1, for_backward);
            put_sigmoid(row + 2 * stride, width, a2, for_backward), put_sigmoid(row + 3 * stride, width, a3, for_backward);
        }
    }
    for (; b < batch; b++)
        for (int k = 0; k < width; k += LANES) {
            Vec a = load(n->b_pre + k);
            for (int i = 0; i < inputs; i++) a += x[(size_t)b * inputs + i] * load(n->w_pre + (size_t)i * width + k);
            put_sigmoid(z + (size_t)b * stride + k, width, a, for_backward);
        }
}

/* ---------------------------------------------------------------- taps: the non-zero basis values of one sample */

typedef struct {
    int *first;      /* (latent_pad): index of the first */
    float *value;    /* (K, latent_pad) */
    float *by_z;     /* the same shape: derivative by z; NULL in the forward pass */
    float *by_scale; /* derivative by scale, bumps only */
} Taps;

static size_t taps_bytes(const SpanShape *s) {
    size_t latent = span_round_up(s->latent, LANES);
    int most = s->degree == SPAN_BUMPS ? s->basis : s->degree + 1;
    return piece(latent) + 3 * piece(most * latent);
}

static Taps make_taps(const SpanShape *s, Arena *arena, int for_backward) {
    size_t latent = span_round_up(s->latent, LANES), count = latent * (s->degree == SPAN_BUMPS ? s->basis : s->degree + 1);
    Taps t = {.first = take(arena, latent), .value = take(arena, count)};
    if (for_backward) t.by_z = take(arena, count), t.by_scale = take(arena, count);
    return t;
}

INLINE void find_bumps(const Network *n, const float *z, const Taps *t, const int taps, const int for_backward) {
    const int width = n->latent_pad;
    const float grid = n->grid, step = 1.0f / grid;
    const Vec last = fill((float)(n->basis - taps)); /* the largest first index: the same K rows fit in everywhere */
    for (int k = 0; k < width; k += LANES) {
        Vec at_z = load(z + k), slope = load(n->slope + k);
        Ints first = span_index(at_z * grid - load(n->reach + k) + 1.0f, last);
        store_ints(t->first + k, first);
        Vec distance = span_distance(at_z, grid, first); /* to the first bump, in grid points */
        for (int i = 0; i < taps; i++, distance -= 1.0f) {
            Vec at = distance * slope;
            store(t->value + i * width + k, span_bump(at));
            if (for_backward) {
                Vec by_t = span_bump_slope(at);
                store(t->by_z + i * width + k, by_t * slope * grid);
                store(t->by_scale + i * width + k, by_t * distance * step);
            }
        }
    }
}

INLINE void find_bsplines(const Network *n, const float *z, const Taps *t, const int degree, const int for_backward) {
    const int width = n->latent_pad;
    const float grid = n->grid;
    for (int k = 0; k < width; k += LANES) {
        Vec at_z = load(z + k);
        Ints first = span_index(at_z * grid, fill(grid - 1.0f));
        store_ints(t->first + k, first);
        Vec fraction = span_distance(at_z, grid, first); /* of the knot span */
        for (int i = 0; i <= degree; i++) {
            store(t->value + i * width + k, span_bspline(degree, i, fraction));
            if (for_backward) store(t->by_z + i * width + k, span_bspline_slope(degree, i, fraction) * grid);
        }
    }
}

INLINE void find_taps(const Network *n, const float *z, const Taps *t, const int for_backward) {
    switch (n->degree) {
        case 1: find_bsplines(n, z, t, 1, for_backward); break;
        case 2: find_bsplines(n, z, t, 2, for_backward); break;
        case 3: find_bsplines(n, z, t, 3, for_backward); break;
        default:
            if (n->taps == 3)
                find_bumps(n, z, t, 3, for_backward);
            else if (n->taps == 4)
                find_bumps(n, z, t, 4, for_backward);
            else
                find_bumps(n, z, t, n->taps, for_backward);
    }
}

/* ---------------------------------------------------------------- modes of one sample */

/* The coefficients that the taps of dimension k fall on: K rows of modes_pad. */
INLINE size_t row_of(const Network *n, const Taps *t, int k) { return ((size_t)k * n->basis + t->first[k]) * n->modes_pad; }

/* Modes are worked on one or two vectors at a time, with K taps: `pair` and mostly `taps` are constants wherever these functions
 * are inlined. */
#define FOR_PAIRS(modes_pad, work)                                                        \
    for (int m = 0; m < (modes_pad); m += 2 * LANES) {                                    \
        if (m + LANES < (modes_pad)) { enum { pair = 1 }; work; } else { enum { pair = 0 }; work; } \
    }
#define FOR_MODES(n, work)                                                 \
    switch ((n)->taps) {                                                   \
        case 2: { enum { taps = 2 }; FOR_PAIRS((n)->modes_pad, work) } break; \
        case 3: { enum { taps = 3 }; FOR_PAIRS((n)->modes_pad, work) } break; \
        case 4: { enum { taps = 4 }; FOR_PAIRS((n)->modes_pad, work) } break; \
        default: { const int taps = (n)->taps; FOR_PAIRS((n)->modes_pad, work) } \
    }

/* A vector of factors: for each mode a sum of K rows. */
INLINE Vec factor_of(const float *rows, size_t stride, const float *value, int width, const int taps) {
    Vec sum = value[0] * load(rows);
    for (int i = 1; i < taps; i++) sum += value[i * width] * load(rows + i * stride);
    return sum;
}

/* modes[j] = the product of the factors; for the backward pass each factor is kept, and the product of those before it. */
INLINE void multiply(const Network *n, const Taps *t, float *modes, float *factors, float *before, int m, const int taps,
                     const int pair, const int for_backward) {
    const int stride = n->modes_pad, width = n->latent_pad;
    Vec product0 = fill(1.0f), product1 = product0;
    for (int k = 0; k < n->latent; k++) {
        const float *rows = n->coef + row_of(n, t, k) + m;
        Vec factor0 = factor_of(rows, stride, t->value + k, width, taps), factor1 = factor0;
        if (pair) factor1 = factor_of(rows + LANES, stride, t->value + k, width, taps);
        if (for_backward) {
            size_t at = (size_t)k * stride + m;
            store(factors + at, factor0), store(before + at, product0);
            if (pair) store(factors + at + LANES, factor1), store(before + at + LANES, product1);
        }
        product0 *= factor0;
        if (pair) product1 *= factor1;
    }
    store(modes + m, product0);
    if (pair) store(modes + m + LANES, product1);
}

/* The modes of one sample as the head reads them, in their place. */
INLINE void bound_modes(float *modes, size_t modes_pad) {
    for (size_t m = 0; m < modes_pad; m += LANES) store(modes + m, span_tanh(load(modes + m)));
}

static int forward(const SpanShape *s, const SpanInputs *in, float *out, float *z) {
    size_t modes_pad = span_round_up(s->modes, LANES);
    size_t z_floats = z ? 0 : (size_t)s->batch * span_round_up(s->latent, LANES);
    char *memory = malloc(network_bytes(s) + taps_bytes(s) + piece(modes_pad) + piece(z_floats) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    Network n = make_network(s, &arena);
    Taps found = make_taps(s, &arena, 0);
    float *modes = take(&arena, modes_pad), *scratch_z = take(&arena, z_floats);
    int status = SPAN_DONE;
    for (int c = 0; c < s->stack && status == SPAN_DONE; c++) {
        if (!load_network(&n, in, c, 0)) status = SPAN_NOT_FINITE;
        size_t stride = n.latent_pad * (z ? 2 : 1);
        float *at = z ? z + (size_t)c * s->batch * stride : scratch_z;
        if (z)
            preprocess(&n, in->x, s->batch, at, 1);
        else
            preprocess(&n, in->x, s->batch, at, 0);
        for (int b = 0; b < s->batch; b++, at += stride) {
            find_taps(&n, at, &found, 0);
            FOR_MODES(&n, multiply(&n, &found, modes, NULL, NULL, m, taps, pair, 0));
            if (s->bounded) bound_modes(modes, modes_pad);
            if (!s->outputs) {
                memcpy(out, modes, s->modes * sizeof(float));
                out += s->modes;
            }
            for (int o = 0; o < s->outputs; o++) {
                Vec sum = fill(0.0f);
                for (size_t m = 0; m < modes_pad; m += LANES) sum += load(modes + m) * load(n.head_w + o * modes_pad + m);
                *out++ = sum_lanes(sum) + in->head_b[(size_t)c * s->outputs + o];
            }
        }
    }
    free(memory);
    return status;
}
