"""
The constants that observations are normalised with, measured once by ``python -m sb3_span.hvac.statistics``, in minutes.

They are those of a building whose set points are drawn at random every few hours, over a year in the mixed climate. Agents
trained with them can only be used with them: other constants make another environment, with another version in its id.
"""

import csv
from pathlib import Path

import numpy as np

from sb3_span.hvac.buildings import DATA_CENTER, FIVE_ZONE, Building, Site
from sb3_span.hvac.env import STATISTICS, BuildingEnv

HOURS = 4
COLUMNS = ("building", "name", "mean", "std")


def measure(building: Building) -> list[tuple[str, str, str, str]]:
    """
    :return: Rows of the file: the building's name, the reading's name, its mean, and its standard deviation, which is 1 for a
        reading that never changes
    """
    env = BuildingEnv(Site(building).env_id)
    env.reset(seed=0)
    env.action_space.seed(0)
    held = HOURS * env.n_steps // 8760
    readings: list[list[float]] = []
    is_over = False
    while not is_over:
        if len(readings) % held == 0:
            action = env.action_space.sample()
        _, _, _, is_over, _ = env.step(action)
        readings.append(list(env.readings.values()))
    table = np.array(readings)
    deviations = np.where(table.std(axis=0) > 1e-6, table.std(axis=0), 1.0)
    rows = zip(env.names, table.mean(axis=0), deviations, strict=True)
    return [(building.name, name, f"{mean:.5g}", f"{deviation:.5g}") for name, mean, deviation in rows]


def write(rows: list[tuple[str, str, str, str]]) -> None:
    with Path(str(STATISTICS)).open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def main() -> None:
    write([row for building in (DATA_CENTER, FIVE_ZONE) for row in measure(building)])


if __name__ == "__main__":
    main()
