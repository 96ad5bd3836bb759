/* SAC's update for one width of vectors. Comes after adam.h. */

/* ---------------------------------------------------------------- actions of the squashed Gaussian */

typedef struct { /* (B, A) each, whole vectors, but log_prob, which is (B) */
    float *mean, *log_std, *noise, *action, *deviation, *slope, *bounded, *moves, *density, *log_prob;
} Actions;

static size_t actions_bytes(size_t batch, size_t n_actions) { return 9 * piece(batch * n_actions) + piece(batch); }

static Actions make_actions(size_t batch, size_t n_actions, Arena *arena) {
    Actions a = {.log_prob = take(arena, batch)};
    float **parts[] = {&a.mean, &a.log_std, &a.noise, &a.action, &a.deviation, &a.slope, &a.bounded, &a.moves, &a.density};
    for (int i = 0; i < 9; i++) *parts[i] = take(arena, batch * n_actions);
    return a;
}

/* out: (B, 2A), mean and unbounded log-std side by side. The Gaussian's density is that of the noise, which is given: SB3 finds the
 * noise again from the action, and loses digits where the mean is large. */
static void draw(const SacPlan *plan, const float *out, const float *noise, int batch, int n_actions, Actions *a) {
    const Vec lowest = fill((float)plan->log_std_min), highest = fill((float)plan->log_std_max);
    const size_t count = (size_t)batch * n_actions, padded_count = span_round_up(count, LANES);
    for (int b = 0, at = 0; b < batch; b++, out += 2 * n_actions)
        for (int i = 0; i < n_actions; i++, at++) a->mean[at] = out[i], a->log_std[at] = out[n_actions + i];
    memcpy(a->noise, noise, count * sizeof(float));
    for (size_t at = count; at < padded_count; at++) a->mean[at] = a->log_std[at] = a->noise[at] = 0.0f;
    for (size_t at = 0; at < padded_count; at += LANES) {
        Vec unbounded = load(a->log_std + at), log_std = span_at_most(highest, span_at_least(lowest, unbounded));
        Vec drawn = load(a->noise + at), deviation = exp_of(log_std) * drawn;
        Vec action = span_tanh(load(a->mean + at) + deviation), slope = 1.0f - action * action, bounded = slope + (float)plan->epsilon;
        store(a->moves + at, choose(log_std == unbounded, fill(1.0f), fill(0.0f))); /* where it is clipped it does not learn */
        store(a->deviation + at, deviation), store(a->action + at, action);
        store(a->slope + at, slope), store(a->bounded + at, bounded);
        store(a->density + at, -0.5f * drawn * drawn - log_std - HALF_LOG_2PI - log_of(bounded));
    }
    for (int b = 0, at = 0; b < batch; b++) {
        a->log_prob[b] = 0.0f;
        for (int i = 0; i < n_actions; i++, at++) a->log_prob[b] += a->density[at];
    }
}

/* The gradient of `out` from those of the actions and, one for all, of the logarithms of their densities. Noise is given: the Gaussian's
 * density moves with the standard deviation only, and tanh's with what goes into it. grad_action: rows of `stride`. */
static void draw_backward(const Actions *a, const float *grad_action, int stride, float grad_log_prob, int batch, int n_actions,
                          float *grad_out) {
    for (int b = 0, at = 0; b < batch; b++) {
        float *grad_mean = grad_out + (size_t)b * 2 * n_actions, *grad_log_std = grad_mean + n_actions;
        for (int i = 0; i < n_actions; i++, at++) {
            float by_density = 2.0f * grad_log_prob * a->action[at] / a->bounded[at];
            grad_mean[i] = (grad_action[(size_t)b * stride + i] + by_density) * a->slope[at];
            grad_log_std[i] = (grad_mean[i] * a->deviation[at] - grad_log_prob) * a->moves[at];
        }
    }
}

/* ---------------------------------------------------------------- the update */

/* A few numbers: a call of memcpy would cost more. */
INLINE void copy(float *restrict to, const float *restrict from, int count) {
    for (int i = 0; i < count; i++) to[i] = from[i];
}

static void join(float *to, const float *obs, const float *actions, int batch, int n_obs, int n_actions) {
    for (int b = 0; b < batch; b++) {
        copy(to, obs + (size_t)b * n_obs, n_obs);
        copy(to + n_obs, actions + (size_t)b * n_actions, n_actions);
        to += n_obs + n_actions;
    }
}

static int sac_act(const SacPlan *plan, int batch, const float *obs, const float *noise, float *actions) {
    const Networks *actor = &plan->actor;
    int n_actions = actor->outputs / 2;
    size_t floats = (size_t)batch * actor->outputs, kept_count = actor->layers ? kept_floats(actor, batch) : 0;
    char *memory = malloc(piece(floats) + piece(kept_count) + actions_bytes(batch, n_actions) + network_scratch(actor, batch) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    float *out = take(&arena, floats), *kept = kept_count ? take(&arena, kept_count) : NULL;
    Actions drawn = make_actions(batch, n_actions, &arena);
    int status = network_forward(actor, obs, batch, out, kept, arena);
    if (status == SPAN_DONE) {
        draw(plan, out, noise, batch, n_actions, &drawn);
        for (int i = 0; i < batch * n_actions; i++) {
            actions[i] = drawn.action[i];
            if (!isfinite(actions[i])) status = SPAN_NOT_FINITE;
        }
    }
    free(memory);
    return status;
}

typedef struct { /* what the critics learn */
    const float *goal; /* (B) */
    int batch;
    double squares; /* of their errors, summed up */
} Errors;

/* A Loss: half of the mean of the squared errors. */
static void squared_errors(void *context, int c, size_t first, size_t count, const float *q, float *grad) {
    Errors *e = context;
    (void)c;
    for (size_t b = 0; b < count; b++) {
        float error = q[b] - e->goal[first + b];
        e->squares += (double)error * error;
        grad[b] = error / (float)e->batch;
    }
}

/* A Loss: minus the mean over the whole batch. */
static void minus_mean(void *batch, int c, size_t first, size_t count, const float *q, float *grad) {
    (void)c, (void)first, (void)q;
    for (size_t b = 0; b < count; b++) grad[b] = -1.0f / (float)*(int *)batch;
}

/* Of q, (C, B), the lowest for each sample, which is a NaN where one of them is, and which of the critics has it. */
static void find_lowest(const float *q, int stack, int batch, float *restrict lowest, int *restrict which) {
    for (int b = 0; b < batch; b++) lowest[b] = q[b], which[b] = 0;
    for (int c = 1; c < stack; c++) {
        const float *own = q + (size_t)c * batch;
        for (int b = 0; b < batch; b++) {
            int is_lower = (own[b] < lowest[b]) | (own[b] != own[b]);
            lowest[b] = is_lower ? own[b] : lowest[b], which[b] = is_lower ? c : which[b];
        }
    }
}

/* The gradient by the actions, the last inputs, of minus the mean of the critics' lowest values. Each critic is asked only about the
 * samples for which it has the lowest: rows, own_x and own_grad are memory for these. */
static int through_lowest(const Networks *critics, const float *x, const int *which, int batch, int n_obs, int *rows, float *own_x,
                          float *own_grad, float *grad_x, Arena arena) {
    const int stack = critics->span.stack, inputs = critics->span.inputs;
    int status = SPAN_DONE;
    for (int c = 0; c < stack && status == SPAN_DONE; c++) {
        int count = 0;
        for (int b = 0; b < batch; b++) {
            rows[count] = b;
            count += which[b] == c;
        }
        if (!count) continue;
        for (int i = 0; i < count; i++) copy(own_x + (size_t)i * inputs, x + (size_t)rows[i] * inputs, inputs);
        Trained own[MOST_PARAMETERS];
        Networks one = one_of(critics, c, own);
        status = network_learn(&one, own_x, count, minus_mean, &batch, own_grad, n_obs, arena);
        for (int i = 0; i < count; i++)
            copy(grad_x + (size_t)rows[i] * inputs + n_obs, own_grad + (size_t)i * inputs + n_obs, inputs - n_obs);
    }
    return status;
}

static int sac_update(const SacPlan *plan, const SacBatch *data, SacLosses *losses) {
    const Networks *actor = &plan->actor, *critics = &plan->critics, *targets = &plan->targets;
    const int batch = data->size, stack = critics->span.stack, n_actions = actor->outputs / 2;
    const int n_obs = actor->span.inputs, n_inputs = n_obs + n_actions;
    const size_t rows = batch, most_kept = critics->layers ? kept_floats(critics, batch) : 0; /* SPAN need not keep anything */
    char *memory = malloc(2 * piece(rows * 2 * n_actions) + piece(kept_floats(actor, batch)) + piece(most_kept) +
                          2 * actions_bytes(batch, n_actions) + 4 * piece(rows * n_inputs) + piece(stack * rows) + 4 * piece(rows) +
                          largest(network_scratch(actor, batch), learning_scratch(critics, batch)) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    float *out = take(&arena, rows * 2 * n_actions), *grad_out = take(&arena, rows * 2 * n_actions);
    float *actor_kept = take(&arena, kept_floats(actor, batch)), *kept = most_kept ? take(&arena, most_kept) : NULL;
    Actions now = make_actions(batch, n_actions, &arena), after = make_actions(batch, n_actions, &arena);
    float *x = take(&arena, rows * n_inputs), *grad_x = take(&arena, rows * n_inputs);
    float *own_x = take(&arena, rows * n_inputs), *own_grad = take(&arena, rows * n_inputs);
    float *q = take(&arena, stack * rows), *goal = take(&arena, rows), *lowest = take(&arena, rows);
    int *which = take(&arena, rows), *own_rows = take(&arena, rows);

    /* Until all networks have been asked nothing is changed but gradients. */
    int status = network_forward(actor, data->next_obs, batch, out, actor_kept, arena);
    if (status != SPAN_DONE) goto end;
    draw(plan, out, data->next_noise, batch, n_actions, &after);
    status = network_forward(actor, data->obs, batch, out, actor_kept, arena);
    if (status != SPAN_DONE) goto end;
    draw(plan, out, data->noise, batch, n_actions, &now);
    join(x, data->next_obs, after.action, batch, n_obs, n_actions);
    status = network_forward(targets, x, batch, q, kept, arena);
    if (status != SPAN_DONE) goto end;

    const int is_learned = plan->log_ent_coef.value != NULL;
    const double ent_coef = is_learned ? exp(*plan->log_ent_coef.value) : plan->ent_coef;
    find_lowest(q, stack, batch, lowest, which);
    for (int b = 0; b < batch; b++) {
        float discount = data->discounts ? data->discounts[b] : (float)data->gamma;
        goal[b] = data->rewards[b] + (1.0f - data->dones[b]) * discount * (lowest[b] - (float)ent_coef * after.log_prob[b]);
    }
    Errors errors = {.goal = goal, .batch = batch};
    join(x, data->obs, data->actions, batch, n_obs, n_actions);
    status = network_learn(critics, x, batch, squared_errors, &errors, NULL, 0, arena);
    if (status != SPAN_DONE) goto end;

    double mean_log_prob = mean_of(now.log_prob, batch);
    if (is_learned) {
        double excess = mean_log_prob + plan->target_entropy;
        losses->ent_coef_loss = -*plan->log_ent_coef.value * excess;
        *plan->log_ent_coef.grad = (float)-excess;
        adam_step(&plan->log_ent_coef, 1, &plan->ent_adam);
    }
    adam_step(critics->parameters, critics->count, &plan->critic_adam);

    /* What is not finite from here on came with the data, and spreads as it would in torch. */
    join(x, data->obs, now.action, batch, n_obs, n_actions);
    status = network_forward(critics, x, batch, q, kept, arena);
    if (status == SPAN_NO_MEMORY) goto end;
    find_lowest(q, stack, batch, lowest, which);
    double mean_q = mean_of(lowest, batch);
    if (status == SPAN_DONE)
        status = through_lowest(critics, x, which, batch, n_obs, own_rows, own_x, own_grad, grad_x, arena);
    if (status == SPAN_NO_MEMORY) goto end;
    if (status != SPAN_DONE) {
        mean_q = NAN;
        for (size_t i = 0; i < rows * n_inputs; i++) grad_x[i] = NAN;
    }
    draw_backward(&now, grad_x + n_obs, n_inputs, (float)(ent_coef / batch), batch, n_actions, grad_out);
    status = network_backward(actor, data->obs, batch, actor_kept, grad_out, NULL, arena);
    if (status != SPAN_DONE) goto end;
    adam_step(actor->parameters, actor->count, &plan->actor_adam);

    if (data->moves_targets)
        for (int i = 0; i < targets->count; i++) {
            float *to = targets->parameters[i].value, tau = (float)plan->tau;
            const float *from = critics->parameters[i].value;
            for (size_t k = 0; k < targets->parameters[i].size; k++) to[k] = (1.0f - tau) * to[k] + tau * from[k];
        }
    losses->ent_coef = ent_coef;
    losses->critic_loss = 0.5 * errors.squares / batch;
    losses->actor_loss = ent_coef * mean_log_prob - mean_q;
end:
    free(memory);
    return status;
}
