/* Stacks of small networks for one width of vectors: MLPs by mlp.h, SPAN by the kernel of sb3_span/nn/native. Comes after both. */

/* Floats that a forward pass keeps for the backward pass. */
static size_t kept_floats(const Networks *n, int batch) {
    if (n->layers) return n->span.stack * values_floats(n, batch);
    return (size_t)n->span.stack * 2 * n->span.latent * padded(batch);
}

/* Two heads side by side, as one, and their gradients. */
static size_t joined_floats(const Networks *n) { return (size_t)n->outputs * (span_all_modes(&n->span) + 1); }

/* Bytes of scratch memory that a pass over the network takes from the arena. */
static size_t network_scratch(const Networks *n, int batch) {
    return n->layers ? mlp_bytes(n, batch) : 2 * piece(joined_floats(n));
}

static SpanInputs span_inputs(const Networks *n, const float *x, float *joined) {
    int bumps = n->span.degree == SPAN_BUMPS;
    const Trained *p = n->parameters, *coef = p + 2 + bumps, *head = coef + 1;
    SpanInputs in = {x, p[0].value, p[1].value, bumps ? p[2].value : NULL, coef->value, head[0].value, head[1].value};
    if (n->heads == 2) {
        size_t half = head[0].size, outputs = head[1].size;
        memcpy(joined, head[0].value, half * sizeof(float)), memcpy(joined + half, head[2].value, half * sizeof(float));
        float *bias = joined + 2 * half;
        memcpy(bias, head[1].value, outputs * sizeof(float)), memcpy(bias + outputs, head[3].value, outputs * sizeof(float));
        in.head_w = joined, in.head_b = bias;
    }
    return in;
}

/* out: (C, B, O). kept: as kept_floats says. */
static int network_forward(const Networks *n, const float *x, int batch, float *out, float *kept, Arena arena) {
    if (n->layers) {
        size_t each = values_floats(n, batch);
        for (int c = 0; c < n->span.stack; c++)
            mlp_forward(n, c, x, batch, kept + c * each, out + (size_t)c * batch * n->outputs, arena);
        return SPAN_DONE;
    }
    SpanShape shape = n->span;
    shape.batch = batch;
    SpanInputs in = span_inputs(n, x, take(&arena, joined_floats(n)));
    return forward(&shape, &in, out, kept);
}

static int network_outputs(const Networks *n, int batch, const float *x, float *out) {
    size_t kept_count = n->layers ? kept_floats(n, batch) : 0; /* SPAN keeps nothing when nobody asks for it */
    char *memory = malloc(piece(kept_count) + network_scratch(n, batch) + 64);
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    float *kept = kept_count ? take(&arena, kept_count) : NULL;
    int status = network_forward(n, x, batch, out, kept, arena);
    free(memory);
    return status;
}

/* Backward through SPAN: by z and the gradient of the outputs, or by a loss. Gradients as network_backward has them. */
static int span_backward(const Networks *n, const float *x, int batch, const float *kept, const float *grad_out, Loss loss,
                         void *context, float *grad_x, int first, Arena arena) {
    SpanShape shape = n->span;
    shape.batch = batch;
    SpanInputs in = span_inputs(n, x, take(&arena, joined_floats(n)));
    SpanGradients grads = {.x = grad_x, .x_first = first};
    int bumps = n->span.degree == SPAN_BUMPS;
    const Trained *p = n->parameters, *coef = p + 2 + bumps, *head = coef + 1;
    float *joined = take(&arena, joined_floats(n));
    if (!grad_x) {
        grads.w_pre = p[0].grad, grads.b_pre = p[1].grad, grads.scale = bumps ? p[2].grad : NULL, grads.coef = coef->grad;
        grads.head_w = n->heads == 2 ? joined : head[0].grad;
        grads.head_b = n->heads == 2 ? joined + 2 * head[0].size : head[1].grad;
    }
    int status = backward_through(&shape, &in, kept, grad_out, loss, context, &grads);
    if (!grad_x && n->heads == 2)
        for (int h = 0; h < 2; h++) {
            memcpy(head[2 * h].grad, grads.head_w + h * head[0].size, head[0].size * sizeof(float));
            memcpy(head[2 * h + 1].grad, grads.head_b + h * head[1].size, head[1].size * sizeof(float));
        }
    return status;
}

/* Gradients of the parameters into their places, or that of x, (B, I), where it is not NULL. */
static int network_backward(const Networks *n, const float *x, int batch, const float *kept, const float *grad_out,
                            float *grad_x, Arena arena) {
    if (!n->layers) return span_backward(n, x, batch, kept, grad_out, NULL, NULL, grad_x, 0, arena);
    size_t each = values_floats(n, batch);
    if (grad_x) memset(grad_x, 0, (size_t)batch * n->sizes[0] * sizeof(float));
    for (int c = 0; c < n->span.stack; c++)
        mlp_backward(n, c, x, batch, kept + c * each, grad_out + (size_t)c * batch * n->outputs, !grad_x, grad_x, arena);
    return SPAN_DONE;
}

/* Bytes of scratch memory for network_learn. */
static size_t learning_scratch(const Networks *n, int batch) {
    const size_t outs = (size_t)batch * n->span.stack;
    return network_scratch(n, batch) + (n->layers ? piece(kept_floats(n, batch)) + 2 * piece(outs) : 0);
}

/* Forward and backward for networks of one output: from a loss gradients of the parameters, or of x those from input `first` on. */
static int network_learn(const Networks *n, const float *x, int batch, Loss loss, void *context, float *grad_x, int first, Arena arena) {
    if (!n->layers) return span_backward(n, x, batch, NULL, NULL, loss, context, grad_x, first, arena);
    const size_t outs = (size_t)batch * n->span.stack;
    float *kept = take(&arena, kept_floats(n, batch)), *out = take(&arena, outs), *grad_out = take(&arena, outs);
    network_forward(n, x, batch, out, kept, arena);
    for (int c = 0; c < n->span.stack; c++) loss(context, c, 0, batch, out + (size_t)c * batch, grad_out + (size_t)c * batch);
    return network_backward(n, x, batch, kept, grad_out, grad_x, arena);
}

enum { MOST_PARAMETERS = 2 * MAX_LAYERS }; /* of one network of a stack */

/* One network of a stack, for its values alone. Its parameters' places are written to `own`. */
static Networks one_of(const Networks *n, int c, Trained *own) {
    Networks one = *n;
    one.span.stack = 1, one.count = n->layers ? 2 * n->layers : n->count, one.parameters = own;
    for (int i = 0; i < one.count; i++) {
        own[i] = n->parameters[n->layers ? c * one.count + i : i];
        if (!n->layers) own[i].size /= n->span.stack, own[i].value += c * own[i].size;
    }
    return one;
}
