"""The references of results: the paper's numbers, the expert's scores and those of a random policy."""

from functools import lru_cache
from importlib.resources import files

import numpy as np
import pandas as pd

from sb3_span.scores.thresholds import PERCENTS, threshold_score

DATA = files("sb3_span.scores") / "data"
RANDOM_SCORES = DATA / "random_scores.csv"


@lru_cache
def paper(table: str) -> pd.DataFrame:
    """
    :param table: A file in ``data/paper``, such as ``"anytime"``
    :return: The numbers as the paper prints them
    """
    return _read(DATA / "paper" / f"{table}.csv")


@lru_cache
def expert_scores() -> dict[str, float]:
    """The score of an expert, by environment; the settings file says where each comes from."""
    settings = paper("settings").dropna(subset="expert_score")
    return dict(zip(settings["env"], settings["expert_score"], strict=True))


@lru_cache
def random_scores() -> dict[str, float]:
    """The mean return of uniformly random actions, by environment (see :mod:`sb3_span.scores.random_scores`)."""
    scores = _read(RANDOM_SCORES)
    return dict(zip(scores["env"], scores["mean_return"], strict=True))


def known_environments() -> list[str]:
    """The environments with an expert score, in the paper's order."""
    return list(expert_scores())


def domains() -> dict[str, list[str]]:
    """The paper's two groups of environments."""
    settings = paper("settings").dropna(subset="domain")
    return {str(domain): list(group) for domain, group in settings.groupby("domain", sort=False)["env"]}


def thresholds(env: str) -> dict[int, float]:
    """
    :return: The score to meet at each percentage of the expert's; empty for an environment without an expert score
    """
    expert = expert_scores().get(env)
    return {} if expert is None else {percent: threshold_score(expert, percent) for percent in PERCENTS}


def normalise(env: str, scores: np.ndarray) -> np.ndarray:
    """Put scores on a scale where a random policy has 0 and the expert 1."""
    low, high = random_scores()[env], expert_scores()[env]
    return (scores - low) / (high - low)


def area_under_curve(env: str, means: np.ndarray) -> float:
    """
    The normalised area under the learning curve: the mean of all evaluations of a run. Learning early counts, and so does
    keeping what was learned.

    :param means: Mean return of each evaluation
    :return: On a scale where a random policy has 0 and the expert 1, where both are known. Evaluations below random count as
        random: how far below differs by environment, and must not decide between settings
    """
    if env in expert_scores():
        means = normalise(env, means).clip(min=0.0)
    return float(means.mean())


def _read(file) -> pd.DataFrame:
    with file.open() as stream:
        return pd.read_csv(stream)
