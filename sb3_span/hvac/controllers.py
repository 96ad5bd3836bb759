"""Controllers of the set points: a trained agent, a rule, or fixed values."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from gymnasium.spaces import flatdim

from sb3_span.hvac.buildings import DATA_CENTER, FIVE_ZONE, OUTDOOR
from sb3_span.hvac.env import BuildingEnv
from sb3_span.saved import find_model, load_agent, load_statistics

# From the last observation, shape (D,), and the environment, which has it in units, to an action, shape (A,).
Controller = Callable[[np.ndarray, BuildingEnv], np.ndarray]


def fixed(observation: np.ndarray, env: BuildingEnv) -> np.ndarray:
    """The set points of the building's file, all year."""
    return env.to_action(env.site.building.fixed)


def rule(observation: np.ndarray, env: BuildingEnv) -> np.ndarray:
    """A rule as an operator might write it, see :func:`data_center_rule` and :func:`office_rule`."""
    rules = {DATA_CENTER: data_center_rule, FIVE_ZONE: office_rule}
    return env.to_action(rules[env.site.building](env.readings))


def data_center_rule(readings: dict[str, float]) -> tuple[float, float]:
    """
    Cool air from outdoors is free, so the halls are then in the middle of the range. When the chiller has to work they are as
    warm as allowed, with a margin that grows when it is used up. The water is as warm as the weather allows.

    :param readings: The last observation in units, by name
    :return: Set points of the zones and of the chilled water in degrees Celsius
    """
    outdoor, warmest = readings[OUTDOOR], max(readings[zone] for zone in DATA_CENTER.zones)
    halls = np.interp(outdoor, (10.0, 16.0), (24.0, 26.0)) - 2.0 * max(0.0, warmest - 26.5)
    return float(halls), float(np.interp(outdoor, (15.0, 30.0), (10.0, 6.0)))


def office_rule(readings: dict[str, float]) -> tuple[float, float]:
    """
    The comfort range of the season by day and a wider one by night.

    :param readings: The last observation in units, by name
    :return: Set points for heating and for cooling in degrees Celsius
    """
    low, high = FIVE_ZONE.comfort(int(readings["month"]))
    at_work = 6 <= readings["hour"] < 18
    return (low, high) if at_work else (low - 4.0, high + 3.0)


REFERENCES: dict[str, Controller] = {"rule": rule, "fixed": fixed}


def load_controller(model: Path, vecnormalize: Path | None = None) -> Controller:
    """
    A trained agent, which acts without noise. Loading unpickles: only for files that you trust.

    :param model: A file that ``model.save`` wrote, or the folder of a study's run or of the Zoo
    :param vecnormalize: The file that ``VecNormalize.save`` wrote, if the agent was trained with one
    """
    file = find_model(model)
    if not file.is_file():
        raise ValueError(f"There is no model {file}. Name a file that model.save wrote, or the folder of a finished run.")
    agent = load_agent(file)
    normalization = None if vecnormalize is None else load_statistics(vecnormalize)

    def control(observation: np.ndarray, env: BuildingEnv) -> np.ndarray:
        if observation.shape != agent.observation_space.shape:
            raise ValueError(
                f"{file} was trained on {flatdim(agent.observation_space)} readings, and {env.site.env_id} has "
                f"{observation.shape[0]}: evaluate it on a site of the building that it was trained on."
            )
        if normalization is not None:
            observation = np.asarray(normalization.normalize_obs(observation))
        return agent.predict(observation, deterministic=True)[0]

    return control
