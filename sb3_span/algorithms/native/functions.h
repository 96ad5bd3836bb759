/* exp and log of vectors of floats, as exact as the floats that they return, and tanh of arrays. Comes after the kernel of
 * sb3_span/nn/native, which has the exponential function and tanh for all. */

INLINE Vec exp_of(Vec x) { return span_exp_minus(-x); }

/* Of normal numbers above zero: x = m 2^e, and a polynomial of m - 1 with m between sqrt(1/2) and sqrt(2). */
INLINE Vec log_of(Vec x) {
    Ints bits = (Ints)x, e = (bits >> 23) - 126;
    Vec m = (Vec)((bits & 0x007fffff) | 0x3f000000); /* between 1/2 and 1 */
    Ints is_low = m < 0.707106781f;
    Vec n = span_real(e + is_low), r = choose(is_low, m + m, m) - 1.0f, s = r * r; /* a comparison that holds is -1 */
    Vec y = r * 7.0376836292e-2f - 1.1514610310e-1f;
    y = y * r + 1.1676998740e-1f;
    y = y * r - 1.2420140846e-1f;
    y = y * r + 1.4249322787e-1f;
    y = y * r - 1.6668057665e-1f;
    y = y * r + 2.0000714765e-1f;
    y = y * r - 2.4999993993e-1f;
    y = y * r + 3.3333331174e-1f;
    y = y * r * s + n * -2.12194440e-4f - 0.5f * s;
    return choose(x == x, r + y + n * 0.693359375f, x);
}

/* tanh of an array, in its place. */
static void squash(float *values, size_t count) {
    float rest[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) store(values + i, span_tanh(load(values + i)));
    memcpy(rest, values + i, (count - i) * sizeof(float));
    store(rest, span_tanh(load(rest)));
    memcpy(values + i, rest, (count - i) * sizeof(float));
}
