/* What the kernel is written in: vectors of LANES floats, scratch memory, and samples that go into lanes and come back. */
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
