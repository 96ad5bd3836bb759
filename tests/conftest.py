import pytest
import torch as th


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    """One thread (the suite runs in parallel processes) and the same weights in every run."""
    th.set_num_threads(1)
    th.manual_seed(0)
