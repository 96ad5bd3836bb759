/* The updates for what every processor of its kind has. */
#define LANES 4
#include "kernel_any.h"
const UpdateKernel update_kernel_baseline = {sac_update, sac_act, ppo_epoch, ppo_act, network_outputs, squash};
