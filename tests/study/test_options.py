"""Misspelt options are told before the first run begins."""

from pathlib import Path

import pytest
import yaml

from sb3_span.study.command import run_study
from sb3_span.study.options import check_options
from sb3_span.study.plan import read_plan
from tests.study.runs import make_plan, ppo_run

STUDIES = Path(__file__).parents[2] / "zoo_configs"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_step": 64}, r"ppo has no option 'n_step'; allowed are .*'n_steps'"),
        ({"policy_kwargs": {"span_arch": {"nmode": 3}}}, "nmode"),
        ({"policy_kwargs": {"span_arch": {"pi": {"nmodes": 3}, "vf": {"nelem": 3}}}}, "nelem"),
    ],
)
def test_nothing_is_queued(options, message, tmp_path):
    (tmp_path / "study.yml").write_text(yaml.safe_dump(make_plan(ppo_run(200, **options)).resolved))
    with pytest.raises(ValueError, match=f"CartPole-v1__span__seed0: .*{message}"):
        run_study(tmp_path / "study.yml", tmp_path / "out", storage=None, n_workers=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", sorted(STUDIES.rglob("*.yml")), ids=lambda file: file.stem)
def test_the_studies_here(file):
    check_options(read_plan(file).runs)
