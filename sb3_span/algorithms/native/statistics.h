/* What VecNormalize does with a step's observations. Comes after arrays.h. */
#ifndef UPDATES_STATISTICS_H
#define UPDATES_STATISTICS_H

/* normalize(observations, mean, variance, count, epsilon, bound, out): float32 observations as VecNormalize has them. With a count, of
 * observations so far, it is one observation, which joins the statistics before; None leaves them. */
static PyObject *py_normalize(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *objects[5], *result = NULL;
    double epsilon, bound, count = 0.0;
    if (!PyArg_ParseTuple(args, "OOOOddO", objects, objects + 1, objects + 2, objects + 3, &epsilon, &bound, objects + 4)) return NULL;
    const int joins = objects[3] != Py_None;
    if (joins && (count = PyFloat_AsDouble(objects[3])) == -1.0 && PyErr_Occurred()) return NULL;
    Arrays arrays = {.count = 0};
    Py_buffer *m = get_array(&arrays, objects[1], "means", "d", -1, joins ? PyBUF_WRITABLE : 0);
    const Py_ssize_t width = m ? numbers_of(m) : 0;
    Py_buffer *v = m ? get_array(&arrays, objects[2], "variances", "d", width, joins ? PyBUF_WRITABLE : 0) : NULL;
    Py_buffer *obs = v ? get_array(&arrays, objects[0], "observations", REALS, joins ? width : -1, 0) : NULL;
    Py_buffer *to = obs ? get_array(&arrays, objects[4], "outputs", FLOATS, numbers_of(obs), PyBUF_WRITABLE) : NULL;
    if (to && width && numbers_of(obs) % width == 0) {
        const int is_double = *obs->format == 'd';
        const Py_ssize_t numbers = numbers_of(obs);
        double *mean = m->buf, *variance = v->buf;
        float *out = to->buf;
        for (Py_ssize_t k = 0; k < numbers; k++) {
            const Py_ssize_t i = k % width;
            const double x = is_double ? ((const double *)obs->buf)[k] : ((const float *)obs->buf)[k];
            if (joins) { /* in numpy's order, so that not even the rounding differs */
                const double delta = x - mean[i], total = count + 1.0;
                mean[i] += delta / total;
                variance[i] = (variance[i] * count + delta * delta * count / total) / total;
            }
            const double normalized = (x - mean[i]) / sqrt(variance[i] + epsilon);
            out[k] = (float)(normalized < -bound ? -bound : normalized > bound ? bound : normalized);
        }
        result = Py_NewRef(Py_None);
    } else if (to) {
        PyErr_SetString(PyExc_ValueError, "the observations are not as wide as their statistics");
    }
    release(&arrays);
    return result;
}

#endif
