import pytest
import torch as th

import sb3_span  # noqa: F401  (before the tests import Stable-Baselines3: see sb3_span/quiet_gym.py)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults", type=float, default=0, metavar="MINUTES", help="disturb a study for so long; default: briefly"
    )


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    """One thread (the suite runs in parallel processes) and the same weights in every run, whichever tests were before."""
    th.set_num_threads(1)
    th.manual_seed(0)
    th.distributions.Distribution.set_default_validate_args(True)  # torch.compile ends that for the whole process


@pytest.fixture
def minari_folder(tmp_path, monkeypatch):
    """An empty folder where Minari looks for its data sets, here and in processes that are started."""
    folder = tmp_path / "minari"
    folder.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder
