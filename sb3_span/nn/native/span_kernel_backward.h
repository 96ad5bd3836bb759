/* The kernel for one width of vectors: the backward pass. Comes after span_kernel_forward.h. */

typedef struct { /* one network's gradients while they are summed over the batch, padded as its parameters are */
    float *w_pre;  /* (D, inputs_pad) */
    float *b_pre;  /* (latent_pad) */
    float *scale;  /* (latent_pad, LANES): over the modes they are summed up at the end */
    float *coef;   /* (D, N, modes_pad) */
    float *head_w; /* (O, modes_pad) */
    float *head_b; /* (O) */
    float *spoilt; /* (modes_pad): NaN for a mode with a gradient that is not finite, else 0 */
    size_t floats; /* of all of them, one block */
} Sums;

static size_t sums_bytes(const SpanShape *s) {
    size_t latent = span_round_up(s->latent, LANES), modes = span_round_up(s->modes, LANES);
    return piece(s->latent * span_round_up(s->inputs, LANES)) + piece(latent) + piece(latent * LANES) +
           piece((size_t)s->latent * s->basis * modes) + piece((size_t)s->outputs * modes) + piece(s->outputs) +
           piece(modes);
}

static Sums make_sums(const Network *n, Arena *arena) {
    Sums sums = {.w_pre = take(arena, (size_t)n->latent * n->inputs_pad)};
    sums.b_pre = take(arena, n->latent_pad);
    sums.scale = take(arena, (size_t)n->latent_pad * LANES);
    sums.coef = take(arena, (size_t)n->latent * n->basis * n->modes_pad);
    sums.head_w = take(arena, (size_t)n->outputs * n->modes_pad);
    sums.head_b = take(arena, n->outputs);
    sums.spoilt = take(arena, n->modes_pad);
    sums.floats = (size_t)((float *)arena->next - sums.w_pre);
    return sums;
}

/* The gradient of one sample's modes, from its outputs through the head. */
static void through_head(const Network *n, const float *grad_out, const float *modes, float *grad_modes, Sums *sums) {
    memset(grad_modes, 0, n->modes_pad * sizeof(float));
    for (int o = 0; o < n->outputs; o++) {
        sums->head_b[o] += grad_out[o];
        for (int m = 0; m < n->modes_pad; m += LANES) {
            size_t at = (size_t)o * n->modes_pad + m;
            store(grad_modes + m, load(grad_modes + m) + grad_out[o] * load(n->head_w + at));
            store(sums->head_w + at, load(sums->head_w + at) + grad_out[o] * load(modes + m));
        }
    }
}

/* From the gradient of one sample's bounded modes to that of the products. */
INLINE void through_bound(const float *modes, float *grad_modes, size_t modes_pad) {
    for (size_t m = 0; m < modes_pad; m += LANES) {
        Vec bounded = load(modes + m);
        store(grad_modes + m, load(grad_modes + m) * (1.0f - bounded * bounded));
    }
}

/* One sample's gradient of the factors of dimension k: what it means for z and for the scale, mode by mode, and where the
 * parameters learn it is added to their K rows of coefficients. */
INLINE void spread(const Taps *t, const float *rows, float *grads, size_t stride, int width, int k, const int taps,
                   const int pair, const int bumps, const int learns, Vec grad0, Vec grad1, Vec *by_z, Vec *by_scale) {
    for (int i = 0; i < taps; i++) {
        Vec weighted = load(rows + i * stride) * grad0;
        if (pair) weighted += load(rows + i * stride + LANES) * grad1;
        *by_z += t->by_z[i * width + k] * weighted;
        if (!learns) continue;
        float *into = grads + i * stride, value = t->value[i * width + k];
        store(into, load(into) + value * grad0);
        if (pair) store(into + LANES, load(into + LANES) + value * grad1);
        if (bumps) *by_scale += t->by_scale[i * width + k] * weighted;
    }
}

/* From the gradient of one sample's modes to those of the coefficients and the scales, and of z: (latent_pad, LANES), to be
 * summed up over the modes. */
INLINE void through_splines(const Network *n, const Taps *t, const float *modes, const float *factors, const float *before,
                            const float *grad_modes, float *grad_z, Sums *sums, int m, const int taps, const int pair,
                            const int bumps, const int learns) {
    const int width = n->latent_pad, stride = n->modes_pad;
    /* The gradient of the modes times the factors that were passed already. */
    Vec behind0 = load(grad_modes + m), behind1 = pair ? load(grad_modes + m + LANES) : behind0;
    Vec mode0 = load(modes + m), mode1 = pair ? load(modes + m + LANES) : mode0;
    Ints spoilt0 = (Ints)load(sums->spoilt + m), spoilt1 = pair ? (Ints)load(sums->spoilt + m + LANES) : spoilt0;
    spoilt0 |= mode0 != mode0, spoilt1 |= mode1 != mode1; /* a NaN: with one dimension no other factor's gradient has it */
    for (int k = n->latent - 1; k >= 0; k--) {
        const size_t at = (size_t)k * stride + m, row = row_of(n, t, k) + m;
        Vec grad0 = load(before + at) * behind0, grad1 = grad0;
        behind0 *= load(factors + at);
        if (pair) grad1 = load(before + at + LANES) * behind1, behind1 *= load(factors + at + LANES);
        spoilt0 |= not_finite(grad0);
        if (pair) spoilt1 |= not_finite(grad1);
        const float *rows = n->coef + row;
        float *grads = sums->coef + row, *to_z = grad_z + k * LANES, *to_scale = sums->scale + k * LANES;
        Vec by_z = m ? load(to_z) : fill(0.0f), by_scale = bumps && learns ? load(to_scale) : by_z;
        spread(t, rows, grads, stride, width, k, taps, pair, bumps, learns, grad0, grad1, &by_z, &by_scale);
        store(to_z, by_z);
        if (bumps && learns) store(to_scale, by_scale);
    }
    store(sums->spoilt + m, (Vec)spoilt0);
    if (pair) store(sums->spoilt + m + LANES, (Vec)spoilt1);
}

/* Whether a sample's outputs have no gradient, as those of the critic that is not the lower one. */
INLINE int is_zero(const float *grad_out, int count) {
    for (int i = 0; i < count; i++)
        if (grad_out[i] != 0.0f) return 0;
    return 1;
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

static void write_sums(const Network *n, const Sums *sums, const SpanGradients *grad, int c) {
    size_t latent = n->latent, rows = latent * n->basis, outputs = n->outputs;
    copy_unpadded(grad->w_pre + c * latent * n->inputs, sums->w_pre, latent, n->inputs, n->inputs_pad);
    memcpy(grad->b_pre + c * latent, sums->b_pre, latent * sizeof(float));
    if (n->degree == SPAN_BUMPS)
        for (size_t k = 0; k < latent; k++) grad->scale[c * latent + k] = sum_lanes(load(sums->scale + k * LANES));
    /* The zeros of the basis are never multiplied here. In torch they are, and 0 times NaN is NaN: all rows are spoilt. */
    float *coef = grad->coef + c * rows * n->modes;
    for (size_t r = 0; r < rows; r++)
        for (int j = 0; j < n->modes; j++) coef[r * n->modes + j] = sums->coef[r * n->modes_pad + j] + sums->spoilt[j];
    if (outputs) {
        copy_unpadded(grad->head_w + c * outputs * n->modes, sums->head_w, outputs, n->modes, n->modes_pad);
        memcpy(grad->head_b + c * outputs, sums->head_b, outputs * sizeof(float));
    }
}

static size_t scratch(const SpanShape *s) {
    size_t batch = s->batch, modes = span_round_up(s->modes, LANES);
    size_t latent = span_round_up(s->latent, LANES), inputs = span_round_up(s->inputs, LANES);
    return network_bytes(s) + taps_bytes(s) + sums_bytes(s) + 2 * piece(modes) + 2 * piece(s->latent * modes) +
           piece(latent * LANES) + piece(batch * latent) + 2 * piece(batch * inputs) + 64;
}

static int backward(const SpanShape *s, const SpanInputs *in, const float *z, const float *grad_out, const SpanGradients *grad) {
    size_t batch = s->batch, modes_pad = span_round_up(s->modes, LANES);
    size_t latent_pad = span_round_up(s->latent, LANES), inputs_pad = span_round_up(s->inputs, LANES);
    char *memory = malloc(scratch(s));
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    Network n = make_network(s, &arena);
    Taps found = make_taps(s, &arena, 1);
    Sums sums = make_sums(&n, &arena);
    float *modes = take(&arena, modes_pad), *grad_modes = take(&arena, modes_pad);
    float *factors = take(&arena, s->latent * modes_pad), *before = take(&arena, s->latent * modes_pad);
    float *by_mode = take(&arena, latent_pad * LANES), *grad_a = take(&arena, batch * latent_pad);
    float *x = take(&arena, batch * inputs_pad), *grad_x = take(&arena, batch * inputs_pad);

    if (grad->w_pre) copy_padded(x, in->x, batch, s->inputs, inputs_pad);
    if (grad->x) memset(grad_x, 0, batch * inputs_pad * sizeof(float));
    int status = SPAN_DONE;
    for (int c = 0; c < s->stack && status == SPAN_DONE; c++) {
        if (!load_network(&n, in, c, grad->x != NULL)) status = SPAN_NOT_FINITE;
        memset(grad_a, 0, batch * latent_pad * sizeof(float));
        memset(sums.w_pre, 0, sums.floats * sizeof(float));
        memset(by_mode, 0, latent_pad * LANES * sizeof(float));
        for (size_t b = 0; b < batch; b++, z += 2 * latent_pad) {
            const float *own = grad_out;
            grad_out += s->outputs ? s->outputs : s->modes;
            if (!grad->w_pre && is_zero(own, (int)(grad_out - own))) continue;
            find_taps(&n, z, &found, 1);
            FOR_MODES(&n, multiply(&n, &found, modes, factors, before, m, taps, pair, 1));
            if (s->bounded) bound_modes(modes, modes_pad);
            if (s->outputs)
                through_head(&n, own, modes, grad_modes, &sums);
            else
                copy_padded(grad_modes, own, 1, s->modes, modes_pad);
            if (s->bounded) through_bound(modes, grad_modes, modes_pad);
#define THROUGH(bumps, learns) \
    FOR_MODES(&n, through_splines(&n, &found, modes, factors, before, grad_modes, by_mode, &sums, m, taps, pair, bumps, learns))
            if (s->degree == SPAN_BUMPS && grad->w_pre)
                THROUGH(1, 1)
            else if (s->degree == SPAN_BUMPS)
                THROUGH(1, 0)
            else
                THROUGH(0, 1)
#undef THROUGH
            float *grad_z = grad_a + b * latent_pad;
            sum_rows(by_mode, n.latent_pad, grad_z);
            for (size_t k = 0; k < latent_pad; k += LANES) /* through the sigmoid */
                store(grad_z + k, load(grad_z + k) * load(z + latent_pad + k));
        }
        if (grad->w_pre) {
            add_outer(grad_a, n.latent_pad, n.latent, x, n.inputs_pad, s->batch, sums.w_pre);
            add_rows(grad_a, n.latent_pad, s->batch, sums.b_pre);
            write_sums(&n, &sums, grad, c);
        }
        if (grad->x) add_product(grad_a, n.latent_pad, n.latent, n.w_pre_rows, n.inputs_pad, s->batch, grad_x);
    }
    if (grad->x) copy_unpadded(grad->x, grad_x, batch, s->inputs, inputs_pad);
    free(memory);
    return status;
}
