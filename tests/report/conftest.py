import shutil

import pytest

from tests.report.studies import rising, write_run


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory):
    """
    To read only. Two environments, two methods, six seeds, ten evaluations each; no plan.

    On CartPole-v1 SPAN's seed s scores 500 from evaluation s on. Three seeds of the MLP do so from evaluation 2 on, one of
    which ends at 100; the others stay at 130. On Acrobot-v1 SPAN solves the task and the MLP never gets anywhere.
    """
    folder = tmp_path_factory.mktemp("study")
    for seed in range(6):
        write_run(folder, "CartPole-v1", "span", seed, rising(20, 500, 10, seed), seconds_per_step=0.02)
        mlp = rising(20, 500, 10, 2) if seed < 3 else [130] * 10
        if seed == 2:
            mlp[-1] = 100
        write_run(folder, "CartPole-v1", "mlp", seed, mlp, seconds_per_step=0.01)
        write_run(folder, "Acrobot-v1", "span", seed, rising(-500, -90 - seed, 10, 1), seconds_per_step=0.02)
        write_run(folder, "Acrobot-v1", "mlp", seed, [-450 - seed] * 10, seconds_per_step=0.01)
    return folder


@pytest.fixture
def folder(study_folder, tmp_path):
    """A copy of the study, to add to."""
    return shutil.copytree(study_folder, tmp_path / "study")
