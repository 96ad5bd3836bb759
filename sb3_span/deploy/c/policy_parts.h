/* What exported policies are made of, beside scalar.h, span_spline.h and span_exp.h: for one number at a time, C99, without state.
 * The generator (c_parts.py) copies the functions that a policy calls, with the comment above each, and leaves out the rest.
 */

/* Comparisons are written so that a NaN stays a NaN. */
static float clip(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

/* Whether one of n numbers is none */
static int any_nan(const float *x, int n) {
    for (int i = 0; i < n; i++)
        if (!(x[i] == x[i])) return 1;
    return 0;
}

static float relu(float x) { return x < 0.0f ? 0.0f : x; }

static float leaky_relu(float x, float slope) { return x < 0.0f ? slope * x : x; }

static float elu(float x, float alpha) { return x < 0.0f ? alpha * (span_exp_minus(-x) - 1.0f) : x; }

static float sigmoid(float x) { return 1.0f / (1.0f + span_exp_minus(x)); }

static float silu(float x) { return x / (1.0f + span_exp_minus(x)); }

static float hyperbolic_tangent(float x) { return span_tanh(x); }

/* out = weight in + bias; weight has a row for each output */
static void linear(const float *in, int n_in, const float *weight, const float *bias, float *out, int n_out) {
    for (int o = 0; o < n_out; o++, weight += n_in) {
        float sum = bias[o];
        for (int i = 0; i < n_in; i++) sum += weight[i] * in[i];
        out[o] = sum;
    }
}

/* The same with weights step * weight, where each row has a step of its own */
static void linear_int8(const float *in, int n_in, const int8_t *weight, const float *step, const float *bias, float *out,
                        int n_out) {
    for (int o = 0; o < n_out; o++, weight += n_in) {
        float sum = 0.0f;
        for (int i = 0; i < n_in; i++) sum += (float)weight[i] * in[i];
        out[o] = bias[o] + step[o] * sum;
    }
}

/* To mean 0 and variance 1 */
static void layer_norm(const float *in, int n, float epsilon, float *out) {
    float mean = 0.0f, variance = 0.0f;
    for (int i = 0; i < n; i++) mean += in[i];
    mean /= (float)n;
    for (int i = 0; i < n; i++) variance += (in[i] - mean) * (in[i] - mean);
    float gain = 1.0f / sqrtf(variance / (float)n + epsilon);
    for (int i = 0; i < n; i++) out[i] = (in[i] - mean) * gain;
}

/* Which of n_basis quadratic bumps on [0, 1] are above zero at z, at most `taps` of them, and their values. slope: how much
 * steeper they are than B-splines. */
static int32_t bump_values(float z, float slope, int n_basis, int taps, float *value) {
    const float grid = (float)(n_basis - 1), reach = 1.5f / span_magnitude(slope);
    int32_t first = span_index(z * grid - reach + 1.0f, (float)(n_basis - taps));
    float distance = span_distance(z, grid, first); /* to the first bump, in grid points */
    for (int i = 0; i < taps; i++) value[i] = span_bump((distance - (float)i) * slope);
    return first;
}

/* Which degree + 1 of n_basis B-splines on [0, 1] are above zero at z, and their values. High degrees by the recursion of Cox
 * and de Boor. */
static int32_t b_spline_values(float z, int degree, int n_basis, float *value) {
    const float grid = (float)(n_basis - degree); /* knot spans */
    int32_t first = span_index(z * grid, grid - 1.0f);
    float fraction = span_distance(z, grid, first); /* of the knot span */
    value[0] = 1.0f;
    if (degree <= 3)
        for (int i = 0; i <= degree; i++) value[i] = span_bspline(degree, i, fraction);
    else
        for (int d = 1; d <= degree; d++) {
            float carried = 0.0f;
            for (int i = 0; i < d; i++) {
                float share = value[i] / (float)d;
                value[i] = carried + ((float)(i + 1) - fraction) * share;
                carried = (fraction + (float)(d - 1 - i)) * share;
            }
            value[d] = carried;
        }
    return first;
}

/* modes[m] *= the sum of the values, each times its row of coefficients */
static void multiply(const float *value, int taps, const float *row, float *modes, int n_modes) {
    for (int m = 0; m < n_modes; m++, row++) {
        float sum = value[0] * row[0];
        for (int i = 1; i < taps; i++) sum += value[i] * row[i * n_modes];
        modes[m] *= sum;
    }
}

/* The same with coefficients centre + step * row */
static void multiply_int8(const float *value, int taps, float centre, float step, const int8_t *row, float *modes, int n_modes) {
    float total = 0.0f;
    for (int i = 0; i < taps; i++) total += value[i];
    for (int m = 0; m < n_modes; m++, row++) {
        float sum = 0.0f;
        for (int i = 0; i < taps; i++) sum += value[i] * (float)row[i * n_modes];
        modes[m] *= centre * total + step * sum;
    }
}

/* The index of the largest; the first of several */
static int largest(const float *scores, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}
