/* The kernel as a Python extension: integers in (sizes and addresses of float32 arrays), and out whether it could be done.
 * The caller, function.py beside this file, has checked types, devices, layouts and shapes. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>

#include "span_kernel.h"

/* From widest to narrowest, those that this machine can run. */
static int runnable(const SpanKernel **kernels) {
    const SpanKernel *best = span_kernel_best();
    int count = 0;
#if defined(__x86_64__)
    if (best == &span_kernel_avx512) kernels[count++] = &span_kernel_avx512;
    if (best != &span_kernel_baseline) kernels[count++] = &span_kernel_avx2;
#else
    (void)best;
#endif
    kernels[count++] = &span_kernel_baseline;
    return count;
}

enum { KERNEL, SHAPE, INPUTS = SHAPE + 9, REST = INPUTS + 7 }; /* where in the arguments each part begins */

static int read_kernel(PyObject *const *args, const SpanKernel **kernel) {
    const SpanKernel *kernels[3];
    long index = PyLong_AsLong(args[KERNEL]);
    if (PyErr_Occurred()) return -1;
    if (index < 0 || index >= runnable(kernels)) {
        PyErr_Format(PyExc_IndexError, "there is no kernel %ld on this machine", index);
        return -1;
    }
    *kernel = kernels[index];
    return 0;
}

static SpanShape read_shape(PyObject *const *args) {
    int n[9];
    for (int i = 0; i < 9; i++) {
        long value = PyLong_AsLong(args[SHAPE + i]);
        if (value > INT_MAX) PyErr_Format(PyExc_OverflowError, "a size of %ld is too large for the kernel", value);
        n[i] = (int)value;
    }
    SpanShape shape = {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]};
    return shape;
}

static SpanInputs read_inputs(PyObject *const *args) {
    const float *p[7];
    for (int i = 0; i < 7; i++) p[i] = PyLong_AsVoidPtr(args[INPUTS + i]);
    SpanInputs inputs = {p[0], p[1], p[2], p[3], p[4], p[5], p[6]};
    return inputs;
}

static PyObject *result(int status) {
    if (status == SPAN_NO_MEMORY) return PyErr_NoMemory();
    return PyBool_FromLong(status == SPAN_DONE);
}

static int check_count(const char *name, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd integers, not %zd", name, wanted, given);
    return -1;
}

/* forward(kernel, C, B, I, D, N, M, O, degree, group, x, w_pre, b_pre, scale, coef, head_w, head_b, out, z) */
static PyObject *py_forward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    const SpanKernel *kernel;
    if (check_count("forward", count, REST + 2) || read_kernel(args, &kernel)) return NULL;
    SpanShape shape = read_shape(args);
    SpanInputs inputs = read_inputs(args);
    float *out = PyLong_AsVoidPtr(args[REST]), *z = PyLong_AsVoidPtr(args[REST + 1]);
    if (PyErr_Occurred()) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = kernel->forward(&shape, &inputs, out, z);
    Py_END_ALLOW_THREADS;
    return result(status);
}

/* backward(... as forward up to head_b, z, grad_out, then the gradients of the seven inputs; 0 for one that is not wanted) */
static PyObject *py_backward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    const SpanKernel *kernel;
    if (check_count("backward", count, REST + 9) || read_kernel(args, &kernel)) return NULL;
    SpanShape shape = read_shape(args);
    SpanInputs inputs = read_inputs(args);
    const float *z = PyLong_AsVoidPtr(args[REST]), *grad_out = PyLong_AsVoidPtr(args[REST + 1]);
    float *g[7];
    for (int i = 0; i < 7; i++) g[i] = PyLong_AsVoidPtr(args[REST + 2 + i]);
    if (PyErr_Occurred()) return NULL;
    SpanGradients gradients = {g[0], g[1], g[2], g[3], g[4], g[5], g[6], 0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = kernel->backward(&shape, &inputs, z, grad_out, &gradients);
    Py_END_ALLOW_THREADS;
    return result(status);
}

/* scratch(kernel, C, B, I, D, N, M, O, degree, group) */
static PyObject *py_scratch(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    const SpanKernel *kernel;
    if (check_count("scratch", count, INPUTS) || read_kernel(args, &kernel)) return NULL;
    SpanShape shape = read_shape(args);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromSize_t(kernel->scratch(&shape));
}

static PyObject *py_kernels(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    const SpanKernel *kernels[3];
    int count = runnable(kernels);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        PyObject *item = Py_BuildValue("(si)", kernels[i]->name, kernels[i]->lanes);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"forward", (PyCFunction)(void (*)(void))py_forward, METH_FASTCALL, "Outputs of a stack of networks."},
    {"backward", (PyCFunction)(void (*)(void))py_backward, METH_FASTCALL, "Gradients of a stack of networks."},
    {"scratch", (PyCFunction)(void (*)(void))py_scratch, METH_FASTCALL, "Bytes that a backward pass allocates for itself."},
    {"kernels", py_kernels, METH_NOARGS, "Name and vector width of the kernels that this machine can run, widest first."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&definition); }
