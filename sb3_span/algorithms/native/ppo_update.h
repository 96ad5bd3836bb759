/* PPO's update for one width of vectors. Comes after adam.h. */

typedef struct {
    float *x;                   /* (B, I) */
    float *out, *grad_out;      /* (B, A): logits, or means */
    float *value, *grad_value;  /* (B) */
    float *advantage, *density; /* (B); the second is the gradient by the logarithm of the action's density */
    float *pi_kept, *vf_kept;
    Arena arena;
} PpoScratch;

static size_t ppo_bytes(const PpoPlan *plan, size_t batch) {
    size_t outs = batch * plan->pi.outputs;
    return piece(batch * plan->pi.span.inputs) + 2 * piece(outs) + 4 * piece(batch) + piece(kept_floats(&plan->pi, batch)) +
           piece(kept_floats(&plan->vf, batch)) + largest(network_scratch(&plan->pi, batch), network_scratch(&plan->vf, batch)) + 64;
}

static PpoScratch make_ppo_scratch(const PpoPlan *plan, size_t batch, char *memory) {
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    PpoScratch s = {.x = take(&arena, batch * plan->pi.span.inputs)};
    s.out = take(&arena, batch * plan->pi.outputs), s.grad_out = take(&arena, batch * plan->pi.outputs);
    s.value = take(&arena, batch), s.grad_value = take(&arena, batch);
    s.advantage = take(&arena, batch), s.density = take(&arena, batch);
    s.pi_kept = take(&arena, kept_floats(&plan->pi, batch)), s.vf_kept = take(&arena, kept_floats(&plan->vf, batch));
    s.arena = arena;
    return s;
}

static void normalize(float *values, int count) {
    double mean = mean_of(values, count), squares = 0.0;
    for (int i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
    double deviation = sqrt(squares / (count - 1)) + 1e-8;
    for (int i = 0; i < count; i++) values[i] = (float)((values[i] - mean) / deviation);
}

/* Of a choice by logits: logarithms of the probabilities in their place, and the entropy. */
static double log_softmax(float *logits, int n) {
    float highest = logits[0];
    for (int i = 1; i < n; i++) highest = logits[i] > highest ? logits[i] : highest;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += expf(logits[i] - highest);
    float log_sum = highest + logf(sum);
    double entropy = 0.0;
    for (int i = 0; i < n; i++) {
        logits[i] -= log_sum;
        entropy -= exp(logits[i]) * logits[i];
    }
    return entropy;
}

static double log_density(const float *mean, const float *log_std, const float *action, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        double distance = (action[i] - mean[i]) * exp(-log_std[i]);
        sum -= 0.5 * distance * distance + log_std[i] + HALF_LOG_2PI;
    }
    return sum;
}

/* PPO's losses of one batch and their gradients by the networks' outputs. */
static void ppo_losses(const PpoPlan *plan, const PpoEpoch *e, const int64_t *order, int batch, PpoScratch *s, PpoLosses *sums) {
    const int n = plan->pi.outputs, is_choice = plan->log_std == NULL;
    const double clip = e->clip_range, clip_vf = e->clip_range_vf;
    double policy = 0.0, value = 0.0, entropy = 0.0, clipped = 0.0, kl = 0.0;
    for (int b = 0; b < batch; b++) s->advantage[b] = e->advantages[order[b]];
    if (e->normalizes && batch > 1) normalize(s->advantage, batch);
    if (!is_choice) {
        memset(plan->log_std_grad, 0, n * sizeof(float));
        for (int i = 0; i < n; i++) entropy += batch * (0.5 + HALF_LOG_2PI + plan->log_std[i]);
    }
    for (int b = 0; b < batch; b++) {
        const int64_t row = order[b];
        float *out = s->out + (size_t)b * n, *grad = s->grad_out + (size_t)b * n;
        const float *action = e->actions + (size_t)row * (is_choice ? 1 : n);
        double own_entropy = is_choice ? log_softmax(out, n) : 0.0;
        /* Rounded as the rollout's: with the same parameters the ratio is 1, which matters where the clip range is 0. */
        float log_prob = is_choice ? out[(int)*action] : (float)log_density(out, plan->log_std, action, n);
        double log_ratio = log_prob - e->log_probs[row], ratio = exp(log_ratio), advantage = s->advantage[b];
        double bounded = fmin(fmax(ratio, 1.0 - clip), 1.0 + clip); /* in this order: a schedule may end below 0 */
        int is_inside = bounded == ratio || !(advantage * bounded < advantage * ratio);
        policy -= is_inside ? advantage * ratio : advantage * bounded;
        clipped += fabs(ratio - 1.0) > clip;
        kl += ratio - 1.0 - log_ratio;
        entropy += own_entropy;
        double by_density = is_inside ? -advantage * ratio / batch : 0.0;
        for (int i = 0; i < n; i++) {
            if (is_choice) {
                double probability = exp(out[i]);
                grad[i] = (float)(by_density * ((i == (int)*action) - probability) +
                                  e->ent_coef / batch * probability * (out[i] + own_entropy));
            } else {
                double deviation = exp(plan->log_std[i]), distance = (action[i] - out[i]) / deviation;
                grad[i] = (float)(by_density * distance / deviation);
                plan->log_std_grad[i] += (float)(by_density * (distance * distance - 1.0));
            }
        }
        double predicted = s->value[b], moved = predicted - e->values[row];
        int moves = isnan(clip_vf) || (moved >= -clip_vf && moved <= clip_vf);
        if (!moves) predicted = e->values[row] + fmin(fmax(moved, -clip_vf), clip_vf);
        double error = predicted - e->returns[row];
        value += error * error;
        s->grad_value[b] = moves ? (float)(e->vf_coef * 2.0 * error / batch) : 0.0f;
    }
    if (!is_choice)
        for (int i = 0; i < n; i++) plan->log_std_grad[i] -= (float)e->ent_coef;
    sums->batches += 1.0;
    sums->policy_loss += policy / batch, sums->value_loss += value / batch, sums->entropy_loss -= entropy / batch;
    sums->clip_fraction += clipped / batch, sums->approx_kl += kl / batch, sums->last_kl = kl / batch;
    sums->loss = (policy - e->ent_coef * entropy + e->vf_coef * value) / batch;
    sums->stopped = sums->last_kl > e->max_kl;
}

static int ppo_epoch(const PpoPlan *plan, const PpoEpoch *e, PpoLosses *sums) {
    const int inputs = plan->pi.span.inputs;
    char *memory = malloc(ppo_bytes(plan, e->batch));
    if (!memory) return SPAN_NO_MEMORY;
    PpoScratch s = make_ppo_scratch(plan, e->batch, memory);
    int status = SPAN_DONE;
    for (int first = 0; first < e->rows && status == SPAN_DONE; first += e->batch) {
        const int batch = e->rows - first < e->batch ? e->rows - first : e->batch;
        const int64_t *order = e->order + first;
        for (int b = 0; b < batch; b++) memcpy(s.x + (size_t)b * inputs, e->obs + order[b] * inputs, inputs * sizeof(float));
        status = network_forward(&plan->pi, s.x, batch, s.out, s.pi_kept, s.arena);
        if (status == SPAN_DONE) status = network_forward(&plan->vf, s.x, batch, s.value, s.vf_kept, s.arena);
        if (status != SPAN_DONE) break;
        ppo_losses(plan, e, order, batch, &s, sums);
        if (sums->stopped) break;
        status = network_backward(&plan->pi, s.x, batch, s.pi_kept, s.grad_out, NULL, s.arena);
        if (status == SPAN_DONE) status = network_backward(&plan->vf, s.x, batch, s.vf_kept, s.grad_value, NULL, s.arena);
        if (status == SPAN_DONE) adam_step(plan->parameters, plan->count, &plan->adam);
    }
    free(memory);
    return status;
}

/* Unlike are_finite of the kernel, which reads whole vectors, for arrays that end where they end. */
static int are_all_finite(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return 0;
    return 1;
}

/* Noise: (B, A); actions: (B) of int64_t for choices, else (B, A) of float. */
static void ppo_draw(const PpoPlan *plan, int batch, float *out, const float *noise, void *actions, float *log_probs) {
    const int n = plan->pi.outputs;
    for (int b = 0; b < batch; b++, out += n, noise += n) {
        if (plan->log_std) {
            float *action = (float *)actions + (size_t)b * n;
            for (int i = 0; i < n; i++) action[i] = out[i] + expf(plan->log_std[i]) * noise[i];
            log_probs[b] = (float)log_density(out, plan->log_std, action, n);
        } else { /* as torch draws: the smallest of exponential waiting times */
            log_softmax(out, n);
            int best = 0;
            for (int i = 1; i < n; i++)
                if (expf(out[i]) / noise[i] > expf(out[best]) / noise[best]) best = i;
            ((int64_t *)actions)[b] = best;
            log_probs[b] = out[best];
        }
    }
}

static int ppo_act(const PpoPlan *plan, int batch, const float *obs, const float *noise, void *actions, float *values,
                   float *log_probs) {
    char *memory = malloc(ppo_bytes(plan, batch));
    if (!memory) return SPAN_NO_MEMORY;
    PpoScratch s = make_ppo_scratch(plan, batch, memory);
    int status = network_forward(&plan->pi, obs, batch, s.out, s.pi_kept, s.arena);
    if (status == SPAN_DONE) status = network_forward(&plan->vf, obs, batch, values, s.vf_kept, s.arena);
    if (status == SPAN_DONE && !(are_all_finite(s.out, (size_t)batch * plan->pi.outputs) && are_all_finite(values, batch)))
        status = SPAN_NOT_FINITE;
    if (status == SPAN_DONE) ppo_draw(plan, batch, s.out, noise, actions, log_probs);
    free(memory);
    return status;
}
