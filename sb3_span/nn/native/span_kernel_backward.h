/* The kernel for one width of vectors: the backward pass. Comes after span_kernel_forward.h. */

enum { CHUNK = 16 }; /* blocks whose gradients are kept at a time, before they are summed up over the samples */

typedef struct { /* what the backward pass works with; a block is LANES samples */
    float *x, *grad_out, *grad_x, *grad_a; /* (I, B), (O or W, B), (I, B) and (D, B), whole blocks */
    float *z, *out;                        /* (2, D, LANES) and (1, LANES): of one block, with a loss */
    float *grad_modes;                     /* (W, LANES) */
    Trace trace;                           /* of one block, but for its values: (CHUNK, D, N, LANES), and modes: (CHUNK, W, LANES) */
    float *grad_factors;                   /* (CHUNK, D, M, LANES) */
    float *coef;                           /* one network's, packed */
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
    w.coef = take(arena, count_coefficients(s));
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

/* Of `count` modes from `first` on and one dimension, from the gradients of the products to those of the factors and of the products
 * before, if there are any; and for each basis function the sum over the modes of its coefficients times the gradients of the factors.
 * coef: (N, count). */
INLINE void through_some(const float *coef, int first, const float *before, const float *factors, float *grad_modes, float *grads,
                         Vec *sums, const int basis, const int count, const int is_first, const int learns) {
    Vec own[4];
    for (int m = 0; m < count; m++) {
        const size_t at = (size_t)(first + m) * LANES;
        Vec behind = load(grad_modes + at);
        own[m] = is_first ? behind : load(before + at) * behind;
        if (!is_first) store(grad_modes + at, behind * load(factors + at));
        if (learns) store(grads + at, own[m]);
    }
    for (int i = 0; i < basis; i++)
        for (int m = 0; m < count; m++) sums[i] += coef[i * count + m] * own[m];
}

/* Of all modes, (M, LANES): four at a time, and what is left. coef: as they are packed. */
INLINE void through_factors(const float *coef, int modes, const float *before, const float *factors, float *grad_modes, float *grads,
                            Vec *sums, const int basis, const int is_first, const int learns) {
    int m = 0;
    for (; m + 4 <= modes; m += 4, coef += 4 * basis)
        through_some(coef, m, before, factors, grad_modes, grads, sums, basis, 4, is_first, learns);
    switch (modes - m) {
        case 3: through_some(coef, m, before, factors, grad_modes, grads, sums, basis, 3, is_first, learns); break;
        case 2: through_some(coef, m, before, factors, grad_modes, grads, sums, basis, 2, is_first, learns); break;
        case 1: through_some(coef, m, before, factors, grad_modes, grads, sums, basis, 1, is_first, learns); break;
    }
}

/* From the gradient of the modes to those of the factors, of z and of the scales. */
INLINE void through_splines(const Network *n, Work *w, const Trace *t, float *grad_factors, const float *z, const float *slope,
                            size_t z_stride, float *grad_a, size_t stride, const int basis, const int in_registers, const int learns) {
    const int modes = n->modes, bumps = n->degree == SPAN_BUMPS;
    const size_t of_modes = (size_t)modes * LANES, of_basis = (size_t)basis * LANES;
    Vec sums[in_registers ? MOST_IN_REGISTERS : basis];
    for (int k = n->latent - 1; k >= 0; k--) {
        const float *coef = n->coef + (size_t)k * basis * modes, *factors = t->factors + k * of_modes;
        const float *before = t->products + k * of_modes;
        float *grads = grad_factors + k * of_modes, *grad_modes = w->grad_modes + (size_t)(k / n->group) * of_modes;
        for (int i = 0; i < basis; i++) sums[i] = fill(0.0f);
        if (k % n->group) through_factors(coef, modes, before, factors, grad_modes, grads, sums, basis, 0, learns);
        else through_factors(coef, modes, before, factors, grad_modes, grads, sums, basis, 1, learns);
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

/* Rows of numbers, of which those of one block lie `step` behind those of the block before. */
typedef struct {
    const float *rows;
    size_t row, step;
} Rows;

/* The products of `lefts` rows with `rights`, summed over blocks and lanes and added to into[j * width + i] for the i-th on the left
 * and the j-th on the right. There may be only `count` on the left: then some are taken twice, and written once. */
INLINE void add_some_products(Rows left, int count, Rows right, int blocks, float *into, size_t width, const int lefts,
                              const int rights) {
    Vec sums[4][4];
    for (int j = 0; j < rights; j++)
        for (int i = 0; i < 4; i++) sums[j][i] = fill(0.0f);
    for (int b = 0; b < blocks; b++, left.rows += left.step, right.rows += right.step) {
        Vec own[4];
        for (int i = 0; i < lefts; i++) own[i] = load(left.rows + (i < count ? i : count - 1) * left.row);
        for (int j = 0; j < rights; j++) {
            Vec other = load(right.rows + j * right.row);
            for (int i = 0; i < lefts; i++) sums[j][i] += own[i] * other;
        }
    }
    if (lefts == 2) {
        for (int j = 0; j < rights; j += 2, into += 2 * width) {
            Quad four = sum_four(sums[j][0], sums[j][1], sums[j + 1][0], sums[j + 1][1]);
            for (int i = 0; i < count; i++) into[i] += four[i], into[width + i] += four[2 + i];
        }
        return;
    }
    for (int j = 0; j < rights; j++, into += width) {
        Quad four = sum_four(sums[j][0], sums[j][1], sums[j][2], sums[j][3]);
        if (count >= 4) *(LooseQuad *)into += four;
        else
            for (int i = 0; i < count; i++) into[i] += four[i];
    }
}

enum { AT_ONCE = LANES == 16 ? 4 : 2 }; /* rows on the right; there are twice as many wide registers */

/* Of any number of rows: four on the left at a time, and what is left. */
static void add_products(Rows left, int lefts, Rows right, int rights, int blocks, float *into) {
    for (; rights > 0; rights -= AT_ONCE, right.rows += AT_ONCE * right.row, into += (size_t)AT_ONCE * lefts) {
        Rows own = left;
        for (int i = 0; i < lefts; i += 4, own.rows += 4 * left.row) {
            const int count = lefts - i;
            if (rights >= AT_ONCE && count > 2) add_some_products(own, count, right, blocks, into + i, lefts, 4, AT_ONCE);
            else if (rights >= AT_ONCE) add_some_products(own, count, right, blocks, into + i, lefts, 2, AT_ONCE);
            else if (rights == 3) add_some_products(own, count, right, blocks, into + i, lefts, 4, 3);
            else if (rights == 2) add_some_products(own, count, right, blocks, into + i, lefts, 4, 2);
            else add_some_products(own, count, right, blocks, into + i, lefts, 4, 1);
        }
    }
}

/* The gradient of the coefficients from some blocks, added to what there is. */
static void add_coefficients(const Network *n, const Work *w, int blocks, float *grad) {
    const size_t modes = n->modes, basis = n->basis;
    Rows factors = {w->grad_factors, LANES, n->latent * modes * LANES}, values = {w->trace.values, LANES, n->latent * basis * LANES};
    for (int k = 0; k < n->latent; k++) {
        add_products(factors, n->modes, values, n->basis, blocks, grad);
        factors.rows += modes * LANES, values.rows += basis * LANES, grad += basis * modes;
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
    const Rows x = {w->x, stride, LANES}, grad_a = {w->grad_a, stride, LANES};
    add_products(x, n->inputs, grad_a, n->latent, (int)(stride / LANES), w_pre);
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
    const size_t coefs = count_coefficients(s), factors = latent * s->modes * LANES, values = latent * s->basis * LANES;
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
        if (!find_network(&n, s, in, c, w.coef)) status = SPAN_NOT_FINITE;
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
            if (loss) {
                const size_t left = s->batch - b;
                if (left < LANES) clear(own_grad, LANES); /* of what the batch is filled up with */
                read_head(&n, modes, w.out, LANES);
                loss(context, c, b, left < LANES ? left : LANES, w.out, own_grad);
            }
            through_head(&n, &w, own_grad, stride, learns);
            FOR_BASIS(n.basis, through_splines(&n, &w, &trace, grads, own_z, slope, z_stride, w.grad_a + b, stride, basis,
                                               in_registers, learns));
            blocks += learns;
            if (blocks == CHUNK || (blocks && b + LANES == stride)) {
                add_coefficients(&n, &w, blocks, grad->coef + c * coefs);
                const Rows kept_modes = {w.trace.modes, LANES, all_modes * LANES};
                const Rows grads_out = {w.grad_out + b - (blocks - 1) * LANES, stride, LANES};
                add_products(kept_modes, (int)all_modes, grads_out, s->outputs, blocks, heads ? grad->head_w + c * heads : NULL);
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
