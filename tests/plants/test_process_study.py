"""The study of the process plants: sizes of its networks, and records that the code still reproduces."""

from pathlib import Path

import pandas as pd
import pytest

from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_controllers import PID, Fixed
from sb3_span.plants.process_episodes import play
from sb3_span.plants.process_plants import PLANTS
from sb3_span.policies.budget import count_parameters
from sb3_span.study.plan import read_plan
from sb3_span.study.run import StudyManager

pytest.importorskip("pcgym", reason="the extra 'process' is not installed")
ROOT = Path(__file__).parents[2]


def test_networks_have_the_same_size():
    sizes = {}
    for run in read_plan(ROOT / "zoo_configs" / "process.yml").runs:
        if run.seed == 10:
            agent = StudyManager(run).make_agent()
            sizes[run.env, run.method] = count_parameters(agent.policy)
            agent.env.close()
    for env_id, span in zip(PLANTS, (1539, 2245, 1861), strict=True):
        assert sizes[env_id, "span"] == span
        assert sizes[env_id, "mlp"] == pytest.approx(span, abs=5)
        assert sizes[env_id, "mlp-64"] > 4 * span


@pytest.mark.parametrize("env_id", PLANTS)
def test_records_of_the_references(env_id):
    rows = pd.read_csv(ROOT / "results" / "process" / "episodes.csv")
    env = ProcessEnv(env_id)
    for method, controller in (("pid", PID()), ("fixed", Fixed())):
        row = rows[(rows.env == env_id) & (rows.method == method)].iloc[0]
        measures = play(env, controller, int(row.episode)).measures()
        assert measures == pytest.approx({name: row[name] for name in measures}, rel=1e-4, abs=1e-6)
