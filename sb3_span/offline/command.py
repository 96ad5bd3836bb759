"""``sb3-span offline train``: a study of data sets, from the command line."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from sb3_span.offline.minari_data import environment_id
from sb3_span.study.command import check_workers, open_study, remember, run_plan
from sb3_span.study.folder import STUDY_FILE
from sb3_span.study.plan import make_plan

METHODS = ("span", "mlp")


def train_offline(
    datasets: Sequence[str],
    methods: Sequence[str],
    n_seeds: int,
    folder: Path,
    *,
    steps: int,
    n_episodes: int,
    hyperparams: Path,
    download: bool,
    n_workers: int,
) -> bool:
    """
    Train IQL on data sets of Minari, or continue. The runs are a study in the given folder, to which further calls can add
    data sets, methods and seeds.

    :param datasets: Ids of data sets
    :param methods: From ``METHODS``
    :param n_seeds: Seeds for each data set and method
    :param folder: Folder for the records
    :param steps: Updates in a run
    :param n_episodes: Episodes of the evaluation at the end
    :param hyperparams: Folder with ``offline_span.yml`` and ``offline_mlp.yml``
    :param download: Whether to download missing data sets
    :param n_workers: Runs at a time
    :return: Whether every one of these runs is done
    """
    check_workers(n_workers)
    older = open_study(folder).runs if (folder / STUDY_FILE).exists() else []
    all_datasets = list(dict.fromkeys([*(run.env for run in older), *datasets]))
    all_methods = [method for method in METHODS if method in methods or any(run.method == method for run in older)]
    study = {
        "name": "offline",
        "environments": {
            dataset: {"algo": "iql", "entry": environment_id(dataset, download), "steps": steps} for dataset in all_datasets
        },
        "methods": {method: {"hyperparams": str(hyperparams.resolve() / f"offline_{method}.yml")} for method in all_methods},
        "seeds": max([n_seeds, *(run.seed + 1 for run in older)]),
        "evaluation": {"every": steps, "episodes": n_episodes},
    }
    plan = make_plan(study, folder / STUDY_FILE)
    remember(plan, folder)
    asked = [run for run in plan.runs if run.env in datasets and run.method in methods and run.seed < n_seeds]
    return run_plan(dataclasses.replace(plan, runs=asked), folder, None, n_workers)
