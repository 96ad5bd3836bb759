/* The updates as a Python extension: sizes and addresses of float32 arrays in, losses out.
 * The callers, in the folder above, have checked types, devices, layouts and shapes, and keep the arrays alive. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "updates.h"

typedef unsigned long long Address;

static const char SAC_PLAN[] = "sb3_span.algorithms.SacPlan", PPO_PLAN[] = "sb3_span.algorithms.PpoPlan";
static const char ACTOR_PLAN[] = "sb3_span.algorithms.ActorPlan";

static float *at(Address address) { return (float *)(size_t)address; }

static int chosen_lanes; /* 0: the widest */

static const UpdateKernel *kernel(void) {
#if defined(__x86_64__)
    int lanes = chosen_lanes ? chosen_lanes : span_widest_lanes();
    if (lanes == 16) return &update_kernel_avx512;
    if (lanes == 8) return &update_kernel_avx2;
#endif
    return &update_kernel_baseline;
}

/* choose(lanes): use vectors of so many floats from now on, for tests; 0 is the widest that the machine has. */
static PyObject *py_choose(PyObject *self, PyObject *args) {
    (void)self;
    int lanes;
    if (!PyArg_ParseTuple(args, "i", &lanes)) return NULL;
    if (lanes > span_widest_lanes() || !(lanes == 0 || lanes == 4 || lanes == 8 || lanes == 16)) {
        PyErr_Format(PyExc_ValueError, "this machine has no vectors of %d floats", lanes);
        return NULL;
    }
    chosen_lanes = lanes;
    Py_RETURN_NONE;
}

/* ---------------------------------------------------------------- what plans are made of */

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
    *count = (int)PyTuple_GET_SIZE(tuple);
    *parameters = calloc(*count + 1, sizeof **parameters);
    if (!*parameters) return PyErr_NoMemory(), -1;
    for (int i = 0; i < *count; i++)
        if (read_trained(PyTuple_GET_ITEM(tuple, i), *parameters + i)) return -1;
    return 0;
}

/* (beta1, beta2, epsilon, decay, max_norm) */
static int read_adam(PyObject *tuple, AdamOptions *a) {
    return PyArg_ParseTuple(tuple, "ddddd", &a->beta1, &a->beta2, &a->epsilon, &a->decay, &a->max_norm) ? 0 : -1;
}

/* ((C, I, D, N, M, O, degree, heads, tanh), sizes, parameters); sizes of an MLP's layers, () for SPAN. */
static int read_networks(PyObject *tuple, Networks *n) {
    PyObject *shape, *sizes, *parameters;
    SpanShape *s = &n->span;
    if (!PyArg_ParseTuple(tuple, "O!O!O!", &PyTuple_Type, &shape, &PyTuple_Type, &sizes, &PyTuple_Type, &parameters) ||
        !PyArg_ParseTuple(shape, "iiiiiiiii", &s->stack, &s->inputs, &s->latent, &s->basis, &s->modes, &n->outputs, &s->degree,
                          &n->heads, &n->tanh))
        return -1;
    s->outputs = n->outputs;
    n->layers = PyTuple_GET_SIZE(sizes) ? (int)PyTuple_GET_SIZE(sizes) - 1 : 0;
    if (n->layers > MAX_LAYERS) {
        PyErr_Format(PyExc_ValueError, "an MLP of %d layers is too deep for the kernel", n->layers);
        return -1;
    }
    for (int i = 0; i < PyTuple_GET_SIZE(sizes); i++) n->sizes[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(sizes, i));
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

/* sac_plan(actor, critics, targets, log_ent_coef, (actor's, critics' and coefficient's adam),
 *          (ent_coef, target_entropy, tau, log_std_min, log_std_max, epsilon)) */
static PyObject *py_sac_plan(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *actor, *critics, *targets, *ent, *adams[3];
    SacPlan *p = calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "O!O!O!O!(O!O!O!)(dddddd)", &PyTuple_Type, &actor, &PyTuple_Type, &critics, &PyTuple_Type,
                          &targets, &PyTuple_Type, &ent, &PyTuple_Type, adams, &PyTuple_Type, adams + 1, &PyTuple_Type,
                          adams + 2, &p->ent_coef, &p->target_entropy, &p->tau, &p->log_std_min, &p->log_std_max,
                          &p->epsilon) ||
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

/* sac_update(plan, (B, obs, actions, next_obs, rewards, dones, discounts, noise, next_noise), gamma, moves_targets, rates)
 * -> (ent_coef, ent_coef_loss, actor_loss, critic_loss), or None when nothing could be done. */
static PyObject *py_sac_update(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    SacBatch d;
    double rates[3];
    Address a[8];
    if (!PyArg_ParseTuple(args, "O(iKKKKKKKK)dp(ddd)", &capsule, &d.size, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7,
                          &d.gamma, &d.moves_targets, rates, rates + 1, rates + 2))
        return NULL;
    if (!PyCapsule_IsValid(capsule, SAC_PLAN)) return no_plan(capsule, SAC_PLAN);
    SacPlan *plan = PyCapsule_GetPointer(capsule, SAC_PLAN);
    d.obs = at(a[0]), d.actions = at(a[1]), d.next_obs = at(a[2]), d.rewards = at(a[3]), d.dones = at(a[4]);
    d.discounts = at(a[5]), d.noise = at(a[6]), d.next_noise = at(a[7]);
    plan->actor_adam.rate = rates[0], plan->critic_adam.rate = rates[1], plan->ent_adam.rate = rates[2];
    SacLosses losses = {0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = kernel()->sac_update(plan, &d, &losses);
    Py_END_ALLOW_THREADS;
    if (status == SPAN_NO_MEMORY) return PyErr_NoMemory();
    if (status != SPAN_DONE) Py_RETURN_NONE;
    return Py_BuildValue("(dddd)", losses.ent_coef, losses.ent_coef_loss, losses.actor_loss, losses.critic_loss);
}

/* sac_act(plan, B, obs, noise, actions) -> whether it could be done */
static PyObject *py_sac_act(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    int batch;
    Address obs, noise, actions;
    if (!PyArg_ParseTuple(args, "OiKKK", &capsule, &batch, &obs, &noise, &actions)) return NULL;
    if (!PyCapsule_IsValid(capsule, SAC_PLAN)) return no_plan(capsule, SAC_PLAN);
    int status = kernel()->sac_act(PyCapsule_GetPointer(capsule, SAC_PLAN), batch, at(obs), at(noise), at(actions));
    if (status == SPAN_NO_MEMORY) return PyErr_NoMemory();
    return PyBool_FromLong(status == SPAN_DONE);
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

/* ppo_epoch(plan, (rows, batch, order, obs, actions, values, log_probs, advantages, returns),
 *           (clip_range, clip_range_vf, ent_coef, vf_coef, max_kl), normalizes, rate)
 * -> (batches, stopped, entropy_loss, policy_loss, value_loss, clip_fraction, approx_kl, last_kl, loss), or None when it could not go on. */
static PyObject *py_ppo_epoch(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    PpoEpoch e;
    double rate;
    Address a[7];
    if (!PyArg_ParseTuple(args, "O(iiKKKKKKK)(ddddd)pd", &capsule, &e.rows, &e.batch, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6,
                          &e.clip_range, &e.clip_range_vf, &e.ent_coef, &e.vf_coef, &e.max_kl, &e.normalizes, &rate))
        return NULL;
    if (!PyCapsule_IsValid(capsule, PPO_PLAN)) return no_plan(capsule, PPO_PLAN);
    PpoPlan *plan = PyCapsule_GetPointer(capsule, PPO_PLAN);
    e.order = (const int64_t *)(size_t)a[0];
    e.obs = at(a[1]), e.actions = at(a[2]), e.values = at(a[3]), e.log_probs = at(a[4]), e.advantages = at(a[5]), e.returns = at(a[6]);
    plan->adam.rate = rate;
    PpoLosses l = {0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = kernel()->ppo_epoch(plan, &e, &l);
    Py_END_ALLOW_THREADS;
    if (status == SPAN_NO_MEMORY) return PyErr_NoMemory();
    if (status != SPAN_DONE) Py_RETURN_NONE;
    return Py_BuildValue("(diddddddd)", l.batches, l.stopped, l.entropy_loss, l.policy_loss, l.value_loss, l.clip_fraction,
                         l.approx_kl, l.last_kl, l.loss);
}

/* ppo_act(plan, B, obs, out, values) -> whether it could be done */
static PyObject *py_ppo_act(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    int batch;
    Address obs, out, values;
    if (!PyArg_ParseTuple(args, "OiKKK", &capsule, &batch, &obs, &out, &values)) return NULL;
    if (!PyCapsule_IsValid(capsule, PPO_PLAN)) return no_plan(capsule, PPO_PLAN);
    int status = kernel()->ppo_act(PyCapsule_GetPointer(capsule, PPO_PLAN), batch, at(obs), at(out), at(values));
    if (status == SPAN_NO_MEMORY) return PyErr_NoMemory();
    return PyBool_FromLong(status == SPAN_DONE);
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

/* actor_outputs(plan, B, obs, out) -> whether it could be done */
static PyObject *py_actor_outputs(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    int batch;
    Address obs, out;
    if (!PyArg_ParseTuple(args, "OiKK", &capsule, &batch, &obs, &out)) return NULL;
    if (!PyCapsule_IsValid(capsule, ACTOR_PLAN)) return no_plan(capsule, ACTOR_PLAN);
    int status = kernel()->outputs(PyCapsule_GetPointer(capsule, ACTOR_PLAN), batch, at(obs), at(out));
    if (status == SPAN_NO_MEMORY) return PyErr_NoMemory();
    return PyBool_FromLong(status == SPAN_DONE);
}

/* ---------------------------------------------------------------- what has changed */

/* same(containers, contents) -> whether these dictionaries and lists have, one after the other, the very same values as then */
static PyObject *py_same(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *containers, *contents;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &containers, &PyList_Type, &contents)) return NULL;
    Py_ssize_t next = 0, count = PyList_GET_SIZE(contents);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(containers); i++) {
        PyObject *one = PyList_GET_ITEM(containers, i), *value;
        if (PyDict_Check(one)) {
            for (Py_ssize_t place = 0; PyDict_Next(one, &place, NULL, &value); next++)
                if (next == count || value != PyList_GET_ITEM(contents, next)) Py_RETURN_FALSE;
        } else if (PyList_Check(one)) {
            for (Py_ssize_t k = 0; k < PyList_GET_SIZE(one); k++, next++)
                if (next == count || PyList_GET_ITEM(one, k) != PyList_GET_ITEM(contents, next)) Py_RETURN_FALSE;
        } else {
            return PyErr_Format(PyExc_TypeError, "%R is neither a dictionary nor a list", one);
        }
    }
    return PyBool_FromLong(next == count);
}

static PyMethodDef methods[] = {
    {"sac_plan", py_sac_plan, METH_VARARGS, "Networks, optimizers and options of an agent of SAC."},
    {"sac_update", py_sac_update, METH_VARARGS, "One update from a batch of transitions."},
    {"sac_act", py_sac_act, METH_VARARGS, "Actions for exploration."},
    {"ppo_plan", py_ppo_plan, METH_VARARGS, "Networks and optimizer of an agent of PPO."},
    {"ppo_epoch", py_ppo_epoch, METH_VARARGS, "The updates of one pass over a rollout."},
    {"same", py_same, METH_VARARGS, "Whether dictionaries and lists have the very same contents."},
    {"choose", py_choose, METH_VARARGS, "Choose the width of vectors."},
    {"ppo_act", py_ppo_act, METH_VARARGS, "Outputs of the actor and the critic."},
    {"actor_plan", py_actor_plan, METH_VARARGS, "An agent's actor."},
    {"actor_outputs", py_actor_outputs, METH_VARARGS, "Outputs of an actor."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_updates", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__updates(void) { return PyModule_Create(&definition); }
