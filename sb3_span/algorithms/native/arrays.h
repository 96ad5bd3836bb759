/* numpy's arrays as the kernel reads them: dense, of known sizes. What is wrong with one is an exception. */
#ifndef UPDATES_ARRAYS_H
#define UPDATES_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARRAYS = 12 };

typedef struct { /* the arrays of one call, which numpy keeps in their places until they are released */
    Py_buffer views[MAX_ARRAYS];
    int count;
} Arrays;

static void release(Arrays *arrays) {
    while (arrays->count) PyBuffer_Release(&arrays->views[--arrays->count]);
}

static const char FLOATS[] = "f", REALS[] = "fd", INDICES[] = "lq";

/* An array of `numbers` numbers (-1: of any) whose type is one of `types`, by the letters of Python's struct module. */
static Py_buffer *get_array(Arrays *arrays, PyObject *object, const char *name, const char *types, Py_ssize_t numbers, int flags) {
    Py_buffer *view = &arrays->views[arrays->count];
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags)) return NULL;
    arrays->count++;
    if (!view->format || strlen(view->format) != 1 || !strchr(types, *view->format) ||
        (types == INDICES && view->itemsize != sizeof(int64_t))) {
        PyErr_Format(PyExc_TypeError, "%s have the type '%s'; the kernel takes %s", name, view->format, types);
        return NULL;
    }
    if (numbers >= 0 && view->len / view->itemsize != numbers) {
        PyErr_Format(PyExc_ValueError, "There are %zd numbers of %s; for these networks there must be %zd. Are they another environment's?",
                     view->len / view->itemsize, name, numbers);
        return NULL;
    }
    return view;
}

static Py_ssize_t numbers_of(const Py_buffer *view) { return view->len / view->itemsize; }

typedef struct { /* VecNormalize's: (x - mean) / deviation, bounded. NULL: 0, and 1 */
    const double *mean, *deviation;
    double bound; /* negative for none */
} Scaling;

static inline float scaled(double x, const Scaling *s, int i) {
    if (s->bound < 0.0) return (float)x;
    x = (x - (s->mean ? s->mean[i] : 0.0)) / s->deviation[i];
    return (float)(x < -s->bound ? -s->bound : x > s->bound ? s->bound : x);
}

/* Rows of `width` numbers, all or those that are named, as floats. */
static void gather(const Py_buffer *from, const int64_t *rows, Py_ssize_t count, int width, const Scaling *s, float *to) {
    const int is_double = *from->format == 'd';
    if (!is_double && s->bound < 0.0) {
        const size_t bytes = width * sizeof(float);
        if (!rows) memcpy(to, from->buf, count * bytes);
        else
            for (Py_ssize_t r = 0; r < count; r++) memcpy(to + r * width, (const char *)from->buf + rows[r] * bytes, bytes);
        return;
    }
    for (Py_ssize_t r = 0; r < count; r++) {
        const size_t first = (rows ? rows[r] : r) * (size_t)width;
        for (int i = 0; i < width; i++, to++)
            *to = scaled(is_double ? ((const double *)from->buf)[first + i] : ((const float *)from->buf)[first + i], s, i);
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

#endif
