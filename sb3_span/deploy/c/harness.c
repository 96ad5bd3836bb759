/* Acts on every observation of the file "observations" and writes the file "actions": for checking an exported policy, and for
 * measuring it. Compiled with policy.c, for this machine or for an emulated Cortex-M4.
 *
 * Prints, in this order: the number of observations; clock ticks for all of them, once for each round, of which those of the
 * loop alone are subtracted; bytes of stack (on the Cortex-M4, 0 elsewhere).
 */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

/* OBSERVATION and ACTION are the types of their numbers, ROUNDS how often everything is measured. */
typedef int Act(const OBSERVATION *, ACTION *);

static int do_nothing(const OBSERVATION *observation, ACTION *action) {
    (void)observation;
    (void)action;
    return 0;
}

#ifdef __arm__

/* SysTick counts down at 25 MHz. With qemu's "-icount shift=0" an instruction takes a nanosecond: 40 instructions a tick. */
#define SYSTICK ((volatile uint32_t *)0xE000E010)
static void start_clock(void) { SYSTICK[1] = 0xffffff, SYSTICK[2] = 0, SYSTICK[0] = 5; }
static int64_t read_clock(void) { return -(int64_t)SYSTICK[2]; }
static int64_t elapsed(int64_t from, int64_t to) { return (to - from) & 0xffffff; }

/* How far down the stack a call goes: paint it, call, and look where the paint is gone. */
enum { PAINTED = 65536 };
static int stack_of(Act *act, const OBSERVATION *observation, ACTION *action) {
    volatile uint8_t *top, *bottom;
    __asm__ volatile("mov %0, sp" : "=r"(top));
    bottom = top - PAINTED;
    for (volatile uint8_t *p = bottom; p < top; p++) *p = 0xa5;
    act(observation, action);
    while (bottom < top && *bottom == 0xa5) bottom++;
    return (int)(top - bottom);
}

extern void _start(void);
static void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xf << 20; /* let the program use the floating-point unit */
    __asm__ volatile("dsb\n isb");
    _start();
}
__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {(void (*)(void))0x20400000, reset};

#else

#include <time.h>
static void start_clock(void) {}
static int64_t read_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
static int64_t elapsed(int64_t from, int64_t to) { return to - from; }
static int stack_of(Act *act, const OBSERVATION *observation, ACTION *action) {
    act(observation, action);
    return 0;
}

#endif

static int64_t ticks(Act *volatile act, const OBSERVATION *observations, long n, ACTION *action) {
    int64_t start = read_clock();
    for (long i = 0; i < n; i++) act(observations + i * POLICY_OBSERVATION_SIZE, action);
    return elapsed(start, read_clock());
}

int main(void) {
    FILE *in = fopen("observations", "rb"), *out = fopen("actions", "wb");
    if (!in || !out) return 1;
    fseek(in, 0, SEEK_END);
    size_t size = POLICY_OBSERVATION_SIZE * sizeof(OBSERVATION);
    long n = ftell(in) / (long)size;
    rewind(in);
    OBSERVATION *observations = malloc(n * size);
    if (!observations || fread(observations, size, n, in) != (size_t)n) return 1;
    ACTION action[POLICY_ACTION_SIZE];
    for (long i = 0; i < n; i++) {
        /* Where there is none: a NaN, or -1 of integers. */
        if (policy_act(observations + i * POLICY_OBSERVATION_SIZE, action) != POLICY_OK) memset(action, 0xff, sizeof action);
        fwrite(action, sizeof action, 1, out);
    }
    if (fclose(out)) return 1;
    printf("%ld\n", n);
    start_clock();
    for (int round = 0; round < ROUNDS; round++) {
        int64_t policy = ticks(policy_act, observations, n, action), loop = ticks(do_nothing, observations, n, action);
        printf("%ld ", (long)(policy - loop));
    }
    printf("\n%d\n", stack_of(policy_act, observations, action) - stack_of(do_nothing, observations, action));
    return 0;
}
