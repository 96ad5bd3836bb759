/* Plans, from Python's tuples: the sizes and addresses of an agent's tensors, which the callers in the folder above have checked and
 * keep alive. Comes after arrays.h. */
#ifndef UPDATES_PLANS_H
#define UPDATES_PLANS_H

#include "updates.h"

typedef unsigned long long Address;

static const char SAC_PLAN[] = "sb3_span.algorithms.SacPlan", PPO_PLAN[] = "sb3_span.algorithms.PpoPlan";
static const char ACTOR_PLAN[] = "sb3_span.algorithms.ActorPlan";

static float *at(Address address) { return (float *)(size_t)address; }

/* (value, grad, mean, square, step, size, rate): addresses, the number of floats, a factor of the learning rate. */
static int read_trained(PyObject *tuple, Trained *t) {
    Address a[5];
    Py_ssize_t size;
    if (!PyArg_ParseTuple(tuple, "KKKKKnd", a, a + 1, a + 2, a + 3, a + 4, &size, &t->rate)) return -1;
    t->value = at(a[0]), t->grad = at(a[1]), t->mean = at(a[2]), t->square = at(a[3]), t->step = at(a[4]);
    t->size = (size_t)size;
    return 0;
}

static int read_all_trained(PyObject *tuple, Trained **parameters, int *count) {
    *count = (int)PyTuple_Size(tuple);
    *parameters = calloc(*count + 1, sizeof **parameters);
    if (!*parameters) return PyErr_NoMemory(), -1;
    for (int i = 0; i < *count; i++)
        if (read_trained(PyTuple_GetItem(tuple, i), *parameters + i)) return -1;
    return 0;
}

/* (beta1, beta2, epsilon, decay, max_norm) */
static int read_adam(PyObject *tuple, AdamOptions *a) {
    return PyArg_ParseTuple(tuple, "ddddd", &a->beta1, &a->beta2, &a->epsilon, &a->decay, &a->max_norm) ? 0 : -1;
}

/* ((C, I, D, N, M, O, degree, heads, tanh, group), sizes, parameters); sizes of an MLP's layers, () for SPAN. */
static int read_networks(PyObject *tuple, Networks *n) {
    PyObject *shape, *sizes, *parameters;
    SpanShape *s = &n->span;
    if (!PyArg_ParseTuple(tuple, "O!O!O!", &PyTuple_Type, &shape, &PyTuple_Type, &sizes, &PyTuple_Type, &parameters) ||
        !PyArg_ParseTuple(shape, "iiiiiiiiii", &s->stack, &s->inputs, &s->latent, &s->basis, &s->modes, &n->outputs, &s->degree,
                          &n->heads, &n->tanh, &s->group))
        return -1;
    s->outputs = n->outputs;
    n->layers = PyTuple_Size(sizes) ? (int)PyTuple_Size(sizes) - 1 : 0;
    if (n->layers > MAX_LAYERS) {
        PyErr_Format(PyExc_ValueError, "an MLP of %d layers is too deep for the kernel", n->layers);
        return -1;
    }
    for (int i = 0; i < PyTuple_Size(sizes); i++) n->sizes[i] = (int)PyLong_AsLong(PyTuple_GetItem(sizes, i));
    return PyErr_Occurred() ? -1 : read_all_trained(parameters, &n->parameters, &n->count);
}

static PyObject *no_plan(PyObject *capsule, const char *name) {
    PyErr_Format(PyExc_TypeError, "%R is no %s", capsule, name);
    return NULL;
}

/* ---------------------------------------------------------------- SAC */

static void free_sac(SacPlan *plan) {
    free(plan->actor.parameters), free(plan->critics.parameters), free(plan->targets.parameters);
    free(plan);
}

static void destroy_sac(PyObject *capsule) { free_sac(PyCapsule_GetPointer(capsule, SAC_PLAN)); }

/* sac_plan(actor, critics, targets, log_ent_coef, (actor's, critics' and coefficient's adam), (log_std_min, log_std_max, epsilon)) */
static PyObject *py_sac_plan(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *actor, *critics, *targets, *ent, *adams[3];
    SacPlan *p = calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "O!O!O!O!(O!O!O!)(ddd)", &PyTuple_Type, &actor, &PyTuple_Type, &critics, &PyTuple_Type,
                          &targets, &PyTuple_Type, &ent, &PyTuple_Type, adams, &PyTuple_Type, adams + 1, &PyTuple_Type,
                          adams + 2, &p->log_std_min, &p->log_std_max, &p->epsilon) ||
        read_networks(actor, &p->actor) || read_networks(critics, &p->critics) || read_networks(targets, &p->targets) ||
        read_trained(ent, &p->log_ent_coef) || read_adam(adams[0], &p->actor_adam) || read_adam(adams[1], &p->critic_adam) ||
        read_adam(adams[2], &p->ent_adam)) {
        free_sac(p);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(p, SAC_PLAN, destroy_sac);
    if (!capsule) free_sac(p);
    return capsule;
}

/* ---------------------------------------------------------------- PPO */

static void free_ppo(PpoPlan *plan) {
    free(plan->pi.parameters), free(plan->vf.parameters), free(plan->parameters);
    free(plan);
}

static void destroy_ppo(PyObject *capsule) { free_ppo(PyCapsule_GetPointer(capsule, PPO_PLAN)); }

/* ppo_plan(pi, vf, log_std, log_std_grad, parameters, adam); addresses of 0 for choices between actions */
static PyObject *py_ppo_plan(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *pi, *vf, *parameters, *adam;
    Address log_std, log_std_grad;
    PpoPlan *p = calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "O!O!KKO!O!", &PyTuple_Type, &pi, &PyTuple_Type, &vf, &log_std, &log_std_grad, &PyTuple_Type,
                          &parameters, &PyTuple_Type, &adam) ||
        read_networks(pi, &p->pi) || read_networks(vf, &p->vf) || read_all_trained(parameters, &p->parameters, &p->count) ||
        read_adam(adam, &p->adam)) {
        free_ppo(p);
        return NULL;
    }
    p->log_std = at(log_std), p->log_std_grad = at(log_std_grad);
    PyObject *capsule = PyCapsule_New(p, PPO_PLAN, destroy_ppo);
    if (!capsule) free_ppo(p);
    return capsule;
}

/* ---------------------------------------------------------------- an actor alone */

static void free_actor(Networks *plan) {
    free(plan->parameters);
    free(plan);
}

static void destroy_actor(PyObject *capsule) { free_actor(PyCapsule_GetPointer(capsule, ACTOR_PLAN)); }

/* actor_plan(actor) */
static PyObject *py_actor_plan(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *actor;
    Networks *n = calloc(1, sizeof *n);
    if (!n) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &actor) || read_networks(actor, n)) {
        free_actor(n);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(n, ACTOR_PLAN, destroy_actor);
    if (!capsule) free_actor(n);
    return capsule;
}

#endif
