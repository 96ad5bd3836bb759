/* Balances a pole with a policy that examples/export_to_c.py has exported: sensors in, policy, motor out, fifty times a second.
 *
 * setup() and loop() are what Arduino, ESP32 and the like call. What depends on the board is behind board.h; for a start there is
 * a simulated one, which runs on any computer. In the repository's root, after the export:
 *
 *   cd examples/microcontroller
 *   cc -std=c99 -I ../../cartpole controller.c board_simulated.c ../../cartpole/policy.c -lm -o controller && ./controller
 */
#include "board.h"
#include "policy.h"

void setup(void) { board_start(); }

void loop(void) {
    /* The same numbers in the same order and units as in training; policy.h says how many. */
    float observation[POLICY_OBSERVATION_SIZE];
    int32_t action[POLICY_ACTION_SIZE];
    board_read(observation);
    if (policy_act(observation, action) == POLICY_OK)
        board_push(action[0] == 1 ? 10.0f : -10.0f); /* newtons */
    else
        board_push(0.0f); /* a sensor has sent what is not a number */
    board_wait();
}
