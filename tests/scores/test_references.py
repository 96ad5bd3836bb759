"""The numbers that results are measured against."""

import numpy as np
import pandas as pd
import pytest

from sb3_span.scores.random_scores import measure
from sb3_span.scores.references import (
    RANDOM_SCORES,
    area_under_curve,
    domains,
    expert_scores,
    known_environments,
    normalise,
    random_scores,
)


def test_every_expert_has_a_random_policy_and_a_domain():
    assert list(random_scores()) == known_environments() == [env for envs in domains().values() for env in envs]
    assert all(random_scores()[env] < expert_scores()[env] for env in known_environments())


def test_random_scores_can_be_measured_again():
    row = pd.read_csv(str(RANDOM_SCORES), dtype=str).iloc[0]
    again = measure("CartPole-v1", int(row["episodes"]), int(row["seed"]))
    assert (again["mean_return"], again["std_return"]) == (row["mean_return"], row["std_return"])


def test_normalised_scores():
    low = random_scores()["Acrobot-v1"]
    np.testing.assert_allclose(normalise("Acrobot-v1", np.array([low, -100.0])), [0, 1])
    # The paper's interquartile mean of Acrobot, 1.043, is a return of about -83.
    assert normalise("Acrobot-v1", np.array([-83.0]))[0] == pytest.approx(1.043, abs=0.001)


def test_area_under_curve():
    assert area_under_curve("CartPole-v1", np.full(4, 500.0)) == pytest.approx(1.0)
    # Learning early counts.
    early, late = np.array([100.0, 500.0, 500.0]), np.array([100.0, 100.0, 500.0])
    assert area_under_curve("CartPole-v1", early) > area_under_curve("CartPole-v1", late)
    # Far worse than random is no worse than random.
    assert area_under_curve("LunarLander-v3", np.array([-5000.0, -100.0])) > 0.0
    assert area_under_curve("Pendulum-v1", np.array([-900.0, -100.0])) == -500.0
