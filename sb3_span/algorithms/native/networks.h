/* Stacks of small networks for one width of vectors: MLPs here, SPAN by the kernel in sb3_span/nn/native, which is included before. */

/* ---------------------------------------------------------------- an MLP, layer by layer, rows padded to whole vectors */

static void copy_padded(float *restrict to, const float *restrict from, size_t rows, size_t width, size_t padded) {
    for (size_t r = 0; r < rows; r++) { /* rows are short: a call of memcpy for each would cost more */
        for (size_t i = 0; i < width; i++) to[r * padded + i] = from[r * width + i];
        for (size_t i = width; i < padded; i++) to[r * padded + i] = 0.0f;
    }
}

/* into += grad^T x, the gradient of a linear layer's weights. grad: (B, width), of which `rows` columns count; x: (B, inputs) and
 * into: (rows, inputs), inputs whole vectors. Four samples at a time, so that a row of sums is loaded and stored once for the four. */
static void add_outer(const float *grad, int width, int rows, const float *x, int inputs, int batch, float *into) {
    int b = 0;
    for (; b + 4 <= batch; b += 4) {
        const float *g = grad + (size_t)b * width, *row = x + (size_t)b * inputs;
        for (int k = 0; k < rows; k++) {
            float g0 = g[k], g1 = g[width + k], g2 = g[2 * width + k], g3 = g[3 * width + k];
            float *sums = into + (size_t)k * inputs;
            for (int i = 0; i < inputs; i += LANES)
                store(sums + i, load(sums + i) + g0 * load(row + i) + g1 * load(row + inputs + i) +
                                    g2 * load(row + 2 * inputs + i) + g3 * load(row + 3 * inputs + i));
        }
    }
    for (; b < batch; b++)
        for (int k = 0; k < rows; k++) {
            float *sums = into + (size_t)k * inputs;
            for (int i = 0; i < inputs; i += LANES)
                store(sums + i, load(sums + i) + grad[(size_t)b * width + k] * load(x + (size_t)b * inputs + i));
        }
}

/* into += the sum of grad's rows, the gradient of the layer's bias: whole vectors. */
static void add_rows(const float *grad, int width, int batch, float *into) {
    for (int b = 0; b < batch; b++)
        for (int k = 0; k < width; k += LANES) store(into + k, load(into + k) + load(grad + (size_t)b * width + k));
}

/* into += grad w, the gradient of the layer's inputs. w: (rows, inputs), into: (B, inputs). Four samples at a time. */
static void add_product(const float *grad, int width, int rows, const float *w, int inputs, int batch, float *into) {
    int b = 0;
    for (; b + 4 <= batch; b += 4) {
        const float *g = grad + (size_t)b * width;
        float *to = into + (size_t)b * inputs;
        for (int i = 0; i < inputs; i += LANES) {
            Vec a0 = load(to + i), a1 = load(to + inputs + i), a2 = load(to + 2 * inputs + i), a3 = load(to + 3 * inputs + i);
            for (int k = 0; k < rows; k++) {
                Vec row = load(w + (size_t)k * inputs + i);
                a0 += g[k] * row, a1 += g[width + k] * row, a2 += g[2 * width + k] * row, a3 += g[3 * width + k] * row;
            }
            store(to + i, a0), store(to + inputs + i, a1), store(to + 2 * inputs + i, a2), store(to + 3 * inputs + i, a3);
        }
    }
    for (; b < batch; b++)
        for (int k = 0; k < rows; k++) {
            float *to = into + (size_t)b * inputs;
            for (int i = 0; i < inputs; i += LANES)
                store(to + i, load(to + i) + grad[(size_t)b * width + k] * load(w + (size_t)k * inputs + i));
        }
}

static void copy_unpadded(float *to, const float *from, size_t rows, size_t width, size_t padded) {
    for (size_t r = 0; r < rows; r++) memcpy(to + r * width, from + r * padded, width * sizeof(float));
}

INLINE int padded(int n) { return (int)span_round_up(n, LANES); }

/* out = x w + b. x: (B, stride), of which `inputs` columns count; w: (width / LANES, inputs, LANES), b: (width), out: (B, width). */
static void linear(const float *x, int stride, int inputs, const float *w, const float *b, int width, int batch, float *out) {
    for (int k = 0; k < width; k += LANES, w += (size_t)inputs * LANES) {
        const Vec bias = load(b + k);
        int s = 0;
        for (; s + 4 <= batch; s += 4) {
            const float *x0 = x + (size_t)s * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
            float *row = out + (size_t)s * width + k;
            Vec a0 = bias, a1 = bias, a2 = bias, a3 = bias;
            for (int i = 0; i < inputs; i++) {
                Vec weights = load(w + i * LANES);
                a0 += x0[i] * weights, a1 += x1[i] * weights, a2 += x2[i] * weights, a3 += x3[i] * weights;
            }
            store(row, a0), store(row + width, a1), store(row + 2 * width, a2), store(row + 3 * width, a3);
        }
        for (; s < batch; s++) {
            Vec a = bias;
            for (int i = 0; i < inputs; i++) a += x[(size_t)s * stride + i] * load(w + i * LANES);
            store(out + (size_t)s * width + k, a);
        }
    }
}

static void activate(float *values, size_t count, int tanh) {
    for (size_t i = 0; i < count; i += LANES) {
        Vec v = load(values + i);
        store(values + i, tanh ? span_tanh(v) : choose(v <= 0.0f, fill(0.0f), v));
    }
}

/* From the gradient of the activated values to that of the values before. */
static void deactivate(float *grad, const float *values, size_t count, int tanh) {
    for (size_t i = 0; i < count; i += LANES) {
        Vec v = load(values + i), g = load(grad + i);
        store(grad + i, tanh ? g * (1.0f - v * v) : choose(v > 0.0f, g, fill(0.0f)));
    }
}

/* One layer's parameters: those of network c, of both heads if it is an actor's last. */
static const Trained *layer_of(const Networks *n, int c, int layer, int head) {
    return n->parameters + 2 * ((size_t)c * n->layers + layer + head);
}

static int heads_of(const Networks *n, int layer) { return layer == n->layers - 1 ? n->heads : 1; }

/* Weights transposed to (width / LANES, inputs, LANES), in which nothing is far from what is read next, and bias, padded with zeros. */
static void load_layer(const Networks *n, int c, int layer, float *w, float *b) {
    int inputs = n->sizes[layer], outputs = n->sizes[layer + 1], width = padded(outputs), heads = heads_of(n, layer);
    int rows = outputs / heads;
    if (outputs < width) memset(w + (size_t)(width - LANES) * inputs, 0, (size_t)inputs * LANES * sizeof(float));
    memset(b, 0, width * sizeof(float));
    for (int h = 0; h < heads; h++) {
        const Trained *p = layer_of(n, c, layer, h);
        for (int k = 0, count; k < rows; k += count) {
            const int lane = (h * rows + k) % LANES;
            count = rows - k < LANES - lane ? rows - k : LANES - lane;
            transpose(p[0].value + (size_t)k * inputs, inputs, count, inputs, w + (size_t)(h * rows + k - lane) * inputs + lane, LANES);
        }
        memcpy(b + h * rows, p[1].value, rows * sizeof(float));
    }
}

/* The floats of a network's values: those of all layers one after the other, (B, padded width) each. */
static size_t values_floats(const Networks *n, int batch) {
    size_t sum = 0;
    for (int l = 1; l <= n->layers; l++) sum += (size_t)batch * padded(n->sizes[l]);
    return sum;
}

static size_t largest(size_t a, size_t b) { return a > b ? a : b; }

/* The widest layer, inputs and outputs among them, and the weights of the largest. */
static size_t widest(const Networks *n) {
    size_t most = 0;
    for (int l = 0; l <= n->layers; l++) most = largest(most, padded(n->sizes[l]));
    return most;
}

static size_t most_weights(const Networks *n) {
    size_t most = 0;
    for (int l = 0; l < n->layers; l++) most = largest(most, (size_t)padded(n->sizes[l]) * padded(n->sizes[l + 1]));
    return most;
}

static void mlp_forward(const Networks *n, int c, const float *x, int batch, float *values, float *out, Arena arena) {
    float *w = take(&arena, most_weights(n)), *b = take(&arena, widest(n));
    const float *from = x;
    int stride = n->sizes[0];
    for (int l = 0; l < n->layers; l++) {
        int width = padded(n->sizes[l + 1]);
        load_layer(n, c, l, w, b);
        linear(from, stride, n->sizes[l], w, b, width, batch, values);
        if (l + 1 < n->layers) activate(values, (size_t)batch * width, n->tanh);
        from = values, stride = width;
        values += (size_t)batch * width;
    }
    copy_unpadded(out, from, batch, n->outputs, stride);
}

static void mlp_backward(const Networks *n, int c, const float *x, int batch, const float *values, const float *grad_out,
                         int for_parameters, float *grad_x, Arena arena) {
    size_t most = widest(n);
    int inputs = padded(n->sizes[0]);
    float *w = take(&arena, most_weights(n)), *b = take(&arena, most);
    float *grad = take(&arena, batch * most), *next = take(&arena, batch * most);
    float *x_padded = take(&arena, (size_t)batch * inputs);
    copy_padded(x_padded, x, batch, n->sizes[0], inputs);
    copy_padded(grad, grad_out, batch, n->outputs, padded(n->outputs));
    const float *at = values + values_floats(n, batch);
    for (int l = n->layers - 1; l >= 0; l--) {
        int outputs = n->sizes[l + 1], width = padded(outputs), from_width = padded(n->sizes[l]), heads = heads_of(n, l);
        int rows = outputs / heads;
        at -= (size_t)batch * width;
        if (l + 1 < n->layers) deactivate(grad, at, (size_t)batch * width, n->tanh);
        const float *from = l > 0 ? at - (size_t)batch * from_width : x_padded;
        if (for_parameters) {
            memset(w, 0, (size_t)outputs * from_width * sizeof(float));
            memset(b, 0, width * sizeof(float));
            add_outer(grad, width, outputs, from, from_width, batch, w);
            add_rows(grad, width, batch, b);
            for (int h = 0; h < heads; h++) {
                const Trained *p = layer_of(n, c, l, h);
                copy_unpadded(p[0].grad, w + (size_t)h * rows * from_width, rows, n->sizes[l], from_width);
                memcpy(p[1].grad, b + h * rows, rows * sizeof(float));
            }
        }
        if (l == 0 && !grad_x) break;
        for (int h = 0; h < heads; h++)
            copy_padded(w + (size_t)h * rows * from_width, layer_of(n, c, l, h)[0].value, rows, n->sizes[l], from_width);
        memset(next, 0, (size_t)batch * from_width * sizeof(float));
        add_product(grad, width, outputs, w, from_width, batch, next);
        float *spare = grad;
        grad = next, next = spare;
    }
    if (grad_x) /* the sum over the networks of a stack */
        for (int s = 0; s < batch; s++)
            for (int i = 0; i < n->sizes[0]; i++) grad_x[(size_t)s * n->sizes[0] + i] += grad[(size_t)s * inputs + i];
}

/* ---------------------------------------------------------------- a stack of networks of either kind */

static size_t mlp_bytes(const Networks *n, int batch) {
    size_t most = widest(n), rows = batch;
    return piece(most_weights(n)) + piece(most) + 2 * piece(rows * most) + piece(rows * padded(n->sizes[0]));
}

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
