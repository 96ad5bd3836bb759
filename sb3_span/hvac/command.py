"""``sb3-span hvac``: train, evaluate, report."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch as th
from gymnasium.error import DependencyNotInstalled
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sb3_span.hvac.buildings import DEFAULT, find_site
from sb3_span.hvac.controllers import REFERENCES, load_controller
from sb3_span.hvac.env import BuildingEnv
from sb3_span.hvac.monthly import WHOLE_YEAR, monthly
from sb3_span.hvac.results import REFERENCE_FOLDER
from sb3_span.hvac.simulation import SimulationError
from sb3_span.hvac.training import train
from sb3_span.hvac.years import simulate, write_year, year_file
from sb3_span.saved import env_name, env_of, find_model, find_vecnormalize
from sb3_span.saved.environments import env_options, find_env_id
from sb3_span.saved.names import MODEL
from sb3_span.saved.normalization import describe
from sb3_span.study.records import run_folders


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Report an EnergyPlus that is missing, of another version, or fails, as the user's error."""
    try:
        yield
    except (DependencyNotInstalled, SimulationError) as error:
        raise ValueError(str(error)) from error


@plain_errors()
def train_and_evaluate(folder: Path, env_id: str, evaluate_on: list[str], days: dict[str, Any], **options: Any) -> bool:
    """
    Train agents, then control a year with each of them, with the rule and with fixed set points, and record every step.

    :param folder: The study's folder; years go into the runs' folders, and into ``references``
    :param env_id: The building and its climate
    :param evaluate_on: The same for the controlled years; none for that of training
    :param days: ``first_day`` and ``last_day``, for years that are shorter
    :param options: See :func:`sb3_span.hvac.training.train`
    :return: Whether all agents are trained
    """
    sites = [find_site(site).env_id for site in evaluate_on or [env_id]]
    for site in [env_id, *sites]:
        BuildingEnv(site, **days)  # errors in any of them are reported before hours of training
    if not train(env_id, folder=folder, days=days, **options):
        return False
    references = [folder / REFERENCE_FOLDER / name for name in REFERENCES]
    for target in [*references, *(path for path in run_folders(folder) if (path / MODEL).is_file())]:
        for site in sites:
            if not (target / year_file(site)).exists():
                evaluate(target.name if target in references else str(target), [site], target, days)
    return True


@plain_errors()
def evaluate(
    model: str,
    evaluate_on: list[str],
    output: Path | None = None,
    days: dict[str, Any] | None = None,
    vecnormalize: Path | None = None,
) -> None:
    """
    Control a year and record every step.

    :param model: A model's file, a run's folder, or one of the references: ``rule``, ``fixed``
    :param evaluate_on: The buildings and climates to control; none for that of training
    :param output: Folder for the years; None for that of the model
    :param days: ``first_day`` and ``last_day``, for a year that is shorter; None for those of training
    :param vecnormalize: VecNormalize's file, or the word "none"; None uses the one next to the model
    """
    th.set_num_threads(1)
    path = Path(model)
    trained_on, trained_days, is_run = DEFAULT, {}, False
    if model in REFERENCES:
        controller, seen = REFERENCES[model], ""
    else:
        file = find_model(path)
        statistics = find_vecnormalize(file, vecnormalize)
        controller, seen = load_controller(file, statistics), f", {describe(file, statistics)}"
        trained_on, trained_days, is_run = env_name(env_of(file) or DEFAULT), env_options(file), find_env_id(file) is not None
    if days is None:
        days = trained_days
    elif output is None and is_run and days != trained_days:
        raise ValueError(
            "These are not the days that the agent was trained on, and in its folder the report would mix them with others. "
            "Name another folder with --output."
        )
    output = output or (path if model in REFERENCES or path.is_dir() else path.parent)
    console = Console()
    for env_id in evaluate_on or [trained_on]:
        env = BuildingEnv(env_id, **days)
        with _bar(console) as bar:
            task = bar.add_task(f"{path.name} on {env.site.env_id}", total=env.n_steps)
            year = simulate(env, controller, on_step=lambda: bar.advance(task))  # noqa: B023 (called within the loop)
        target = output / year_file(env.site.env_id)
        write_year(year, target)
        whole = monthly(year, env.site.building).set_index("month").loc[WHOLE_YEAR]
        console.print(
            f"{path.name} on {env.site.env_id}: return {year['reward'].sum():,.0f}, mean power "
            f"{whole['power'] / 1000:,.1f} kW, outside the comfort range {100 * whole['outside']:.2f} % of the time{seen}. "
            f"Written: {target}",
            highlight=False,
            soft_wrap=True,
        )


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
