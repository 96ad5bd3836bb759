/* The basis functions at one point, by local support: which of them are not zero, their values and their slopes.
 * The torch code in sb3_span/nn/basis.py is the definition; this is the same function without the zeros.
 *
 * Written for one number and for vectors of numbers alike. Who includes this file says which, before it does:
 *   Real                        the type: float, or a vector of floats
 *   Whole                       the integer type of the same width and size
 *   span_fill(value)            a Real of this value
 *   span_less(a, b, x, y)       x where a < b, else y, also where one of them is a NaN
 *   span_whole(x), span_real(i) conversion to whole numbers (towards zero) and back
 *   span_upper_half(x)          x without the lower 12 bits of its mantissa
 * Comparisons are written so that a NaN stays a NaN, and never becomes an index.
 */
#ifndef SPAN_SPLINE_H
#define SPAN_SPLINE_H

#define SPAN_INLINE static inline __attribute__((always_inline))

#ifndef span_magnitude /* who can do it with less says how */
SPAN_INLINE Real span_magnitude(Real x) { return span_less(x, span_fill(0.0f), -x, x); }
#endif
#ifndef span_at_least
SPAN_INLINE Real span_at_least(Real bound, Real x) { return span_less(x, bound, bound, x); }
SPAN_INLINE Real span_at_most(Real bound, Real x) { return span_less(bound, x, bound, x); }
#endif

/* floor(x) within [0, limit]; 0 for a NaN */
SPAN_INLINE Whole span_index(Real x, Real limit) {
    x = span_at_most(limit, x);
    return span_whole(span_less(span_fill(0.0f), x, x, span_fill(0.0f)));
}

/* z * grid - first, with one rounding: both halves of z times a small whole number are exact. A processor that has fused
 * multiply-add would do without, but not all have it. */
SPAN_INLINE Real span_distance(Real z, float grid, Whole first) {
    Real high = span_upper_half(z), low = z - high;
    return (high * grid - span_real(first)) + low * grid;
}

/* A quadratic bump at distance t from its centre, and its slope. Each piece by its own formula: a difference of truncated
 * squares would lose the slope of a wide bump to rounding. */
SPAN_INLINE Real span_bump(Real t) {
    Real a = span_magnitude(t), rest = span_at_least(span_fill(0.0f), 1.5f - a);
    return span_less(a, span_fill(0.5f), 0.75f - a * a, 0.5f * rest * rest);
}

SPAN_INLINE Real span_bump_slope(Real t) {
    Real a = span_magnitude(t);
    Real steepness = span_less(a, span_fill(0.5f), a + a, span_at_least(span_fill(0.0f), 1.5f - a));
    return span_less(t, span_fill(0.0f), steepness, -steepness);
}

/* The i-th of the degree + 1 B-splines that are not zero at the fraction f of a knot span, and its slope. */
SPAN_INLINE Real span_bspline(int degree, int i, Real f) {
    Real g = 1.0f - f;
    if (degree == 1) return i == 0 ? g : f;
    if (degree == 2) return i == 0 ? 0.5f * g * g : i == 1 ? 0.5f + f * g : 0.5f * f * f;
    const float sixth = 1.0f / 6.0f;
    if (i == 0) return sixth * g * g * g;
    if (i == 1) return sixth * (4.0f - 3.0f * f * f * (2.0f - f));
    if (i == 2) return sixth * (4.0f - 3.0f * g * g * (2.0f - g));
    return sixth * f * f * f;
}

SPAN_INLINE Real span_bspline_slope(int degree, int i, Real f) {
    Real g = 1.0f - f;
    if (degree == 1) return i == 0 ? f * 0.0f - 1.0f : f * 0.0f + 1.0f;
    if (degree == 2) return i == 0 ? -g : i == 1 ? g - f : f;
    if (i == 0) return -0.5f * g * g;
    if (i == 1) return -0.5f * f * (4.0f - 3.0f * f);
    if (i == 2) return 0.5f * g * (4.0f - 3.0f * g);
    return 0.5f * f * f;
}

#endif
