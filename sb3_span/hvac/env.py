"""A simulated building as a Gymnasium environment: observations and actions normalised, EnergyPlus hidden."""

import csv
import datetime
import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_span.hvac.buildings import DEFAULT, SITES, Building, find_site
from sb3_span.hvac.energyplus import find_energyplus
from sb3_span.hvac.simulation import STALLED_SECONDS, Simulation

CALENDAR = 1991  # the year of the buildings' files; the weather is that of a typical year
# Readings are clipped to this many standard deviations.
CLIP = 10.0
STATISTICS = files("sb3_span.hvac") / "data" / "observations.csv"


class BuildingEnv(gym.Env):
    """
    One of Sinergym's buildings, controlled by two set points every ten or fifteen minutes. An episode is a year.

    Observations are the building's readings, each less its mean and divided by its standard deviation. Those are constants,
    measured once: they are the same for every method, in training and in evaluation. ``readings`` has the last observation in
    units, by name. Actions are from -1 to 1, between the lowest and the highest set points.

    :param env_id: One of our ids, such as ``SPANDataCenterHot-v0``, or Sinergym's
    :param first_day: The first day to simulate, as month and day: ``"07-01"``
    :param last_day: The last one
    :param folder: Folder for the working files, which keeps those of the last year; None for a temporary one
    :param stalled_seconds: How long a step of EnergyPlus may last before it counts as stalled
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        env_id: str = DEFAULT,
        first_day: str = "01-01",
        last_day: str = "12-31",
        folder: Path | str | None = None,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self.site = find_site(env_id)
        first, last = _day("first_day", first_day), _day("last_day", last_day)
        if last < first:
            raise ValueError(f"last_day is {last_day!r}, which is before first_day, {first_day!r}.")
        self._energyplus = find_energyplus()
        # Sinergym is installed. Importing it registers its environments.
        import sinergym

        arguments = gym.registry[self.site.sinergym_id].kwargs
        building_file = Path(sinergym.__file__).parent / "data" / "buildings" / arguments["building_file"]
        self._energyplus.check_fits(building_file)
        steps_per_hour = (arguments["building_config"] or {}).get("timesteps_per_hour") or _steps_per_hour(building_file)
        self.n_steps = ((last - first).days + 1) * 24 * steps_per_hour
        run_period = (first.day, first.month, CALENDAR, last.day, last.month, CALENDAR)
        self._arguments = {
            **arguments,
            "reward_kwargs": self.site.building.reward,
            "building_config": {"timesteps_per_hour": steps_per_hour, "runperiod": run_period},
        }
        self._folder = None if folder is None else Path(folder).absolute()
        self._stalled_seconds = stalled_seconds
        self._simulation: Simulation | None = None
        self._kept: Path | None = None

        self.names = [*arguments["time_variables"], *arguments["variables"], *arguments["meters"]]
        self.readings: dict[str, float] = {}
        self._means, self._scales = _statistics(self.site.building, self.names)
        self.observation_space = spaces.Box(-CLIP, CLIP, (len(self.names),), np.float32)
        self.set_points = list(arguments["actuators"])
        self._low, self._high = arguments["action_space"].low, arguments["action_space"].high
        self.action_space = spaces.Box(-1.0, 1.0, (len(self.set_points),), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.close()
        if self._kept is not None:
            shutil.rmtree(self._kept, ignore_errors=True)
        weather_seed = int(self.np_random.integers(1, 2**31))
        self._simulation = Simulation(self._energyplus, self._arguments, weather_seed, self._folder, self._stalled_seconds)
        self._kept = self._simulation.folder
        observation, info = self._simulation.first
        return self._observe(observation), info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._simulation is None:
            raise ValueError("No year is under way: call reset before the first step, and after the last.")
        set_points = self.to_set_points(action)
        try:
            observation, reward, terminated, truncated, info = self._simulation.step(set_points)
        except BaseException:
            self.close()  # it has failed or was interrupted: no year is under way
            raise
        if truncated:
            self.close()  # a year that is over needs no EnergyPlus while it waits to be reset
        return self._observe(observation), float(reward), terminated, truncated, info

    def close(self) -> None:
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None

    def to_set_points(self, action: np.ndarray) -> np.ndarray:
        """
        :param action: From -1 to 1, shape (A,)
        :return: Set points in the building's units, shape (A,)
        """
        share = (np.clip(action, -1.0, 1.0) + 1.0) / 2.0
        return np.clip(self._low + share * (self._high - self._low), self._low, self._high).astype(np.float32)

    def to_action(self, set_points: Any) -> np.ndarray:
        """
        :param set_points: Set points in the building's units, shape (A,); clipped to the lowest and the highest
        :return: The action that sets them, shape (A,)
        """
        share = (np.asarray(set_points) - self._low) / (self._high - self._low)
        return np.clip(2.0 * share - 1.0, -1.0, 1.0).astype(np.float32)

    def _observe(self, observation: np.ndarray) -> np.ndarray:
        self.readings = dict(zip(self.names, observation.tolist(), strict=True))
        return np.clip((observation - self._means) / self._scales, -CLIP, CLIP).astype(np.float32)


def make_env(env_id: str = DEFAULT, **options: Any) -> gym.Env:
    """
    A simulated building: by default the paper's data centre in New York's weather.

    The same as ``gym.make("sb3_span.hvac:SPANDataCenter-v0")``; accepts Sinergym's ids too.

    :param env_id: The building and its climate, such as ``SPANDataCenterHot-v0`` or ``Eplus-datacenter_cw-hot-continuous-v1``
    :param options: See :class:`BuildingEnv`
    """
    return gym.make(find_site(env_id).env_id, **options)


def register() -> None:
    """Register the environments with Gymnasium, and so for the RL Zoo. This needs neither Sinergym nor EnergyPlus."""
    for env_id in SITES:
        if env_id not in gym.registry:
            gym.register(env_id, entry_point="sb3_span.hvac.env:BuildingEnv", kwargs={"env_id": env_id})


def _statistics(building: Building, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """
    :return: Mean and standard deviation of each reading, shapes (D,)
    """
    with STATISTICS.open() as file:
        known = {row["name"]: row for row in csv.DictReader(file) if row["building"] == building.name}
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(
            f"The building observes {missing}, for which sb3_span has no mean and deviation: this version of Sinergym has "
            f"another {building.sinergym_name} than the one in constraints-hvac.txt."
        )
    return tuple(np.array([float(known[name][column]) for name in names]) for column in ("mean", "std"))  # type: ignore[return-value]


def _steps_per_hour(building_file: Path) -> int:
    (timestep,) = json.loads(building_file.read_text())["Timestep"].values()
    return timestep["number_of_timesteps_per_hour"]


def _day(name: str, text: str) -> datetime.date:
    try:
        return datetime.datetime.strptime(f"{CALENDAR}-{text}", "%Y-%m-%d").date()
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is {text!r}; a month and a day are needed, such as '07-31'.") from error
