/* MLPs for one width of vectors, layer by layer, rows padded to whole vectors. Comes after the kernel of sb3_span/nn/native. */

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

static size_t mlp_bytes(const Networks *n, int batch) {
    size_t most = widest(n), rows = batch;
    return piece(most_weights(n)) + piece(most) + 2 * piece(rows * most) + piece(rows * padded(n->sizes[0]));
}
