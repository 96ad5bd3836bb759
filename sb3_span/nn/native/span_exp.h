/* The exponential function and tanh, as exact as the floats that they return. For one number or a vector of numbers: who includes this
 * file defines what span_spline.h asks for and includes that first, and one more:
 *   span_power_of_two(n)        2^n as a Real, for whole n from -127 (which gives 0) to 128 (infinity)
 */
#ifndef SPAN_EXP_H
#define SPAN_EXP_H

#ifndef span_nearest
/* The nearest whole number; 0 for a NaN, which has none, and for what is large. */
SPAN_INLINE Whole span_nearest(Real x) {
    x = span_less(span_magnitude(x), span_fill(1e9f), x, span_fill(0.0f));
    return span_whole(x + span_less(x, span_fill(0.0f), span_fill(-0.5f), span_fill(0.5f)));
}
#endif

/* exp(-a) as 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. Beyond the bounds 2^n is 0 or infinite; a NaN survives in x. */
SPAN_INLINE Real span_exp_minus(Real a) {
    Real x = -a;
    x = span_at_most(span_fill(88.8f), span_at_least(span_fill(-88.1f), x));
    Whole n = span_nearest(x * 1.44269504f);
    Real nf = span_real(n), r = (x - nf * 0.693359375f) + nf * 2.12194440e-4f;
    Real y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    return y * span_power_of_two(n);
}

/* tanh: near zero by a polynomial, beyond by what is missing to 1, so that its distance from 1 keeps its digits. */
SPAN_INLINE Real span_tanh(Real x) {
    Real a = span_magnitude(x), s = x * x;
    Real p = s * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * s - 5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s - 3.33332819422e-1f;
    Real far = 1.0f - 2.0f / (span_exp_minus(-2.0f * a) + 1.0f);
    return span_less(a, span_fill(0.625f), x + x * s * p, span_less(x, span_fill(0.0f), -far, far));
}

#endif
