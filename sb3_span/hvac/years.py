"""A controlled year, step by step: simulated, written, read."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from sb3_span.atomic_files import written_whole
from sb3_span.hvac.buildings import OUTDOOR, POWER
from sb3_span.hvac.controllers import Controller
from sb3_span.hvac.env import BuildingEnv

TIME = {"month": "month", "day_of_month": "day", "hour": "hour"}
# More digits would be noise, and make the files twice as large.
DIGITS = {"reward": 5, "power": 1}


def simulate(
    env: BuildingEnv, controller: Controller, seed: int = 0, on_step: Callable[[], object] | None = None
) -> pd.DataFrame:
    """
    One episode with every step recorded. The environment is closed afterwards.

    :param env: The building
    :param controller: Its controller
    :param seed: Seed of the weather, where it is random
    :param on_step: Called after every step
    :return: A row for every step: ``month``, ``day``, ``hour``, ``outdoor_temperature``, the zones' temperatures, ``power``
        of heating, ventilation and cooling in watts, the set points as ``set_<name>``, ``reward``. The last row repeats the
        readings of the one before, as Sinergym does at a year's end
    """
    building = env.site.building
    kept = [*TIME, OUTDOOR, *building.zones, POWER]
    rows = np.empty((env.n_steps, len(kept) + len(env.set_points) + 1))
    n_rows, is_over = 0, False
    try:
        observation, _ = env.reset(seed=seed)
        while not is_over:
            action = controller(observation, env)
            observation, reward, _, is_over, _ = env.step(action)
            rows[n_rows] = [*(env.readings[name] for name in kept), *env.to_set_points(action), reward]
            n_rows += 1
            if on_step is not None:
                on_step()
    finally:
        env.close()
    columns = [*TIME.values(), OUTDOOR, *building.zones, "power", *(f"set_{name}" for name in env.set_points), "reward"]
    year = pd.DataFrame(rows[:n_rows], columns=columns)
    return year.astype(dict.fromkeys(TIME.values(), int)).round({name: DIGITS.get(name, 3) for name in columns})


def year_file(env_id: str) -> str:
    """The name of the file with a year of an environment."""
    return f"year-{env_id}.csv.gz"


def write_year(year: pd.DataFrame, path: Path) -> None:
    with written_whole(path) as temporary:
        # Without a name and the time of writing, equal years give equal files.
        temporary.write_bytes(gzip.compress(year.to_csv(index=False, lineterminator="\n").encode(), mtime=0))


def read_year(path: Path) -> pd.DataFrame:
    """
    :param path: A file that :func:`write_year` wrote
    """
    try:
        year = pd.read_csv(path)
    except FileNotFoundError:
        raise ValueError(f"There is no {path}. sb3-span hvac evaluate writes it.") from None
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a year that sb3-span hvac evaluate wrote, or it is damaged: {error}") from error
    missing = {*TIME.values(), OUTDOOR, "power", "reward"} - set(year)
    if missing:
        raise ValueError(f"{path} is not a year that sb3-span hvac evaluate wrote: it has no {', '.join(sorted(missing))}.")
    return year
