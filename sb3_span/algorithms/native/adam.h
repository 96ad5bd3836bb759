/* Adam for one width of vectors, and what both algorithms count with. Comes after networks.h. */

static const float HALF_LOG_2PI = 0.918938533f;

static double mean_of(const float *values, int count) {
    double sum = 0.0;
    for (int i = 0; i < count; i++) sum += values[i];
    return sum / count;
}

static double norm_of(const Trained *parameters, int count) {
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        Vec squares = fill(0.0f);
        size_t k = 0;
        for (; k + LANES <= parameters[i].size; k += LANES) {
            Vec g = load(parameters[i].grad + k);
            squares += g * g;
        }
        sum += sum_lanes(squares);
        for (; k < parameters[i].size; k++) sum += (double)parameters[i].grad[k] * parameters[i].grad[k];
    }
    return sqrt(sum);
}

static void adam_step(const Trained *parameters, int count, const AdamOptions *a) {
    if (!isinf(a->max_norm)) {
        /* As torch does it, whatever the bound: a negative one turns the gradients around. */
        double norm = norm_of(parameters, count), scale = a->max_norm / (norm + 1e-6);
        if (!(scale >= 1.0)) { /* nor is a NaN */
            float factor = (float)scale;
            for (int i = 0; i < count; i++)
                for (size_t k = 0; k < parameters[i].size; k++) parameters[i].grad[k] *= factor;
        }
    }
    const float beta1 = (float)(1.0 - a->beta1), beta2 = (float)a->beta2, beta2_rest = (float)(1.0 - a->beta2);
    const float decay = (float)a->decay, epsilon = (float)a->epsilon;
    for (int i = 0; i < count; i++) {
        const Trained *p = parameters + i;
        double step = *p->step += 1.0f;
        const float rate = (float)(a->rate * p->rate / (1.0 - pow(a->beta1, step)));
        const float root = (float)sqrt(1.0 - pow(a->beta2, step));
        float *restrict value = p->value, *restrict mean = p->mean, *restrict square = p->square;
        const float *restrict grad = p->grad;
        for (size_t k = 0; k < p->size; k++) {
            float g = grad[k] + decay * value[k];
            mean[k] += beta1 * (g - mean[k]);
            square[k] = beta2 * square[k] + beta2_rest * g * g;
            value[k] -= rate * mean[k] / (sqrtf(square[k]) / root + epsilon);
        }
    }
}
