/* numpy's arrays as the kernel reads them: dense, of known sizes. What is wrong with one is an exception. */
#ifndef UPDATES_ARRAYS_H
#define UPDATES_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARRAYS = 16 }; /* of a call: sac_update has the most, 14 */

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
    if (arrays->count == MAX_ARRAYS) return PyErr_SetString(PyExc_SystemError, "the kernel has no room for another array"), NULL;
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

#endif
