/* The kernel for one width of vectors: the forward pass, and what the backward pass in span_kernel_backward.h shares with it.
 * The files span_kernel_*.c include both, each with its own LANES.
 *
 * How the work is laid out:
 * - Samples lie in the lanes of vectors: a block is LANES samples, and every parameter is one number for all of them. So no lane is
 *   idle whatever the network's sizes, and nothing is summed over lanes until the very end. Parameters are read where they are, but
 *   for the coefficients, which are put into the order in which they are read (pack).
 * - For each dimension all N basis functions are evaluated, zeros included, and a factor is a sum over all of them. That is more
 *   to add than the few that are not zero, and yet less work than to look up which they are; and what is not finite spoils what it
 *   spoils in torch.
 * - Kept for the backward pass are z and its slope. It computes factors again, with the products of all factors before each one;
 *   walking back it has the product of all factors behind. No division, so zero factors are nothing special. Who knows the loss
 *   beforehand has both passes one after the other for each block, and nothing is computed twice (backward_through).
 * - The last block is filled up with copies of the last sample, whose outputs nobody reads and whose gradients are zero.
 */
#include "span_vectors.h"

/* ---------------------------------------------------------------- one network's parameters */

typedef struct {
    int inputs, latent, basis, modes, outputs, degree, group, all_modes; /* I D N M O, and W at the end */
    float grid;                                                          /* grid points a unit of z */
    const float *w_pre, *b_pre, *scale, *head_w, *head_b;
    const float *coef; /* in the order in which they are read: (D, M / 4, N, 4), fewer of the last modes */
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

/* Coefficients, (D, N, M), into the order in which they are read. */
static void pack(const float *coef, int latent, int basis, int modes, float *packed) {
    for (int k = 0; k < latent; k++, coef += (size_t)basis * modes)
        for (int m = 0; m < modes; m += 4) {
            const int count = modes - m < 4 ? modes - m : 4;
            for (int i = 0; i < basis; i++, packed += count) {
                const float *from = coef + (size_t)i * modes + m;
                if (count == 4) *(LooseQuad *)packed = *(const LooseQuad *)from;
                else
                    for (int j = 0; j < count; j++) packed[j] = from[j];
            }
        }
}

static size_t count_coefficients(const SpanShape *s) { return (size_t)s->latent * s->basis * s->modes; }

/* Returns whether all of its parameters are finite. packed: memory for its coefficients. */
static int find_network(Network *n, const SpanShape *s, const SpanInputs *in, size_t c, float *packed) {
    const size_t latent = s->latent, coefs = count_coefficients(s), heads = (size_t)s->outputs * span_all_modes(s);
    const float *coef = in->coef + c * coefs;
    *n = (Network){s->inputs, s->latent, s->basis, s->modes, s->outputs, s->degree, s->group, (int)span_all_modes(s)};
    n->grid = s->degree == SPAN_BUMPS ? (float)(s->basis - 1) : (float)(s->basis - s->degree);
    n->w_pre = in->w_pre + c * latent * s->inputs, n->b_pre = in->b_pre + c * latent;
    n->scale = s->degree == SPAN_BUMPS ? in->scale + c * latent : NULL;
    if (s->outputs) n->head_w = in->head_w + c * heads, n->head_b = in->head_b + c * s->outputs;
    pack(coef, s->latent, s->basis, s->modes, packed);
    n->coef = packed;
    return are_finite(n->w_pre, latent * s->inputs) && are_finite(n->b_pre, latent) && are_finite(coef, coefs) &&
           (!n->scale || are_finite(n->scale, latent)) && (!s->outputs || are_finite(n->head_w, heads));
}

/* ---------------------------------------------------------------- z = sigmoid(W_pre x + b_pre) of one block */

INLINE void squash_one(Vec a, float *z, float *slope) {
    Vec e = span_exp_minus(a), value = 1.0f / (1.0f + e);
    store(z, value);
    if (slope) store(slope, span_at_most(fill(FLT_MAX), e) * value * value); /* which is z (1 - z), and not lost to rounding near 1 */
}

/* `count` dimensions from k on. A vector of x is read once for all of them, and their sums do not wait for each other: a sum alone
 * would wait for each of its additions. */
INLINE void preprocess_some(const Network *n, int k, const float *x, size_t stride, float *z, float *slope, size_t z_stride,
                            const int count) {
    const size_t inputs = n->inputs;
    const float *w = n->w_pre + k * inputs;
    Vec a[8];
    for (int j = 0; j < count; j++) a[j] = fill(n->b_pre[k + j]);
    for (size_t i = 0; i < inputs; i++, w++) {
        Vec own = load(x + i * stride);
        for (int j = 0; j < count; j++) a[j] += w[j * inputs] * own;
    }
    for (int j = 0; j < count; j++) squash_one(a[j], z + (k + j) * z_stride, slope ? slope + (k + j) * z_stride : NULL);
}

/* x: rows of `stride`. z: (D, LANES), and its slope. */
static void preprocess(const Network *n, const float *x, size_t stride, float *z, float *slope, size_t z_stride) {
    int k = 0;
    for (; k + 8 <= n->latent; k += 8) preprocess_some(n, k, x, stride, z, slope, z_stride, 8);
    switch (n->latent - k) {
        case 7: preprocess_some(n, k, x, stride, z, slope, z_stride, 7); break;
        case 6: preprocess_some(n, k, x, stride, z, slope, z_stride, 6); break;
        case 5: preprocess_some(n, k, x, stride, z, slope, z_stride, 5); break;
        case 4: preprocess_some(n, k, x, stride, z, slope, z_stride, 4); break;
        case 3: preprocess_some(n, k, x, stride, z, slope, z_stride, 3); break;
        case 2: preprocess_some(n, k, x, stride, z, slope, z_stride, 2); break;
        case 1: preprocess_some(n, k, x, stride, z, slope, z_stride, 1); break;
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

/* For the backward pass also the slopes, (N, LANES), at the distance in grid points and widths of the bump. */
INLINE void find_bumps(const Network *n, int k, Vec z, Vec *values, float *slopes, const int basis, const int keeps) {
    const float width = n->scale[k] / n->grid;
    for (int i = 0; i < basis; i++) {
        Vec at = distance_to(i, z, n->grid) * width;
        values[i] = span_bump(at);
        if (keeps) store(slopes + i * LANES, span_bump_slope(at));
    }
}

/* Of the degree + 1 that are not zero each one falls on the i-th basis function in some samples and not in others. The slopes are
 * those at the fraction of a knot span. */
INLINE void find_bsplines(const Network *n, Vec z, const int degree, Vec *values, float *slopes, const int basis, const int keeps) {
    const float grid = n->grid;
    Ints first = span_index(z * grid, fill(grid - 1.0f));
    Vec fraction = span_distance(z, grid, first);
    Vec pieces[4], steepnesses[4];
    for (int j = 0; j <= degree; j++) {
        pieces[j] = span_bspline(degree, j, fraction);
        if (keeps) steepnesses[j] = span_bspline_slope(degree, j, fraction);
    }
    for (int i = 0; i < basis; i++) {
        Vec sum = z - z, steepness = sum; /* 0, or a NaN */
        for (int j = 0; j <= degree; j++) {
            Ints is_here = first == i - j;
            sum = choose(is_here, pieces[j], sum);
            if (keeps) steepness = choose(is_here, steepnesses[j], steepness);
        }
        values[i] = sum;
        if (keeps) store(slopes + i * LANES, steepness);
    }
}

INLINE void find_basis(const Network *n, int k, Vec z, Vec *values, float *slopes, const int basis, const int keeps) {
    switch (n->degree) {
        case 1: find_bsplines(n, z, 1, values, slopes, basis, keeps); break;
        case 2: find_bsplines(n, z, 2, values, slopes, basis, keeps); break;
        case 3: find_bsplines(n, z, 3, values, slopes, basis, keeps); break;
        default: find_bumps(n, k, z, values, slopes, basis, keeps);
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

/* Of `count` modes from `first` on the factors of one dimension, multiplied by the products of those before it, if there are any. The
 * first dimension of a group has none before it, and nobody asks for its factors. coef: (N, count). */
INLINE void multiply_some(const float *coef, const Vec *values, int first, const float *before, float *product, float *factors,
                          const int basis, const int count, const int is_first, const int keeps) {
    Vec sums[4];
    for (int m = 0; m < count; m++) sums[m] = coef[m] * values[0];
    for (int i = 1; i < basis; i++)
        for (int m = 0; m < count; m++) sums[m] += coef[i * count + m] * values[i];
    for (int m = 0; m < count; m++) {
        const size_t at = (size_t)(first + m) * LANES;
        if (keeps && !is_first) store(factors + at, sums[m]);
        store(product + at, is_first ? sums[m] : load(before + at) * sums[m]);
    }
}

/* Of all modes, (M, LANES): four at a time, and what is left. coef: as they are packed. */
INLINE void multiply(const float *coef, int modes, const Vec *values, const float *before, float *product, float *factors,
                     const int basis, const int is_first, const int keeps) {
    int m = 0;
    for (; m + 4 <= modes; m += 4, coef += 4 * basis)
        multiply_some(coef, values, m, before, product, factors, basis, 4, is_first, keeps);
    switch (modes - m) {
        case 3: multiply_some(coef, values, m, before, product, factors, basis, 3, is_first, keeps); break;
        case 2: multiply_some(coef, values, m, before, product, factors, basis, 2, is_first, keeps); break;
        case 1: multiply_some(coef, values, m, before, product, factors, basis, 1, is_first, keeps); break;
    }
}

/* The products of each group's factors from z, rows of `stride`. */
INLINE void multiply_all(const Network *n, const float *z, size_t stride, const Trace *t, const int basis, const int in_registers,
                         const int keeps) {
    const size_t of_basis = keeps ? (size_t)basis * LANES : 0, of_modes = keeps ? (size_t)n->modes * LANES : 0;
    const float *coef = n->coef;
    float *modes = t->modes;
    for (int k = 0, left = n->group; k < n->latent; k++, coef += (size_t)basis * n->modes) {
        const int is_first = left == n->group, is_last = --left == 0 || k + 1 == n->latent;
        float *kept = t->values + k * of_basis, *before = t->products + k * of_modes, *factors = t->factors + k * of_modes;
        float *product = is_last ? modes : before + of_modes;
        Vec own[MOST_IN_REGISTERS], *values = in_registers ? own : (Vec *)kept;
        find_basis(n, k, load(z + k * stride), values, t->slopes + k * of_basis, basis, keeps);
        for (int i = 0; i < basis && in_registers && keeps; i++) store(kept + i * LANES, own[i]);
        if (is_first) multiply(coef, n->modes, values, before, product, factors, basis, 1, keeps);
        else multiply(coef, n->modes, values, before, product, factors, basis, 0, keeps);
        if (is_last) modes += n->modes * LANES, left = n->group;
    }
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
                          piece((size_t)s->modes * LANES) + piece(all_modes * LANES) + piece(width * stride) +
                          piece(count_coefficients(s)) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    float *x = take(&arena, s->inputs * stride), *own_z = take(&arena, latent * LANES);
    Trace trace = {.values = take(&arena, (size_t)s->basis * LANES), .products = take(&arena, (size_t)s->modes * LANES),
                   .modes = take(&arena, all_modes * LANES)};
    float *modes = trace.modes, *result = take(&arena, width * stride);
    float *coef = take(&arena, count_coefficients(s));
    to_lanes(in->x, s->batch, s->inputs, 0, x);
    int status = SPAN_DONE;
    for (int c = 0; c < s->stack && status == SPAN_DONE; c++) {
        Network n;
        if (!find_network(&n, s, in, c, coef)) status = SPAN_NOT_FINITE;
        float *kept = z ? z + (size_t)c * 2 * latent * stride : own_z;
        for (size_t b = 0; b < stride; b += LANES) {
            float *at = z ? kept + b : kept;
            const size_t z_stride = z ? stride : LANES;
            preprocess(&n, x + b, stride, at, z ? at + latent * stride : NULL, z_stride);
            FOR_BASIS(n.basis, multiply_all(&n, at, z_stride, &trace, basis, in_registers, 0));
            read_head(&n, modes, result + b, stride);
        }
        from_lanes(result, s->batch, (int)width, 0, out + (size_t)c * s->batch * width);
    }
    free(memory);
    return status;
}
