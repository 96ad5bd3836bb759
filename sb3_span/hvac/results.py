"""The results of training and evaluation in a folder, for a report."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from sb3_span.hvac.buildings import Site, find_site
from sb3_span.hvac.controllers import REFERENCES
from sb3_span.hvac.monthly import monthly
from sb3_span.hvac.years import read_year, year_file
from sb3_span.report.load import Study, load_study

REFERENCE_FOLDER = "references"


@dataclass(frozen=True)
class Controlled:
    """
    A controlled year.

    :param controller: ``span``, ``mlp``, ``rule`` or ``fixed``
    :param seed: An agent's seed; 0 for a reference
    :param year: See :func:`sb3_span.hvac.years.simulate`
    :param months: See :func:`sb3_span.hvac.monthly.monthly`, by ``month``
    """

    controller: str
    seed: int
    year: pd.DataFrame = field(repr=False)
    months: pd.DataFrame = field(repr=False)

    @cached_property
    def days(self) -> set[tuple[int, int]]:
        """Month and day of every day of it."""
        return set(self.year[["month", "day"]].itertuples(index=False, name=None))

    @property
    def total_reward(self) -> float:
        return float(self.year["reward"].sum())


@dataclass(frozen=True)
class Years:
    """
    Every controlled year of a building in a climate.

    :param controlled: Agents first, then the references
    """

    site: Site
    controlled: list[Controlled]

    @property
    def controllers(self) -> list[str]:
        return list(dict.fromkeys(year.controller for year in self.controlled))

    @cached_property
    def months(self) -> list[str]:
        return list(self.controlled[0].months.index)

    def of(self, controller: str) -> list[Controlled]:
        return [year for year in self.controlled if year.controller == controller]

    def by_month(self, controller: str, column: str) -> pd.DataFrame:
        """
        :return: A column of the monthly statistics: a row for each month, a column for each seed
        """
        return pd.DataFrame({year.seed: year.months[column] for year in self.of(controller)})

    def tidy(self) -> pd.DataFrame:
        """
        :return: All monthly statistics, one row for each controller, seed and month
        """
        tables = [year.months.reset_index().assign(controller=year.controller, seed=year.seed) for year in self.controlled]
        together = pd.concat(tables, ignore_index=True)
        return together[["controller", "seed", *(name for name in together if name not in ("controller", "seed"))]]


@dataclass(frozen=True)
class Results:
    """
    :param study: The training
    :param sites: Controlled years by site, that of training first, if it has any
    """

    study: Study
    sites: list[Years]

    @property
    def env_id(self) -> str:
        return self.study.envs[0]

    @property
    def home(self) -> Years | None:
        """The controlled years on the site of training."""
        return next((years for years in self.sites if years.site.env_id == self.env_id), None)

    def normalised(self, returns: np.ndarray) -> np.ndarray | None:
        """
        The avoided share of the penalty of fixed set points: 0 is theirs, 1 would be no power and no discomfort.

        :param returns: Returns on the site of training
        :return: The same on that scale; None without a year of fixed set points there
        """
        fixed = self.home.of("fixed") if self.home else []
        return 1.0 - returns / fixed[0].total_reward if fixed else None


def load_results(folder: Path) -> Results:
    """
    :param folder: The folder of ``sb3-span hvac train``
    """
    study = load_study(folder)
    # The study's runs are already in order.
    sources = [(folder / "runs" / run.settings["key"], run.method, run.seed) for run in study.runs]
    sources += [(folder / REFERENCE_FOLDER / name, name, 0) for name in REFERENCES]
    found = {path.name for source, _, _ in sources for path in source.glob(year_file("*"))}
    names = [year_file(env_id) for env_id in study.envs if year_file(env_id) in found]
    sites = []
    for name in [*names, *sorted(found - set(names))]:
        site = find_site(name.removeprefix("year-").removesuffix(".csv.gz"))
        there = [source for source in sources if (source[0] / name).exists()]
        controlled = [_controlled(path / name, controller, seed, site) for path, controller, seed in there]
        _check_days([path / name for path, _, _ in there], controlled)
        sites.append(Years(site, controlled))
    return Results(study, sites)


def _check_days(files: list[Path], controlled: list[Controlled]) -> None:
    """Refuse to compare a month with a year."""
    for file, year in zip(files, controlled, strict=True):
        if year.days != controlled[0].days:
            counts = f"{len(year.days)} and {len(controlled[0].days)}"
            raise ValueError(
                f"{file} and {files[0]} have other days ({counts} of them), so they cannot be compared. Simulate one of them "
                "again with sb3-span hvac evaluate, or move it to another folder."
            )


def _controlled(path: Path, controller: str, seed: int, site: Site) -> Controlled:
    year = read_year(path)
    return Controlled(controller, seed, year, monthly(year, site.building).set_index("month"))
