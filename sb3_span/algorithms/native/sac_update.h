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
    const float lowest = (float)plan->log_std_min, highest = (float)plan->log_std_max;
    const size_t count = (size_t)batch * n_actions, padded_count = span_round_up(count, LANES);
    for (int b = 0, at = 0; b < batch; b++) {
        const float *mean = out + (size_t)b * 2 * n_actions, *unbounded = mean + n_actions;
        for (int i = 0; i < n_actions; i++, at++) {
            float log_std = unbounded[i] < lowest ? lowest : unbounded[i] > highest ? highest : unbounded[i];
            a->moves[at] = log_std == unbounded[i]; /* where it is clipped it does not learn */
            a->mean[at] = mean[i], a->log_std[at] = log_std, a->noise[at] = noise[at];
        }
    }
    for (size_t at = count; at < padded_count; at++) a->mean[at] = a->log_std[at] = a->noise[at] = 0.0f;
    for (size_t at = 0; at < padded_count; at += LANES) {
        Vec log_std = load(a->log_std + at), drawn = load(a->noise + at), deviation = exp_of(log_std) * drawn;
        Vec action = span_tanh(load(a->mean + at) + deviation), slope = 1.0f - action * action, bounded = slope + (float)plan->epsilon;
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

static void join(float *to, const float *obs, const float *actions, int batch, int n_obs, int n_actions) {
    for (int b = 0; b < batch; b++) {
        memcpy(to, obs + (size_t)b * n_obs, n_obs * sizeof(float));
        memcpy(to + n_obs, actions + (size_t)b * n_actions, n_actions * sizeof(float));
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
        memcpy(actions, drawn.action, (size_t)batch * n_actions * sizeof(float));
    }
    free(memory);
    return status;
}

static int sac_update(const SacPlan *plan, const SacBatch *data, SacLosses *losses) {
    const Networks *actor = &plan->actor, *critics = &plan->critics, *targets = &plan->targets;
    const int batch = data->size, stack = critics->span.stack, n_actions = actor->outputs / 2;
    const int n_obs = actor->span.inputs, n_inputs = n_obs + n_actions;
    const size_t rows = batch, most_kept = largest(kept_floats(critics, batch), kept_floats(targets, batch));
    char *memory = malloc(2 * piece(rows * 2 * n_actions) + piece(kept_floats(actor, batch)) + piece(most_kept) +
                          2 * actions_bytes(batch, n_actions) + 2 * piece(rows * n_inputs) + 2 * piece(stack * rows) + piece(rows) +
                          largest(network_scratch(actor, batch), network_scratch(critics, batch)) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    float *out = take(&arena, rows * 2 * n_actions), *grad_out = take(&arena, rows * 2 * n_actions);
    float *actor_kept = take(&arena, kept_floats(actor, batch)), *kept = take(&arena, most_kept);
    Actions now = make_actions(batch, n_actions, &arena), after = make_actions(batch, n_actions, &arena);
    float *x = take(&arena, rows * n_inputs), *grad_x = take(&arena, rows * n_inputs);
    float *q = take(&arena, stack * rows), *grad_q = take(&arena, stack * rows), *goal = take(&arena, rows);

    /* Until all networks have been asked nothing is changed. */
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
    for (int b = 0; b < batch; b++) {
        float lowest = q[b];
        for (int c = 1; c < stack; c++) lowest = q[c * rows + b] < lowest || q[c * rows + b] != q[c * rows + b] ? q[c * rows + b] : lowest;
        float discount = data->discounts ? data->discounts[b] : (float)data->gamma;
        goal[b] = data->rewards[b] + (1.0f - data->dones[b]) * discount * (lowest - (float)ent_coef * after.log_prob[b]);
    }
    join(x, data->obs, data->actions, batch, n_obs, n_actions);
    status = network_forward(critics, x, batch, q, kept, arena);
    if (status != SPAN_DONE) goto end;

    double mean_log_prob = mean_of(now.log_prob, batch), squares = 0.0;
    if (is_learned) {
        double excess = mean_log_prob + plan->target_entropy;
        losses->ent_coef_loss = -*plan->log_ent_coef.value * excess;
        *plan->log_ent_coef.grad = (float)-excess;
        adam_step(&plan->log_ent_coef, 1, &plan->ent_adam);
    }
    for (int c = 0; c < stack; c++)
        for (int b = 0; b < batch; b++) {
            float error = q[c * rows + b] - goal[b];
            squares += (double)error * error;
            grad_q[c * rows + b] = error / (float)batch;
        }
    status = network_backward(critics, x, batch, kept, grad_q, NULL, arena);
    if (status != SPAN_DONE) goto end;
    adam_step(critics->parameters, critics->count, &plan->critic_adam);

    /* What is not finite from here on came with the data, and spreads as it would in torch. */
    join(x, data->obs, now.action, batch, n_obs, n_actions);
    status = network_forward(critics, x, batch, q, kept, arena);
    if (status == SPAN_NO_MEMORY) goto end;
    double sum_q = 0.0;
    memset(grad_q, 0, stack * rows * sizeof(float));
    for (int b = 0; b < batch; b++) {
        int which = 0;
        for (int c = 1; c < stack; c++)
            if (q[c * rows + b] < q[which * rows + b]) which = c;
        sum_q += q[which * rows + b];
        grad_q[which * rows + b] = -1.0f / (float)batch;
    }
    if (status == SPAN_DONE) status = network_backward(critics, x, batch, kept, grad_q, grad_x, arena);
    if (status == SPAN_NO_MEMORY) goto end;
    if (status != SPAN_DONE) {
        sum_q = NAN;
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
    losses->critic_loss = 0.5 * squares / batch;
    losses->actor_loss = ent_coef * mean_log_prob - sum_q / batch;
end:
    free(memory);
    return status;
}
