/* The updates as a Python extension. A plan has the sizes and addresses of the agent's tensors, which the callers in the folder
 * above have checked and keep alive; what changes from call to call comes as numpy's arrays, which are checked here. */
#include "arrays.h"
#include "plans.h"
#include "statistics.h"
#include "transitions.h"

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

/* sac_update(plan, (obs, actions, next_obs, rewards, dones, timeouts or None, discounts or None), rows or None, (scaling of observations and of rewards, or None),
 *            (noise, next_noise), (gamma, tau, target_entropy, ent_coef), moves_targets, rates)
 * -> (ent_coef, ent_coef_loss, actor_loss, critic_loss), or None when nothing could be done. */
static PyObject *py_sac_update(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *t[TRANSITION], *rows, *scalings[2], *noise, *next_noise;
    SacBatch d = {0};
    double rates[3], tau, target_entropy, ent_coef;
    if (!PyArg_ParseTuple(args, "O(OOOOOOO)O(OO)(OO)(dddd)p(ddd)", &capsule, t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6, &rows, scalings,
                          scalings + 1, &noise, &next_noise, &d.gamma, &tau, &target_entropy, &ent_coef, &d.moves_targets, rates, rates + 1,
                          rates + 2))
        return NULL;
    if (!PyCapsule_IsValid(capsule, SAC_PLAN)) return no_plan(capsule, SAC_PLAN);
    SacPlan *plan = PyCapsule_GetPointer(capsule, SAC_PLAN);
    plan->actor_adam.rate = rates[0], plan->critic_adam.rate = rates[1], plan->ent_adam.rate = rates[2];
    plan->tau = tau, plan->target_entropy = target_entropy, plan->ent_coef = ent_coef;
    Arrays arrays = {.count = 0};
    char *memory = NULL;
    PyObject *result = NULL;
    if (read_batch(&arrays, plan, t, rows, scalings[0], scalings[1], &d, &memory)) goto end;
    Py_buffer *first = get_array(&arrays, noise, "noise", FLOATS, (Py_ssize_t)d.size * (plan->actor.outputs / 2), 0);
    Py_buffer *second = first ? get_array(&arrays, next_noise, "noise", FLOATS, numbers_of(first), 0) : NULL;
    if (!second) goto end;
    d.noise = first->buf, d.next_noise = second->buf;
    SacLosses losses = {0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = kernel()->sac_update(plan, &d, &losses);
    Py_END_ALLOW_THREADS;
    if (status == SPAN_NO_MEMORY) PyErr_NoMemory();
    else if (status != SPAN_DONE) result = Py_NewRef(Py_None);
    else
        result = Py_BuildValue("(dddd)", losses.ent_coef, losses.ent_coef_loss, losses.actor_loss, losses.critic_loss);
end:
    free(memory);
    release(&arrays);
    return result;
}

static PyObject *is_done(int status) {
    return status == SPAN_NO_MEMORY ? PyErr_NoMemory() : PyBool_FromLong(status == SPAN_DONE);
}

/* sac_act(plan, obs, noise, actions) -> whether it could be done; actions are written */
static PyObject *py_sac_act(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *obs, *noise, *actions, *result = NULL;
    if (!PyArg_ParseTuple(args, "OOOO", &capsule, &obs, &noise, &actions)) return NULL;
    if (!PyCapsule_IsValid(capsule, SAC_PLAN)) return no_plan(capsule, SAC_PLAN);
    const SacPlan *plan = PyCapsule_GetPointer(capsule, SAC_PLAN);
    Arrays arrays = {.count = 0};
    float *copy = NULL;
    Py_buffer *drawn = get_array(&arrays, noise, "noise", FLOATS, -1, 0);
    Py_buffer *to = drawn ? get_array(&arrays, actions, "actions", FLOATS, numbers_of(drawn), PyBUF_WRITABLE) : NULL;
    if (to) {
        const Py_ssize_t batch = numbers_of(drawn) / (plan->actor.outputs / 2);
        const float *x = read_observations(&arrays, obs, batch, plan->actor.span.inputs, &copy);
        if (x) result = is_done(kernel()->sac_act(plan, (int)batch, x, drawn->buf, to->buf));
    }
    free(copy);
    release(&arrays);
    return result;
}

/* ---------------------------------------------------------------- PPO */

/* ppo_epoch(plan, order, (obs, actions, values, log_probs, advantages, returns), batch_size,
 *           (clip_range, clip_range_vf, ent_coef, vf_coef, max_kl, max_grad_norm), normalizes, rate)
 * -> (batches, stopped, entropy_loss, policy_loss, value_loss, clip_fraction, approx_kl, last_kl, loss), or None when it could not
 * go on. */
static PyObject *py_ppo_epoch(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *order, *objects[6], *result = NULL;
    PpoEpoch e = {0};
    double rate, max_norm;
    if (!PyArg_ParseTuple(args, "OO(OOOOOO)i(dddddd)pd", &capsule, &order, objects, objects + 1, objects + 2, objects + 3, objects + 4,
                          objects + 5, &e.batch, &e.clip_range, &e.clip_range_vf, &e.ent_coef, &e.vf_coef, &e.max_kl, &max_norm,
                          &e.normalizes, &rate))
        return NULL;
    if (!PyCapsule_IsValid(capsule, PPO_PLAN)) return no_plan(capsule, PPO_PLAN);
    PpoPlan *plan = PyCapsule_GetPointer(capsule, PPO_PLAN);
    plan->adam.rate = rate, plan->adam.max_norm = max_norm;
    Arrays arrays = {.count = 0};
    Py_buffer *rows = get_array(&arrays, order, "rows", INDICES, -1, 0);
    if (!rows) goto end;
    e.order = rows->buf, e.rows = (int)numbers_of(rows);
    if (check_rows(e.order, e.rows, e.rows)) goto end;
    static const char *const names[] = {"observations", "actions", "values", "log_probs", "advantages", "returns"};
    const int widths[] = {plan->pi.span.inputs, plan->log_std ? plan->pi.outputs : 1, 1, 1, 1, 1};
    const float **places[] = {&e.obs, &e.actions, &e.values, &e.log_probs, &e.advantages, &e.returns};
    for (int i = 0; i < 6; i++) {
        Py_buffer *view = get_array(&arrays, objects[i], names[i], FLOATS, (Py_ssize_t)e.rows * widths[i], 0);
        if (!view) goto end;
        *places[i] = view->buf;
    }
    PpoLosses l = {0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = kernel()->ppo_epoch(plan, &e, &l);
    Py_END_ALLOW_THREADS;
    if (status == SPAN_NO_MEMORY) PyErr_NoMemory();
    else if (status != SPAN_DONE) result = Py_NewRef(Py_None);
    else
        result = Py_BuildValue("(diddddddd)", l.batches, l.stopped, l.entropy_loss, l.policy_loss, l.value_loss, l.clip_fraction,
                               l.approx_kl, l.last_kl, l.loss);
end:
    release(&arrays);
    return result;
}

/* ppo_act(plan, obs, noise, actions, values, log_probs) -> whether it could be done; the last three are written. Noise is
 * standard normal for Gaussian actions, and exponential for choices, whose actions are whole numbers. */
static PyObject *py_ppo_act(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *obs, *noise, *actions, *values, *log_probs, *result = NULL;
    if (!PyArg_ParseTuple(args, "OOOOOO", &capsule, &obs, &noise, &actions, &values, &log_probs)) return NULL;
    if (!PyCapsule_IsValid(capsule, PPO_PLAN)) return no_plan(capsule, PPO_PLAN);
    const PpoPlan *plan = PyCapsule_GetPointer(capsule, PPO_PLAN);
    const int n = plan->pi.outputs, is_choice = plan->log_std == NULL;
    Arrays arrays = {.count = 0};
    float *copy = NULL;
    Py_buffer *v = get_array(&arrays, values, "values", FLOATS, -1, PyBUF_WRITABLE);
    const Py_ssize_t batch = v ? numbers_of(v) : 0;
    Py_buffer *drawn = v ? get_array(&arrays, noise, "noise", FLOATS, batch * n, 0) : NULL;
    Py_buffer *l = drawn ? get_array(&arrays, log_probs, "log_probs", FLOATS, batch, PyBUF_WRITABLE) : NULL;
    Py_buffer *a = l ? get_array(&arrays, actions, "actions", is_choice ? INDICES : FLOATS, batch * (is_choice ? 1 : n), PyBUF_WRITABLE) : NULL;
    const float *x = a ? read_observations(&arrays, obs, batch, plan->pi.span.inputs, &copy) : NULL;
    if (x) result = is_done(kernel()->ppo_act(plan, (int)batch, x, drawn->buf, a->buf, v->buf, l->buf));
    free(copy);
    release(&arrays);
    return result;
}

/* ppo_values(plan, obs, values) -> whether it could be done */
static PyObject *py_ppo_values(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *obs, *values, *result = NULL;
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &obs, &values)) return NULL;
    if (!PyCapsule_IsValid(capsule, PPO_PLAN)) return no_plan(capsule, PPO_PLAN);
    const PpoPlan *plan = PyCapsule_GetPointer(capsule, PPO_PLAN);
    Arrays arrays = {.count = 0};
    float *copy = NULL;
    Py_buffer *v = get_array(&arrays, values, "values", FLOATS, -1, PyBUF_WRITABLE);
    const float *x = v ? read_observations(&arrays, obs, numbers_of(v), plan->pi.span.inputs, &copy) : NULL;
    if (x) result = is_done(kernel()->outputs(&plan->vf, (int)numbers_of(v), x, v->buf));
    free(copy);
    release(&arrays);
    return result;
}

/* ---------------------------------------------------------------- an actor alone */

/* actor_outputs(plan, obs, out, squashes) -> whether it could be done; squashed: tanh of the outputs */
static PyObject *py_actor_outputs(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *obs, *out, *result = NULL;
    int squashes;
    if (!PyArg_ParseTuple(args, "OOOp", &capsule, &obs, &out, &squashes)) return NULL;
    if (!PyCapsule_IsValid(capsule, ACTOR_PLAN)) return no_plan(capsule, ACTOR_PLAN);
    const Networks *actor = PyCapsule_GetPointer(capsule, ACTOR_PLAN);
    Arrays arrays = {.count = 0};
    float *copy = NULL;
    Py_buffer *to = get_array(&arrays, out, "outputs", FLOATS, -1, PyBUF_WRITABLE);
    const Py_ssize_t batch = to ? numbers_of(to) / actor->outputs : 0;
    const float *x = to ? read_observations(&arrays, obs, batch, actor->span.inputs, &copy) : NULL;
    if (x) result = is_done(kernel()->outputs(actor, (int)batch, x, to->buf));
    if (result == Py_True && squashes) kernel()->squash(to->buf, numbers_of(to));
    free(copy);
    release(&arrays);
    return result;
}

/* ---------------------------------------------------------------- what has changed */

/* same(containers, contents) -> whether these dictionaries and lists have, one after the other, the very same values as then */
static PyObject *py_same(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *containers, *contents;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &containers, &PyList_Type, &contents)) return NULL;
    Py_ssize_t next = 0, count = PyList_Size(contents);
    for (Py_ssize_t i = 0; i < PyList_Size(containers); i++) {
        PyObject *one = PyList_GetItem(containers, i), *value;
        if (PyDict_Check(one)) {
            for (Py_ssize_t place = 0; PyDict_Next(one, &place, NULL, &value); next++)
                if (next == count || value != PyList_GetItem(contents, next)) Py_RETURN_FALSE;
        } else if (PyList_Check(one)) {
            for (Py_ssize_t k = 0; k < PyList_Size(one); k++, next++)
                if (next == count || PyList_GetItem(one, k) != PyList_GetItem(contents, next)) Py_RETURN_FALSE;
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
    {"normalize", py_normalize, METH_VARARGS, "Observations as VecNormalize hands them on, and its statistics with them."},
    {"same", py_same, METH_VARARGS, "Whether dictionaries and lists have the very same contents."},
    {"choose", py_choose, METH_VARARGS, "Choose the width of vectors."},
    {"ppo_act", py_ppo_act, METH_VARARGS, "Actions for exploration, their log-probabilities, and values."},
    {"ppo_values", py_ppo_values, METH_VARARGS, "Outputs of the critic."},
    {"actor_plan", py_actor_plan, METH_VARARGS, "An agent's actor."},
    {"actor_outputs", py_actor_outputs, METH_VARARGS, "Outputs of an actor."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_updates", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__updates(void) { return PyModule_Create(&definition); }
