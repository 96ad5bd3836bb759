/* The updates for x86-64 processors with AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#endif
#define LANES 16
#include "kernel_any.h"
const UpdateKernel update_kernel_avx512 = {sac_update, sac_act, ppo_epoch, ppo_act, network_outputs, squash};
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
typedef int updates_not_empty; /* for other processors: a source file must not be empty */
