"""A picture of the quarter car on its road, for videos."""

import numpy as np

from sb3_span.plants.quarter_car import TRAVEL, TYRE

WIDTH, HEIGHT = 480, 360
METRES = 0.0025  # a pixel, up and down; seven times as large as along the road, or little would be seen to move
AHEAD = 4.0  # metres of road on either side
SKY, ROAD, BODY, WHEEL, SPRING = (246, 248, 250), (106, 115, 125), (27, 108, 168), (36, 41, 46), (200, 85, 61)


def draw(heights: np.ndarray, now: int, metres_per_step: float, state: np.ndarray, force_share: float) -> np.ndarray:
    """
    :param heights: Of the road, shape (T,)
    :param now: The step at which the car is
    :param metres_per_step: Of the road
    :param state: The car's, shape (14,)
    :param force_share: The actuator's force relative to its limit
    :return: RGB, shape (360, 480, 3)
    """
    try:
        import pygame
    except ImportError as error:
        raise ImportError(f"Pictures need pygame ({error}). Install it with: pip install 'sb3_span[zoo]'") from error
    canvas = pygame.Surface((WIDTH, HEIGHT))
    canvas.fill(SKY)
    middle, ground = WIDTH // 2, 300

    def row(metres: float) -> int:
        return round(ground - metres / METRES)

    distances = np.linspace(-AHEAD, AHEAD, WIDTH)
    steps = np.clip(now + distances / metres_per_step, 0, len(heights) - 1)
    # Relative to the road's slow hills, which the picture follows.
    hill = float(np.interp(steps, np.arange(len(heights)), heights).mean())
    surface = np.interp(steps, np.arange(len(heights)), heights) - hill
    pygame.draw.polygon(canvas, ROAD, [(0, HEIGHT), *((x, row(z)) for x, z in enumerate(surface)), (WIDTH, HEIGHT)])
    road = float(heights[min(now, len(heights) - 1)]) - hill
    axle = row(road + float(state[TYRE])) - 42
    body = axle - 110 - round(float(state[TRAVEL]) / METRES)
    for x, width in ((middle - 16, 3), (middle + 16, 7)):
        pygame.draw.line(canvas, SPRING, (x, axle), (x, body), width)
    pygame.draw.circle(canvas, WHEEL, (middle, axle), 42)
    pygame.draw.circle(canvas, SKY, (middle, axle), 20)
    pygame.draw.rect(canvas, BODY, (middle - 90, body - 60, 180, 60), border_radius=10)
    arrow = round(50 * force_share)
    pygame.draw.line(canvas, SPRING, (middle + 110, body - 30), (middle + 110, body - 30 - arrow), 6)
    return np.transpose(np.array(pygame.surfarray.pixels3d(canvas)), (1, 0, 2))
