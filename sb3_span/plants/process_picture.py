"""A picture of a process plant's episode, for videos: each controlled value and its set point so far."""

from collections.abc import Sequence

import numpy as np

WIDTH, HEIGHT, MARGIN = 480, 360, 30
PAPER, FRAME, SET_POINT, VALUE = (246, 248, 250), (208, 215, 222), (200, 85, 61), (27, 108, 168)


def draw(values: np.ndarray, set_points: np.ndarray, n_steps: int, names: Sequence[str]) -> np.ndarray:
    """
    :param values: Of what is controlled, in ranges of the set points, 0 the lowest and 1 the highest, shape (T, P)
    :param set_points: The same of the set points, shape (T, P)
    :param n_steps: Length of the episode
    :param names: Of what is controlled, with their units
    :return: RGB, shape (360, 480, 3)
    """
    try:
        import pygame
    except ImportError as error:
        raise ImportError(f"Pictures need pygame ({error}). Install it with: pip install 'sb3_span[zoo]'") from error
    pygame.font.init()
    font = pygame.font.Font(None, 22)
    canvas = pygame.Surface((WIDTH, HEIGHT))
    canvas.fill(PAPER)
    height = (HEIGHT - MARGIN) // len(names) - MARGIN
    columns = MARGIN + np.arange(n_steps + 1) * (WIDTH - 2 * MARGIN) / n_steps
    for i, name in enumerate(names):
        top = MARGIN + i * (height + MARGIN)
        pygame.draw.rect(canvas, FRAME, (MARGIN, top, WIDTH - 2 * MARGIN, height), 1)
        canvas.blit(font.render(name, True, VALUE), (MARGIN, top - 18))
        for series, color, width in ((set_points, SET_POINT, 2), (values, VALUE, 3)):
            # A third of the panel is for values beyond the range of the set points.
            rows = top + height * (5 / 6 - 2 / 3 * np.clip(series[:, i], -0.25, 1.25))
            points = list(zip(columns[: len(rows)], rows, strict=True))
            pygame.draw.lines(canvas, color, False, points if len(points) > 1 else points * 2, width)
    return np.transpose(np.array(pygame.surfarray.pixels3d(canvas)), (1, 0, 2))
