/* Whole updates of SAC and PPO for small networks, SPAN or MLP, on float32 arrays. Plain C99 on raw pointers.
 *
 * Shape letters as in the Python code: C stacked networks, B batch, A actions. All arrays are dense and row-major.
 */
#ifndef UPDATES_H
#define UPDATES_H

#include <stddef.h>
#include <stdint.h>

#include "../../nn/native/span_kernel.h"

enum { MAX_LAYERS = 8 }; /* linear layers of an MLP */

typedef struct { /* a parameter, its gradient, and what Adam remembers of it */
    float *value, *grad, *mean, *square, *step;
    size_t size;
    double rate; /* its own factor of the learning rate */
} Trained;

typedef struct {
    double rate, beta1, beta2, epsilon, decay;
    double max_norm; /* of all gradients together; infinite for any */
} AdamOptions;

/* A stack of networks. The parameters in order:
 *   SPAN: w_pre, b_pre, scale (bumps only), coef, head_w, head_b, each with the leading axis C.
 *   MLP: for each of the C networks weight and bias of its layers.
 * An actor of SAC, C = 1, has two heads side by side, for mean and log-std: its last two parameters come twice. */
typedef struct {
    SpanShape span; /* stack and inputs count for MLPs too */
    int outputs;    /* of all heads */
    int heads;      /* 1 or 2 */
    int layers, sizes[MAX_LAYERS + 1], tanh; /* an MLP's, and whether its activation is tanh instead of ReLU; 0 layers: a SPAN */
    int count;
    Trained *parameters;
} Networks;

/* ---------------------------------------------------------------- SAC */

typedef struct {
    Networks actor, critics, targets;
    AdamOptions actor_adam, critic_adam, ent_adam;
    Trained log_ent_coef; /* value is NULL when the coefficient is fixed */
    double ent_coef;      /* the fixed one */
    double target_entropy, tau;
    double log_std_min, log_std_max, epsilon; /* SB3's bounds, and what it adds to the slope of tanh in the log-density */
} SacPlan;

typedef struct {
    int size;                                                /* B */
    const float *obs, *actions, *next_obs, *rewards, *dones; /* (B, I), (B, A), (B, I), (B), (B) */
    const float *discounts;                                  /* (B), or NULL for the same for all */
    const float *noise, *next_noise;                         /* (B, A), standard normal */
    double gamma;
    int moves_targets;
} SacBatch;

typedef struct {
    double ent_coef, ent_coef_loss, actor_loss, critic_loss;
} SacLosses;

/* ---------------------------------------------------------------- PPO */

typedef struct {
    Networks pi, vf; /* their parameters have no state of Adam: those of both may be parts of one array */
    float *log_std, *log_std_grad; /* (A), of Gaussian actions; NULL for choices between A actions */
    int count;
    Trained *parameters; /* all, as the optimizer has them */
    AdamOptions adam;
} PpoPlan;

typedef struct {
    int rows, batch;
    const int64_t *order; /* (rows): the batches take them in this order */
    const float *obs, *actions, *values, *log_probs, *advantages, *returns; /* (rows, I), (rows, A) or (rows, 1), then (rows) */
    double clip_range, clip_range_vf; /* the latter NaN for none */
    double ent_coef, vf_coef;
    double max_kl; /* stop at a batch that is beyond; infinite for never */
    int normalizes;
} PpoEpoch;

typedef struct { /* sums over the batches, and the last one's divergence and loss */
    double batches, entropy_loss, policy_loss, value_loss, clip_fraction, approx_kl, last_kl, loss;
    int stopped;
} PpoLosses;

/* ---------------------------------------------------------------- for one width of vectors */

typedef struct {
    /* With SPAN_NOT_FINITE nothing was changed; where memory is lacking an update may be left half done. */
    int (*sac_update)(const SacPlan *, const SacBatch *, SacLosses *);
    /* Actions (B, A) between -1 and 1 drawn for B observations. */
    int (*sac_act)(const SacPlan *, int batch, const float *obs, const float *noise, float *actions);
    /* A pass over a rollout. With anything but SPAN_DONE the batches before were done. */
    int (*ppo_epoch)(const PpoPlan *, const PpoEpoch *, PpoLosses *);
    /* Actions drawn for B observations, whole numbers of int64_t (B) or floats (B, A), values (B) and log-probabilities (B);
     * SPAN_NOT_FINITE also where the networks' outputs are not. */
    int (*ppo_act)(const PpoPlan *, int batch, const float *obs, const float *noise, void *actions, float *values, float *log_probs);
    /* Outputs (C, B, O) of networks alone; of their parameters only values and sizes count. */
    int (*outputs)(const Networks *, int batch, const float *x, float *out);
    /* tanh of so many values, in their place. */
    void (*squash)(float *values, size_t count);
} UpdateKernel;

#if defined(__x86_64__)
extern const UpdateKernel update_kernel_avx512, update_kernel_avx2;
#endif
extern const UpdateKernel update_kernel_baseline;

#endif
