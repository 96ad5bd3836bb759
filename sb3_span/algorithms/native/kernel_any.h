/* Everything that is compiled for one width of vectors, LANES. */
#include "../../nn/native/span_kernel_forward.h"
#include "../../nn/native/span_kernel_backward.h"

#include "updates.h"
#include "functions.h"
#include "mlp.h"
#include "networks.h"
#include "adam.h"
#include "sac_update.h"
#include "ppo_update.h"
