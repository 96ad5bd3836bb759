/* Observations and transitions as the kernel takes them: rows of floats, picked and scaled. Comes after arrays.h and plans.h. */
#ifndef UPDATES_TRANSITIONS_H
#define UPDATES_TRANSITIONS_H

typedef struct { /* VecNormalize's: (x - mean) * factor, bounded; for numbers as they are the factor is NULL */
    const double *mean, *factor;
    double bound;
} Scaling;

static inline double bounded(double x, double bound) { return x < -bound ? -bound : x > bound ? bound : x; }

#define SCALE_ROW(type, from)                                                                                \
    do {                                                                                                     \
        const type *restrict row = from;                                                                     \
        if (!s->factor)                                                                                      \
            for (int i = 0; i < width; i++) to[i] = (float)row[i];                                           \
        else                                                                                                 \
            for (int i = 0; i < width; i++) to[i] = (float)bounded((row[i] - s->mean[i]) * s->factor[i], s->bound); \
    } while (0)

/* Rows of `width` numbers, all or those that are named, as floats. */
static void gather(const Py_buffer *from, const int64_t *rows, Py_ssize_t count, int width, const Scaling *s, float *restrict to) {
    const int is_double = *from->format == 'd';
    for (Py_ssize_t r = 0; r < count; r++, to += width) {
        const size_t first = (rows ? rows[r] : r) * (size_t)width;
        if (is_double) SCALE_ROW(double, (const double *)from->buf + first);
        else SCALE_ROW(float, (const float *)from->buf + first);
    }
}

/* The processor fetches what it is told early from all over a large replay buffer, while it works on something else. */
static void prefetch_rows(const Py_buffer *from, const int64_t *rows, Py_ssize_t count, int width) {
    const size_t bytes = width * from->itemsize;
    for (Py_ssize_t r = 0; r < count; r++) {
        const char *row = (const char *)from->buf + rows[r] * bytes;
        for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
        __builtin_prefetch(row + bytes - 1);
    }
}

/* Observations as floats: their own memory, or *copy. NULL for an exception. */
static const float *read_observations(Arrays *arrays, PyObject *obs, Py_ssize_t batch, int n_obs, float **copy) {
    Py_buffer *view = get_array(arrays, obs, "observations", REALS, batch * n_obs, 0);
    if (!view || *view->format == 'f') return view ? view->buf : NULL;
    *copy = malloc(batch * n_obs * sizeof(float) + 64);
    if (!*copy) return PyErr_NoMemory(), NULL;
    const Scaling plain = {.factor = NULL};
    gather(view, NULL, batch, n_obs, &plain, *copy);
    return *copy;
}

static int check_rows(const int64_t *rows, Py_ssize_t count, Py_ssize_t size) {
    for (Py_ssize_t r = 0; r < count; r++)
        if (rows[r] < 0 || rows[r] >= size) return PyErr_Format(PyExc_IndexError, "there is no transition %lld", (long long)rows[r]), -1;
    return 0;
}

/* (means, variances, epsilon, bound) of `width` numbers, or None for numbers as they are. Factors are written to *factors. */
static int read_scaling(Arrays *arrays, PyObject *tuple, int width, double *factors, Scaling *s) {
    PyObject *mean, *variance;
    double epsilon;
    *s = (Scaling){.factor = NULL};
    if (tuple == Py_None) return 0;
    if (!PyArg_ParseTuple(tuple, "OOdd", &mean, &variance, &epsilon, &s->bound)) return -1;
    Py_buffer *m = get_array(arrays, mean, "means", "d", width, 0), *v = m ? get_array(arrays, variance, "variances", "d", width, 0) : NULL;
    if (!v) return -1;
    for (int i = 0; i < width; i++) factors[i] = 1.0 / sqrt(((const double *)v->buf)[i] + epsilon);
    s->mean = m->buf, s->factor = factors;
    return 0;
}

enum { OBS, ACTIONS, NEXT_OBS, REWARDS, DONES, TIMEOUTS, DISCOUNTS, TRANSITION };

/* The transitions of one update, copied to *memory. */
static int read_batch(Arrays *arrays, const SacPlan *plan, PyObject *const *objects, PyObject *order, PyObject *obs_scaling,
                      PyObject *reward_scaling, SacBatch *d, char **memory) {
    static const char *const names[] = {"observations", "actions", "next observations", "rewards", "dones", "timeouts", "discounts"};
    const int n_actions = plan->actor.outputs / 2, n_obs = plan->actor.span.inputs;
    const int widths[] = {n_obs, n_actions, n_obs, 1, 1, 1, 1};
    Py_buffer *views[TRANSITION] = {NULL};
    views[REWARDS] = get_array(arrays, objects[REWARDS], names[REWARDS], REALS, -1, 0);
    if (!views[REWARDS]) return -1;
    const Py_ssize_t size = numbers_of(views[REWARDS]);
    for (int i = 0; i < TRANSITION; i++) {
        if (i == REWARDS || objects[i] == Py_None) continue;
        views[i] = get_array(arrays, objects[i], names[i], REALS, size * widths[i], 0);
        if (!views[i]) return -1;
    }
    const int64_t *rows = NULL;
    Py_ssize_t count = size;
    if (order != Py_None) {
        Py_buffer *view = get_array(arrays, order, "rows", INDICES, -1, 0);
        if (!view) return -1;
        rows = view->buf, count = numbers_of(view);
        if (check_rows(rows, count, size)) return -1;
        for (int i = 0; i < TRANSITION; i++)
            if (views[i]) prefetch_rows(views[i], rows, count, widths[i]);
    }
    *memory = malloc((n_obs + 1) * sizeof(double) + count * (2 * (size_t)n_obs + n_actions + 4) * sizeof(float));
    if (!*memory) return PyErr_NoMemory(), -1;
    double *factors = (double *)*memory;
    const Scaling plain = {.factor = NULL};
    Scaling of_obs, of_rewards;
    if (read_scaling(arrays, obs_scaling, n_obs, factors, &of_obs) || read_scaling(arrays, reward_scaling, 1, factors + n_obs, &of_rewards))
        return -1;
    const Scaling *scaling[] = {&of_obs, &plain, &of_obs, &of_rewards, &plain, &plain, &plain};
    float *parts[TRANSITION] = {NULL}, *next = (float *)(factors + n_obs + 1);
    for (int i = 0; i < TRANSITION; i++) {
        if (!views[i]) continue;
        gather(views[i], rows, count, widths[i], scaling[i], parts[i] = next);
        next += count * widths[i];
    }
    if (parts[TIMEOUTS]) /* an episode that was cut off did not end */
        for (Py_ssize_t b = 0; b < count; b++) parts[DONES][b] *= 1.0f - parts[TIMEOUTS][b];
    d->size = (int)count;
    d->obs = parts[OBS], d->actions = parts[ACTIONS], d->next_obs = parts[NEXT_OBS], d->rewards = parts[REWARDS];
    d->dones = parts[DONES], d->discounts = parts[DISCOUNTS];
    return 0;
}

#endif
