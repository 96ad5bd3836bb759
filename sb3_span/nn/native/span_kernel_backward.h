/* The kernel for one width of vectors: the backward pass. Comes after span_kernel_forward.h. */

enum { CHUNK = 16 }; /* blocks whose gradients are kept at a time, before they are summed up over the samples */

typedef struct { /* what the backward pass works with; a block is LANES samples */
    float *x, *grad_out, *grad_x, *grad_a; /* (I, B), (O or M, B), (I, B) and (D, B), whole blocks */
    float *modes, *grad_modes;             /* (M, LANES) */
    float *factors, *before;               /* (D, M, LANES) */
    float *by_z, *by_scale;                /* (D, N, LANES): derivatives of the basis functions */
    float *values;                         /* (CHUNK, D, N, LANES): the basis functions themselves */
    float *grad_factors;                   /* (CHUNK, D, M, LANES) */
    float *scale, *head_w, *head_b;        /* (D, LANES), (O, M, LANES), (O, LANES): sums over the blocks so far */
} Work;

static Work make_work(const SpanShape *s, Arena *arena) {
    const size_t stride = span_round_up(s->batch, LANES), latent = s->latent, width = s->outputs ? s->outputs : s->modes;
    const size_t factors = latent * s->modes * LANES, values = latent * s->basis * LANES;
    Work w = {.x = take(arena, s->inputs * stride), .grad_out = take(arena, width * stride)};
    w.grad_x = take(arena, s->inputs * stride), w.grad_a = take(arena, latent * stride);
    w.modes = take(arena, (size_t)s->modes * LANES), w.grad_modes = take(arena, (size_t)s->modes * LANES);
    w.factors = take(arena, factors), w.before = take(arena, factors);
    w.by_z = take(arena, values), w.by_scale = take(arena, values);
    w.values = take(arena, CHUNK * values), w.grad_factors = take(arena, CHUNK * factors);
    w.scale = take(arena, latent * LANES);
    w.head_w = take(arena, (size_t)s->outputs * s->modes * LANES), w.head_b = take(arena, (size_t)s->outputs * LANES);
    return w;
}

static size_t scratch(const SpanShape *s) {
    Arena arena = {NULL};
    make_work(s, &arena);
    return (size_t)arena.next + 64;
}

/* ---------------------------------------------------------------- one block */

/* From the gradient of the outputs, rows of `stride`, to that of the modes. */
static void through_head(const Network *n, Work *w, const float *grad_out, size_t stride, int learns) {
    if (!n->outputs)
        for (int m = 0; m < n->modes; m++) store(w->grad_modes + m * LANES, load(grad_out + m * stride));
    for (int o = 0; o < n->outputs; o++) {
        const Vec grad = load(grad_out + o * stride);
        const float *head = n->head_w + (size_t)o * n->modes;
        float *sums = w->head_w + (size_t)o * n->modes * LANES;
        for (int m = 0; m < n->modes; m++) {
            Vec so_far = o ? load(w->grad_modes + m * LANES) : fill(0.0f);
            store(w->grad_modes + m * LANES, so_far + head[m] * grad);
            if (learns) store(sums + m * LANES, load(sums + m * LANES) + grad * load(w->modes + m * LANES));
        }
        if (learns) store(w->head_b + o * LANES, load(w->head_b + o * LANES) + grad);
    }
}

/* From the gradient of the modes as the head reads them to that of the products. */
static void through_bound(const SpanShape *s, const float *modes, float *grad_modes) {
    for (int m = 0; m < s->modes && s->bounded; m++) {
        Vec bounded = load(modes + m * LANES);
        store(grad_modes + m * LANES, load(grad_modes + m * LANES) * (1.0f - bounded * bounded));
    }
}

/* Four sums over the modes: of a basis function's coefficients times the gradients of the factors. */
INLINE void weigh_four(const float *coef, const float *grads, int modes, int first, int last, Vec *sums) {
    const float *rows[4];
    for (int i = 0; i < 4; i++) rows[i] = coef + (size_t)(first + i < last ? first + i : last) * modes;
    sums[0] = sums[1] = sums[2] = sums[3] = fill(0.0f);
    for (int m = 0; m < modes; m++) {
        Vec grad = load(grads + m * LANES);
        sums[0] += rows[0][m] * grad, sums[1] += rows[1][m] * grad, sums[2] += rows[2][m] * grad, sums[3] += rows[3][m] * grad;
    }
}

/* From the gradient of the modes to those of the factors, of z and of the scales. grad_a: rows of `stride`. */
static void through_splines(const Network *n, Work *w, float *grad_factors, const float *slope, float *grad_a, size_t stride,
                            int learns) {
    const int modes = n->modes, basis = n->basis, bumps = n->degree == SPAN_BUMPS;
    for (int k = n->latent - 1; k >= 0; k--) {
        const float *factors = w->factors + (size_t)k * modes * LANES, *before = w->before + (size_t)k * modes * LANES;
        float *grads = grad_factors + (size_t)k * modes * LANES;
        for (int m = 0; m < modes; m++) { /* behind: the gradient of the modes times the factors that were passed already */
            Vec behind = load(w->grad_modes + m * LANES);
            store(grads + m * LANES, load(before + m * LANES) * behind);
            store(w->grad_modes + m * LANES, behind * load(factors + m * LANES));
        }
        const float *coef = n->coef + (size_t)k * basis * modes;
        const float *by_z = w->by_z + (size_t)k * basis * LANES, *by_scale = w->by_scale + (size_t)k * basis * LANES;
        Vec to_z = fill(0.0f), to_scale = to_z, sums[4];
        for (int first = 0; first < basis; first += 4) {
            weigh_four(coef, grads, modes, first, basis - 1, sums);
            for (int i = 0; i < 4 && first + i < basis; i++) {
                to_z += load(by_z + (first + i) * LANES) * sums[i];
                if (bumps && learns) to_scale += load(by_scale + (first + i) * LANES) * sums[i];
            }
        }
        store(grad_a + k * stride, to_z * load(slope + k * stride));
        if (bumps && learns) store(w->scale + k * LANES, load(w->scale + k * LANES) + to_scale);
    }
}

/* ---------------------------------------------------------------- sums over the samples */

/* The gradient of the coefficients from some blocks, added to what there is. */
static void add_coefficients(const Network *n, const Work *w, int blocks, float *grad) {
    const size_t factors = (size_t)n->latent * n->modes * LANES, values = (size_t)n->latent * n->basis * LANES;
    for (int k = 0; k < n->latent; k++)
        for (int m = 0; m < n->modes; m++)
            for (int first = 0; first < n->basis; first += 4) {
                const float *grads = w->grad_factors + ((size_t)k * n->modes + m) * LANES;
                const float *at[4];
                for (int i = 0; i < 4; i++) {
                    int which = first + i < n->basis ? first + i : n->basis - 1;
                    at[i] = w->values + ((size_t)k * n->basis + which) * LANES;
                }
                Vec s0 = fill(0.0f), s1 = s0, s2 = s0, s3 = s0;
                for (int b = 0; b < blocks; b++) {
                    Vec g = load(grads + b * factors);
                    s0 += g * load(at[0] + b * values), s1 += g * load(at[1] + b * values);
                    s2 += g * load(at[2] + b * values), s3 += g * load(at[3] + b * values);
                }
                Quad sums = sum_four(s0, s1, s2, s3);
                for (int i = 0; i < 4 && first + i < n->basis; i++)
                    grad[((size_t)k * n->basis + first + i) * n->modes + m] += sums[i];
            }
}

/* into = the products of the rows of two matrices, (rows, stride) and (columns, stride): sums over the batch. */
static void multiply_rows(const float *left, int rows, const float *right, int columns, size_t stride, float *into) {
    for (int k = 0; k < rows; k++)
        for (int first = 0; first < columns; first += 4) {
            const float *l = left + k * stride, *at[4];
            for (int i = 0; i < 4; i++) at[i] = right + (size_t)(first + i < columns ? first + i : columns - 1) * stride;
            Vec s0 = fill(0.0f), s1 = s0, s2 = s0, s3 = s0;
            for (size_t b = 0; b < stride; b += LANES) {
                Vec v = load(l + b);
                s0 += v * load(at[0] + b), s1 += v * load(at[1] + b), s2 += v * load(at[2] + b), s3 += v * load(at[3] + b);
            }
            Quad sums = sum_four(s0, s1, s2, s3);
            for (int i = 0; i < 4 && first + i < columns; i++) into[(size_t)k * columns + first + i] = sums[i];
        }
}

static void sum_each(const float *from, size_t count, size_t length, float *to) {
    for (size_t i = 0; i < count; i++) {
        Vec sum = fill(0.0f);
        for (size_t b = 0; b < length; b += LANES) sum += load(from + i * length + b);
        to[i] = sum_lanes(sum);
    }
}

/* grad_x += W_pre^T grad_a */
static void add_inputs(const Network *n, const Work *w, size_t stride) {
    for (size_t b = 0; b < stride; b += LANES)
        for (int i = 0; i < n->inputs; i++) {
            Vec sum = load(w->grad_x + i * stride + b);
            for (int k = 0; k < n->latent; k++) sum += n->w_pre[(size_t)k * n->inputs + i] * load(w->grad_a + k * stride + b);
            store(w->grad_x + i * stride + b, sum);
        }
}

static void write_sums(const Network *n, const Work *w, size_t stride, const SpanGradients *grad, size_t c) {
    const size_t latent = n->latent, outputs = n->outputs;
    multiply_rows(w->grad_a, n->latent, w->x, n->inputs, stride, grad->w_pre + c * latent * n->inputs);
    sum_each(w->grad_a, latent, stride, grad->b_pre + c * latent);
    if (n->scale) sum_each(w->scale, latent, LANES, grad->scale + c * latent);
    if (!outputs) return;
    sum_each(w->head_w, outputs * n->modes, LANES, grad->head_w + c * outputs * n->modes);
    sum_each(w->head_b, outputs, LANES, grad->head_b + c * outputs);
}

static int backward(const SpanShape *s, const SpanInputs *in, const float *z, const float *grad_out, const SpanGradients *grad) {
    const size_t stride = span_round_up(s->batch, LANES), latent = s->latent, width = s->outputs ? s->outputs : s->modes;
    const size_t coefs = latent * s->basis * s->modes, factors = latent * s->modes * LANES, values = latent * s->basis * LANES;
    const int learns = grad->w_pre != NULL;
    char *memory = malloc(scratch(s));
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    Work w = make_work(s, &arena);
    if (learns) to_lanes(in->x, s->batch, s->inputs, 0, w.x);
    if (grad->x) memset(w.grad_x, 0, s->inputs * stride * sizeof(float));
    int status = SPAN_DONE;
    for (int c = 0; c < s->stack && status == SPAN_DONE; c++) {
        Network n;
        if (!find_network(&n, s, in, c)) status = SPAN_NOT_FINITE;
        to_lanes(grad_out + (size_t)c * s->batch * width, s->batch, (int)width, 1, w.grad_out);
        if (learns) {
            memset(grad->coef + c * coefs, 0, coefs * sizeof(float));
            memset(w.scale, 0, latent * LANES * sizeof(float));
            memset(w.head_w, 0, (size_t)s->outputs * s->modes * LANES * sizeof(float));
            memset(w.head_b, 0, (size_t)s->outputs * LANES * sizeof(float));
        }
        const float *kept = z + (size_t)c * 2 * latent * stride;
        int blocks = 0; /* that wait for their sums */
        for (size_t b = 0; b < stride; b += LANES) {
            float *value = w.values + blocks * values;
            start_modes(&n, w.modes);
            for (int k = 0; k < n.latent; k++) {
                const size_t of_basis = (size_t)k * n.basis * LANES, of_modes = (size_t)k * n.modes * LANES;
                find_basis(&n, k, load(kept + k * stride + b), value + of_basis, w.by_z + of_basis, w.by_scale + of_basis, 1);
                FOR_BASIS(n.basis, multiply(&n, k, value + of_basis, w.modes, w.factors + of_modes, w.before + of_modes, basis, 1));
            }
            bound_modes(s, w.modes);
            through_head(&n, &w, w.grad_out + b, stride, learns);
            through_bound(s, w.modes, w.grad_modes);
            through_splines(&n, &w, w.grad_factors + blocks * factors, kept + latent * stride + b, w.grad_a + b, stride, learns);
            blocks += learns;
            if (blocks == CHUNK || (blocks && b + LANES == stride)) {
                add_coefficients(&n, &w, blocks, grad->coef + c * coefs);
                blocks = 0;
            }
        }
        if (learns) write_sums(&n, &w, stride, grad, c);
        if (grad->x) add_inputs(&n, &w, stride);
    }
    if (grad->x) from_lanes(w.grad_x, s->batch, s->inputs, grad->x);
    free(memory);
    return status;
}
