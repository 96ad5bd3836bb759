/* A board that is not there: the cart and the pole of CartPole-v1, simulated. Ends when the pole falls, or after 500 steps. */
#include <math.h>
#include <stdio.h>

#include "board.h"

void setup(void);
void loop(void);

static float x, speed, angle, spin, push;
static int steps, running = 1;

void board_start(void) {
    x = 0.02f, speed = -0.01f, angle = 0.03f, spin = 0.01f;
}

void board_read(float *observation) {
    observation[0] = x, observation[1] = speed, observation[2] = angle, observation[3] = spin;
}

void board_push(float force) { push = force; }

void board_wait(void) {
    const float gravity = 9.8f, pole = 0.1f, total = 1.1f, length = 0.5f, period = 0.02f; /* kg, m, s */
    float pull = (push + pole * length * spin * spin * sinf(angle)) / total;
    float spin_change = (gravity * sinf(angle) - cosf(angle) * pull) /
                        (length * (4.0f / 3.0f - pole * cosf(angle) * cosf(angle) / total));
    float speed_change = pull - pole * length * spin_change * cosf(angle) / total;
    x += period * speed, speed += period * speed_change;
    angle += period * spin, spin += period * spin_change;
    running = ++steps < 500 && fabsf(x) < 2.4f && fabsf(angle) < 0.2095f;
}

int main(void) {
    setup();
    while (running) loop();
    printf("The pole stood for %d steps.\n", steps);
    return 0;
}
