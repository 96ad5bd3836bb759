/* What the controller needs of a board. Write these four functions for yours. */
#ifndef BOARD_H
#define BOARD_H

void board_start(void);
void board_read(float *observation); /* cart position (m) and velocity (m/s), pole angle (rad) and angular velocity (rad/s) */
void board_push(float force);        /* on the cart, in newtons, until the next push */
void board_wait(void);               /* for the next of the periods of 20 ms */

#endif
