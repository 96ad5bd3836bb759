/* The kernel for one width of vectors: the backward pass. Comes after span_kernel_forward.h. */

enum { CHUNK = 16 }; /* blocks whose gradients are kept at a time, before they are summed up over the samples */

typedef struct { /* what the backward pass works with; a block is LANES samples */
    float *x, *grad_out, *grad_x, *grad_a; /* (I, B), (O or W, B), (I, B) and (D, B), whole blocks */
    float *z, *out;                        /* (2, D, LANES) and (1, LANES): of one block, with a loss */
    float *grad_modes;                     /* (W, LANES) */
    Trace trace;                           /* of one block, but for its values: (CHUNK, D, N, LANES), and modes: (CHUNK, W, LANES) */
    float *grad_factors;                   /* (CHUNK, D, M, LANES) */
    float *scale, *head_b;                 /* (D, LANES), (O, LANES): sums over the blocks so far */
} Work;

static Work make_work(const SpanShape *s, Arena *arena) {
    const size_t stride = span_round_up(s->batch, LANES), latent = s->latent, all_modes = span_all_modes(s);
    const size_t width = s->outputs ? (size_t)s->outputs : all_modes, modes = (size_t)s->modes * LANES, values = latent * s->basis * LANES;
    Work w = {.x = take(arena, s->inputs * stride), .grad_out = take(arena, width * stride)};
    w.grad_x = take(arena, s->inputs * stride), w.grad_a = take(arena, latent * stride);
    w.z = take(arena, 2 * latent * LANES), w.out = take(arena, LANES);
    w.grad_modes = take(arena, all_modes * LANES), w.trace.modes = take(arena, CHUNK * all_modes * LANES);
    w.trace.factors = take(arena, latent * modes), w.trace.products = take(arena, latent * modes);
    w.trace.slopes = take(arena, values), w.trace.values = take(arena, CHUNK * values);
    w.grad_factors = take(arena, CHUNK * latent * modes);
    w.scale = take(arena, latent * LANES), w.head_b = take(arena, (size_t)s->outputs * LANES);
    return w;
}

static size_t scratch(const SpanShape *s) {
    Arena arena = {NULL};
    make_work(s, &arena);
    return (size_t)arena.next + 64;
}

/* ---------------------------------------------------------------- one block */

/* From the gradient of the outputs, rows of `stride`, to that of the modes. Four outputs at a time. */
static void through_head(const Network *n, Work *w, const float *grad_out, size_t stride, int learns) {
    const size_t count = n->all_modes;
    if (!n->outputs)
        for (size_t m = 0; m < count; m++) store(w->grad_modes + m * LANES, load(grad_out + m * stride));
    for (int o = 0; o < n->outputs && learns; o++)
        store(w->head_b + o * LANES, load(w->head_b + o * LANES) + load(grad_out + o * stride));
    int o = 0;
    for (; o + 4 <= n->outputs; o += 4) {
        const float *head = n->head_w + o * count, *grads = grad_out + o * stride;
        const Vec g0 = load(grads), g1 = load(grads + stride), g2 = load(grads + 2 * stride), g3 = load(grads + 3 * stride);
        for (size_t m = 0; m < count; m++, head++) {
            Vec so_far = o ? load(w->grad_modes + m * LANES) : fill(0.0f);
            store(w->grad_modes + m * LANES,
                  (so_far + head[0] * g0 + head[count] * g1) + (head[2 * count] * g2 + head[3 * count] * g3));
        }
    }
    for (; o < n->outputs; o++) {
        const Vec grad = load(grad_out + o * stride);
        const float *head = n->head_w + o * count;
        for (size_t m = 0; m < count; m++) {
            Vec so_far = o ? load(w->grad_modes + m * LANES) : fill(0.0f);
            store(w->grad_modes + m * LANES, so_far + head[m] * grad);
        }
    }
}

/* From the gradient of the modes as the head reads them to that of the products. */
static void through_norm(const SpanShape *s, const float *modes, Vec deviation, float *grad_modes) {
    if (!s->mode_norm) return;
    const int count = (int)span_all_modes(s);
    Vec sum = fill(0.0f), along = sum;
    for (int m = 0; m < count; m++) {
        Vec grad = load(grad_modes + m * LANES);
        sum += grad, along += grad * load(modes + m * LANES);
    }
    const Vec mean = sum / (float)count, slope = along / (float)count;
    for (int m = 0; m < count; m++)
        store(grad_modes + m * LANES, (load(grad_modes + m * LANES) - mean - load(modes + m * LANES) * slope) / deviation);
}

/* From the gradients of the products, (M, LANES), to those of the factors of one dimension and of those before it, if there are any;
 * and for each basis function the sum over the modes of its coefficients times the gradients of the factors. */
INLINE void through_factors(const float *coef, int modes, const float *before, const float *factors, float *grad_modes, float *grads,
                            Vec *sums, const int basis, const int learns) {
    for (int i = 0; i < basis; i++) sums[i] = fill(0.0f);
    for (int m = 0; m < modes; m++) {
        Vec behind = load(grad_modes + m * LANES), grad = before ? load(before + m * LANES) * behind : behind;
        if (learns) store(grads + m * LANES, grad);
        if (before) store(grad_modes + m * LANES, behind * load(factors + m * LANES));
        for (int i = 0; i < basis; i++) sums[i] += coef[(size_t)i * modes + m] * grad;
    }
}

/* The same where the basis functions are too many for registers: four at a time. */
INLINE void through_many_factors(const float *coef, int modes, const float *before, const float *factors, float *grad_modes,
                                 float *grads, Vec *sums, const int basis) {
    through_factors(coef, modes, before, factors, grad_modes, grads, sums, 0, 1);
    for (int first = 0; first < basis; first += 4) {
        const float *rows[4];
        for (int i = 0; i < 4; i++) rows[i] = coef + (size_t)(first + i < basis ? first + i : basis - 1) * modes;
        Vec s0 = fill(0.0f), s1 = s0, s2 = s0, s3 = s0;
        for (int m = 0; m < modes; m++) {
            Vec grad = load(grads + m * LANES);
            s0 += rows[0][m] * grad, s1 += rows[1][m] * grad, s2 += rows[2][m] * grad, s3 += rows[3][m] * grad;
        }
        const Vec four[4] = {s0, s1, s2, s3};
        for (int i = 0; i < 4 && first + i < basis; i++) sums[first + i] = four[i];
    }
}

/* From the gradient of the modes to those of the factors, of z and of the scales. */
INLINE void through_splines(const Network *n, Work *w, const Trace *t, float *grad_factors, const float *z, const float *slope,
                            size_t z_stride, float *grad_a, size_t stride, const int basis, const int in_registers, const int learns) {
    const int modes = n->modes, bumps = n->degree == SPAN_BUMPS;
    const size_t of_modes = (size_t)modes * LANES, of_basis = (size_t)basis * LANES;
    Vec sums[in_registers ? MOST_IN_REGISTERS : basis];
    for (int k = n->latent - 1; k >= 0; k--) {
        const float *coef = n->coef + k * basis * (size_t)modes, *factors = t->factors + k * of_modes;
        const float *before = k % n->group ? t->products + k * of_modes : NULL;
        float *grads = grad_factors + k * of_modes, *grad_modes = w->grad_modes + (size_t)(k / n->group) * of_modes;
        if (in_registers) through_factors(coef, modes, before, factors, grad_modes, grads, sums, basis, learns);
        else through_many_factors(coef, modes, before, factors, grad_modes, grads, sums, basis);
        Vec own = load(z + k * z_stride), by_distance = fill(0.0f), by_width = by_distance;
        for (int i = 0; i < basis; i++) {
            Vec by_value = load(t->slopes + k * of_basis + i * LANES) * sums[i];
            by_distance += by_value;
            if (bumps && learns) by_width += by_value * distance_to(i, own, n->grid);
        }
        store(grad_a + k * stride, by_distance * (bumps ? n->scale[k] : n->grid) * load(slope + k * z_stride));
        if (bumps && learns) store(w->scale + k * LANES, load(w->scale + k * LANES) + by_width * (1.0f / n->grid));
    }
}

/* ---------------------------------------------------------------- sums over the samples */

/* Products of two rows on the left with up to eight on the right, summed over blocks and lanes: into[i * step] for the i-th on the
 * right, added to what there is. `left_step` and `right_step` lead to the next block. */
INLINE void add_products(const float *const *left, size_t left_step, const float *right, size_t row, size_t right_step, int blocks,
                         const int count, float *const *into, size_t step) {
    Vec sums0[8], sums1[8];
    for (int i = 0; i < 8; i++) sums0[i] = sums1[i] = fill(0.0f);
    for (int b = 0; b < blocks; b++) {
        Vec l0 = load(left[0] + b * left_step), l1 = load(left[1] + b * left_step);
        for (int i = 0; i < count; i++) {
            Vec r = load(right + i * row + b * right_step);
            sums0[i] += l0 * r, sums1[i] += l1 * r;
        }
    }
    for (int first = 0; first < count; first += 4) {
        Quad q0 = sum_four(sums0[first], sums0[first + 1], sums0[first + 2], sums0[first + 3]);
        Quad q1 = sum_four(sums1[first], sums1[first + 1], sums1[first + 2], sums1[first + 3]);
        for (int i = 0; i < 4 && first + i < count; i++) {
            into[0][(first + i) * step] += q0[i];
            if (into[1]) into[1][(first + i) * step] += q1[i];
        }
    }
}

/* The same for any number of rows on the right: four at a time, and what is left. */
INLINE void add_all_products(const float *const *left, size_t left_step, const float *right, size_t row, size_t right_step,
                             int blocks, int count, float *const *into, size_t step) {
    for (int first = 0; first < count; first += 4) {
        float *const own[2] = {into[0] + first * step, into[1] ? into[1] + first * step : NULL};
        const float *from = right + first * row;
        switch (count - first) {
            case 1: add_products(left, left_step, from, row, right_step, blocks, 1, own, step); break;
            case 2: add_products(left, left_step, from, row, right_step, blocks, 2, own, step); break;
            case 3: add_products(left, left_step, from, row, right_step, blocks, 3, own, step); break;
            default: add_products(left, left_step, from, row, right_step, blocks, 4, own, step);
        }
    }
}

/* The gradient of the coefficients from some blocks, added to what there is. */
INLINE void add_coefficients(const Network *n, const Work *w, int blocks, float *grad, const int basis, const int in_registers) {
    const size_t modes = n->modes, factors = n->latent * modes * LANES, values = (size_t)n->latent * basis * LANES;
    for (int k = 0; k < n->latent; k++)
        for (size_t m = 0; m < modes; m += 2) {
            const int is_last = m + 1 == modes;
            const float *first = w->grad_factors + (k * modes + m) * LANES, *own = w->trace.values + (size_t)k * basis * LANES;
            const float *const left[2] = {first, is_last ? first : first + LANES};
            float *at = grad + (size_t)k * basis * modes + m, *const into[2] = {at, is_last ? NULL : at + 1};
            if (in_registers) add_products(left, factors, own, LANES, values, blocks, basis, into, modes);
            else add_all_products(left, factors, own, LANES, values, blocks, basis, into, modes);
        }
}

/* into += the products of the rows of two matrices, sums over the samples of some blocks. Rows and blocks have their own distances. */
static void multiply_rows(const float *left, size_t left_row, size_t left_step, int rows, const float *right, size_t right_row,
                          size_t right_step, int columns, int blocks, float *into) {
    for (int k = 0; k < rows; k += 2) {
        const int is_last = k + 1 == rows;
        const float *l = left + k * left_row, *const both[2] = {l, is_last ? l : l + left_row};
        float *at = into + (size_t)k * columns, *const to[2] = {at, is_last ? NULL : at + columns};
        add_all_products(both, left_step, right, right_row, right_step, blocks, columns, to, 1);
    }
}

static void sum_each(const float *from, size_t count, size_t length, float *to) {
    for (size_t i = 0; i < count; i++) {
        Vec sum = fill(0.0f);
        for (size_t b = 0; b < length; b += LANES) sum += load(from + i * length + b);
        to[i] = sum_lanes(sum);
    }
}

/* grad_x += W_pre^T grad_a, for the inputs from `first` on. Four at a time. */
static void add_inputs(const Network *n, const Work *w, int first, size_t stride) {
    const int inputs = n->inputs;
    for (size_t b = 0; b < stride; b += LANES)
        for (int i = first; i < inputs; i += 4) {
            const int last = inputs - 1 - i; /* or the last one again */
            const int i1 = last < 1 ? last : 1, i2 = last < 2 ? last : 2, i3 = last < 3 ? last : 3;
            Vec s0 = fill(0.0f), s1 = s0, s2 = s0, s3 = s0;
            for (int k = 0; k < n->latent; k++) {
                const float *weights = n->w_pre + (size_t)k * inputs + i;
                Vec grad = load(w->grad_a + k * stride + b);
                s0 += weights[0] * grad, s1 += weights[i1] * grad, s2 += weights[i2] * grad, s3 += weights[i3] * grad;
            }
            const Vec sums[4] = {s0, s1, s2, s3};
            for (int j = 0; j < 4 && j <= last; j++) {
                float *to = w->grad_x + (i + j) * stride + b;
                store(to, load(to) + sums[j]);
            }
        }
}

static void write_sums(const Network *n, const Work *w, size_t stride, const SpanGradients *grad, size_t c) {
    const size_t latent = n->latent, outputs = n->outputs;
    float *w_pre = grad->w_pre + c * latent * n->inputs;
    multiply_rows(w->grad_a, stride, LANES, n->latent, w->x, stride, LANES, n->inputs, (int)(stride / LANES), w_pre);
    sum_each(w->grad_a, latent, stride, grad->b_pre + c * latent);
    if (n->scale) sum_each(w->scale, latent, LANES, grad->scale + c * latent);
    if (outputs) sum_each(w->head_b, outputs, LANES, grad->head_b + c * outputs);
}

static void clear(float *values, size_t count) { memset(values, 0, count * sizeof(float)); }

/* For networks of one output: writes the gradient of a loss by that of network c, for `count` samples from the first on. */
typedef void (*Loss)(void *context, int c, size_t first, size_t count, const float *out, float *grad_out);

/* Either from z and the gradient of the outputs, or, with a loss, from x: forward and backward block by block, which saves doing
 * half of the forward pass twice. */
static int backward_through(const SpanShape *s, const SpanInputs *in, const float *z, const float *grad_out, Loss loss,
                            void *context, const SpanGradients *grad) {
    const size_t stride = span_round_up(s->batch, LANES), latent = s->latent, all_modes = span_all_modes(s);
    const size_t width = s->outputs ? (size_t)s->outputs : all_modes;
    const size_t coefs = latent * s->basis * s->modes, factors = latent * s->modes * LANES, values = latent * s->basis * LANES;
    const size_t heads = s->outputs * all_modes;
    const int learns = grad->w_pre != NULL;
    char *memory = malloc(scratch(s));
    if (!memory) return SPAN_NO_MEMORY;
    Arena arena = {(char *)span_round_up((size_t)memory, 64)};
    Work w = make_work(s, &arena);
    if (learns || loss) to_lanes(in->x, s->batch, s->inputs, 0, w.x);
    if (grad->x) clear(w.grad_x, s->inputs * stride);
    int status = SPAN_DONE;
    for (int c = 0; c < s->stack && status == SPAN_DONE; c++) {
        Network n;
        if (!find_network(&n, s, in, c)) status = SPAN_NOT_FINITE;
        if (!loss) to_lanes(grad_out + (size_t)c * s->batch * width, s->batch, (int)width, 1, w.grad_out);
        if (learns) {
            clear(grad->coef + c * coefs, coefs), clear(grad->w_pre + c * latent * s->inputs, latent * s->inputs);
            clear(w.scale, latent * LANES), clear(w.head_b, (size_t)s->outputs * LANES);
            if (heads) clear(grad->head_w + c * heads, heads);
        }
        int blocks = 0; /* that wait for their sums */
        for (size_t b = 0; b < stride; b += LANES) {
            const size_t z_stride = loss ? LANES : stride;
            const float *own_z = loss ? w.z : z + (size_t)c * 2 * latent * stride + b, *slope = own_z + latent * z_stride;
            float *own_grad = w.grad_out + b, *grads = w.grad_factors + blocks * factors;
            Trace trace = w.trace;
            trace.values += blocks * values, trace.modes += blocks * all_modes * LANES;
            float *modes = trace.modes;
            if (loss) preprocess(&n, w.x + b, stride, w.z, w.z + latent * LANES, LANES);
            FOR_BASIS(n.basis, multiply_all(&n, own_z, z_stride, &trace, basis, in_registers, 1));
            const Vec deviation = norm_modes(s, modes);
            if (loss) {
                const size_t left = s->batch - b;
                if (left < LANES) clear(own_grad, LANES); /* of what the batch is filled up with */
                read_head(&n, modes, w.out, LANES);
                loss(context, c, b, left < LANES ? left : LANES, w.out, own_grad);
            }
            through_head(&n, &w, own_grad, stride, learns);
            through_norm(s, modes, deviation, w.grad_modes);
            FOR_BASIS(n.basis, through_splines(&n, &w, &trace, grads, own_z, slope, z_stride, w.grad_a + b, stride, basis,
                                               in_registers, learns));
            blocks += learns;
            if (blocks == CHUNK || (blocks && b + LANES == stride)) {
                FOR_BASIS(n.basis, add_coefficients(&n, &w, blocks, grad->coef + c * coefs, basis, in_registers));
                if (heads)
                    multiply_rows(w.grad_out + b - (blocks - 1) * LANES, stride, LANES, s->outputs, w.trace.modes, LANES,
                                  all_modes * LANES, (int)all_modes, blocks, grad->head_w + c * heads);
                blocks = 0;
            }
        }
        if (learns) write_sums(&n, &w, stride, grad, c);
        if (grad->x) add_inputs(&n, &w, grad->x_first, stride);
    }
    if (grad->x) from_lanes(w.grad_x, s->batch, s->inputs, grad->x_first, grad->x);
    free(memory);
    return status;
}

INLINE int backward(const SpanShape *s, const SpanInputs *in, const float *z, const float *grad_out, const SpanGradients *grad) {
    return backward_through(s, in, z, grad_out, NULL, NULL, grad);
}
