/* What exported policies are made of, beside scalar.h, span_spline.h and span_exp.h: for one number at a time, C99, without state.
 * The generator (c_parts.py) copies the functions that a policy calls, with the comment above each, and leaves out the rest.
 */

/* Comparisons are written so that a NaN stays a NaN. */
static float clip(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

static float relu(float x) { return x < 0.0f ? 0.0f : x; }

static float leaky_relu(float x, float slope) { return x < 0.0f ? slope * x : x; }

static float elu(float x, float alpha) { return x < 0.0f ? alpha * (span_exp_minus(-x) - 1.0f) : x; }

static float sigmoid(float x) { return 1.0f / (1.0f + span_exp_minus(x)); }

static float silu(float x) { return x / (1.0f + span_exp_minus(x)); }

static float hyperbolic_tangent(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

/* out = weight in + bias; weight has a row for each output */
static void linear(const float *in, int n_in, const float *weight, const float *bias, float *out, int n_out) {
    for (int o = 0; o < n_out; o++, weight += n_in) {
        float sum = bias[o];
        for (int i = 0; i < n_in; i++) sum += weight[i] * in[i];
        out[o] = sum;
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

/* modes[m] *= the sum of the values, each times its row of coefficients */
static void multiply(const float *value, int taps, const float *row, float *modes, int n_modes) {
    for (int m = 0; m < n_modes; m++, row++) {
        float sum = value[0] * row[0];
        for (int i = 1; i < taps; i++) sum += value[i] * row[i * n_modes];
        modes[m] *= sum;
    }
}

/* modes = for each mode the product over all z of a spline, which is a weighted sum of n_basis quadratic bumps on [0, 1].
 * At most `taps` bumps are above zero at one z. slope: how much steeper they are than B-splines, for each z.
 * coefficients: (n_z, n_basis, n_modes) */
static void bump_splines(const float *z, int n_z, const float *slope, int n_basis, int taps, const float *coefficients,
                         float *modes, int n_modes) {
    const float grid = (float)(n_basis - 1);
    for (int m = 0; m < n_modes; m++) modes[m] = 1.0f;
    for (int k = 0; k < n_z; k++, coefficients += n_basis * n_modes) {
        float value[MOST_TAPS], reach = 1.5f / span_magnitude(slope[k]);
        int32_t first = span_index(z[k] * grid - reach + 1.0f, (float)(n_basis - taps));
        float distance = span_distance(z[k], grid, first); /* to the first bump, in grid points */
        for (int i = 0; i < taps; i++) value[i] = span_bump((distance - (float)i) * slope[k]);
        multiply(value, taps, coefficients + first * n_modes, modes, n_modes);
    }
}

/* The degree + 1 B-splines that are not zero at this fraction of a knot span; high degrees by the recursion of Cox and de Boor */
static void b_spline_values(int degree, float fraction, float *value) {
    if (degree <= 3) {
        for (int i = 0; i <= degree; i++) value[i] = span_bspline(degree, i, fraction);
        return;
    }
    value[0] = 1.0f;
    for (int d = 1; d <= degree; d++) {
        float carried = 0.0f;
        for (int i = 0; i < d; i++) {
            float share = value[i] / (float)d;
            value[i] = carried + ((float)(i + 1) - fraction) * share;
            carried = (fraction + (float)(d - 1 - i)) * share;
        }
        value[d] = carried;
    }
}

/* modes = for each mode the product over all z of a spline, which is a weighted sum of n_basis B-splines on [0, 1], of which
 * degree + 1 are above zero at one z. coefficients: (n_z, n_basis, n_modes) */
static void b_splines(const float *z, int n_z, int degree, int n_basis, const float *coefficients, float *modes, int n_modes) {
    const float grid = (float)(n_basis - degree); /* knot spans */
    for (int m = 0; m < n_modes; m++) modes[m] = 1.0f;
    for (int k = 0; k < n_z; k++, coefficients += n_basis * n_modes) {
        float value[MOST_TAPS];
        int32_t first = span_index(z[k] * grid, grid - 1.0f);
        b_spline_values(degree, span_distance(z[k], grid, first), value);
        multiply(value, degree + 1, coefficients + first * n_modes, modes, n_modes);
    }
}

/* The index of the largest; the first of several */
static int largest(const float *scores, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}
