/* Acts on observations as they come: reads each from the file "observations", writes its action to the file "actions" before it
 * reads the next one. Both are pipes to a simulation. Compiled with policy.c, for this machine or for an emulated Cortex-M4.
 *
 * After each action come two 32-bit integers: what policy_act returned, and the clock ticks it took (0 but on the Cortex-M4).
 */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "policy.h"

/* OBSERVATION and ACTION are the types of their numbers. */

#ifdef __arm__

/* SysTick counts down at 25 MHz. With qemu's "-icount shift=0" an instruction takes a nanosecond: 40 instructions a tick. */
#define SYSTICK ((volatile uint32_t *)0xE000E010)
static void start_clock(void) { SYSTICK[1] = 0xffffff, SYSTICK[2] = 0, SYSTICK[0] = 5; }
static int32_t ticks_since(uint32_t start) { return (int32_t)((start - SYSTICK[2]) & 0xffffff); }
static uint32_t now(void) { return SYSTICK[2]; }

extern void _start(void);
static void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xf << 20; /* let the program use the floating-point unit */
    __asm__ volatile("dsb\n isb");
    _start();
}
__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {(void (*)(void))0x20400000, reset};

#else

static void start_clock(void) {}
static int32_t ticks_since(uint32_t start) { return (int32_t)start; }
static uint32_t now(void) { return 0; }

#endif

int main(void) {
    int in = open("observations", O_RDONLY), out = open("actions", O_WRONLY);
    if (in < 0 || out < 0) return 1;
    OBSERVATION observation[POLICY_OBSERVATION_SIZE];
    struct {
        ACTION action[POLICY_ACTION_SIZE];
        int32_t status, ticks;
    } answer;
    start_clock();
    for (;;) {
        size_t got = 0;
        while (got < sizeof observation) {
            int n = (int)read(in, (char *)observation + got, sizeof observation - got);
            if (n <= 0) return n < 0 || got > 0; /* the simulation is over */
            got += (size_t)n;
        }
        memset(&answer, 0, sizeof answer);
        uint32_t start = now();
        answer.status = policy_act(observation, answer.action);
        answer.ticks = ticks_since(start);
        if (write(out, &answer, sizeof answer) != (int)sizeof answer) return 1;
    }
}
