"""What a study runs: from a YAML file to a list of runs, each with its final settings. Reading one imports nothing."""

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sb3_span.shipped import HYPERPARAMS, find_hyperparams
from sb3_span.study.paths import check_option, differences, get_option, replace_options, short_names
from sb3_span.study.study_file import ALGORITHMS, Environment, Method, StudyFile, check_file, check_mapping
from sb3_span.study.yaml_file import read_yaml

MAX_NAME = 255  # bytes in a folder's name


@dataclass(frozen=True)
class Run:
    """
    One training run, with everything that decides its outcome.

    :param env: The environment's id; of an offline algorithm, the data set's
    :param cell: The grid's options that differ from the base setting, for example ``{"span_arch.nmodes": 3}``
    :param base: The base setting's values of the grid's options; None for one that the hyperparameter file leaves out
    """

    env: str
    algo: str
    method: str
    seed: int
    steps: int
    eval_freq: int
    n_eval_episodes: int
    hyperparams: dict[str, Any]
    cell: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)
    gym_packages: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of the run in its study, and of its folder."""
        names = short_names([*self.base, *self.cell])
        cell = [f"{names[option]}={value}" for option, value in self.cell.items()]
        name = "__".join([self.env, self.method, *cell, f"seed{self.seed}"])
        return "".join(letter if letter.isalnum() or letter in "._-=" else "-" for letter in name)

    def settings(self) -> dict[str, Any]:
        return {"key": self.key, **asdict(self), "gym_packages": list(self.gym_packages)}

    def check_settings(self, settings: Mapping[str, Any], where: Path) -> None:
        """
        Refuse the record of a run with other settings.

        :param settings: The content of its ``run.json``
        :param where: That file
        """
        for name, value in self.settings().items():
            if settings.get(name) != value:
                raise ValueError(
                    f"{where}: {name} is {settings.get(name)!r}, but the study has {value!r}. "
                    "Use another folder, or delete this run's."
                )

    @property
    def digest(self) -> str:
        """Equal for two runs if and only if their settings are."""
        return hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """
    :param resolved: The study's file with the hyperparameter files' content: it needs no other file
    :param search: For each method of a search, its options and the values to try: a list of choices, or the ends of a
        range
    :param keep_models: Whether the trained models are kept; then a finished run without its model is not done
    :param trusted: Whether the user lets it execute its own code
    """

    name: str
    runs: list[Run]
    resolved: dict[str, Any]
    search: dict[str, dict[str, Any]] = field(default_factory=dict)
    keep_models: bool = True
    trusted: bool = False

    def check_extends(self, older: "Plan", where: Path) -> None:
        """
        A study that was started may get more seeds, environments and methods; existing runs must not change.

        :param where: The file that holds the older plan
        """
        runs = {run.key: run for run in self.runs}
        for old in older.runs:
            if old.key not in runs:
                raise ValueError(
                    f"The study was started with the run {old.key!r} ({where}), which the study's file no longer has."
                )
            for option, was, is_now in differences(old.settings(), runs[old.key].settings()):
                raise ValueError(
                    f"{option} of the run {old.key!r} is {is_now!r}, but the study was started with {was!r} ({where})."
                )


def read_plan(path: Path | str) -> Plan:
    """
    :param path: A study's file, such as ``zoo_configs/smoke.yml``. The hyperparameter files that it names are relative to
        it.
    """
    path = Path(path)
    try:
        study = read_yaml(path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}. A study is a YAML file; the package's are in zoo_configs.") from error
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error
    try:
        return make_plan(study, path)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def make_plan(study: Any, path: Path) -> Plan:
    """
    :param study: The content of a study's file
    :param path: The file, to which hyperparameter files are relative
    """
    checked = check_file(study)
    methods = {name: _read_method(name, method, checked, path) for name, method in checked.methods.items()}
    for method, options in checked.search.items():
        for option, (env, entry) in itertools.product(options, methods[method].items()):
            check_option(entry, option, f"search.{method}.{option}", method, env)
    runs: list[Run] = []
    for env, environment in checked.environments.items():
        seeds = environment.seeds or checked.seeds
        # Seeds outside methods: a study that is cut short has the same seeds for every method.
        for seed, method in itertools.product(range(seeds) if isinstance(seeds, int) else seeds, methods):
            runs += _runs_of(checked, env, method, seed, methods[method][env])
    for key, count in Counter(run.key for run in runs).items():
        if count > 1:
            raise ValueError(f"{count} runs have the name {key!r}: a seed, a value or a name appears twice, or almost")
        if len(key.encode()) > MAX_NAME:
            raise ValueError(
                f"the run {key[:40]!r}... has a name of {len(key.encode())} bytes, and its folder can have {MAX_NAME}. Give "
                "the method, or what the grid varies, a shorter name"
            )
    name = checked.name or path.stem
    resolved = {**study, "name": name}
    resolved["methods"] = {name: {"hyperparams": entries} for name, entries in methods.items()}
    resolved["environments"] = {
        env: {key: value for key, value in options.items() if key not in ("entry", "overrides")}
        for env, options in study["environments"].items()
    }
    return Plan(name, runs, resolved, study.get("search", {}), checked.keep_models)


def _runs_of(checked: StudyFile, env: str, method: str, seed: int, entry: dict[str, Any]) -> Iterator[Run]:
    """A method's runs with one seed: one, or one for every cell of the grid."""
    environment, steps = checked.environments[env], _read_steps(checked.environments[env], env, method, entry)
    for option in checked.grid:
        check_option(entry, option, f"grid.{option}", method, env)
    base = {option: get_option(entry, option) for option in checked.grid}
    for cell in _cells(checked.grid, base, checked.design):
        yield Run(
            env=env,
            algo=environment.algo,
            method=method,
            seed=seed,
            steps=steps,
            eval_freq=checked.evaluation.every,
            n_eval_episodes=checked.evaluation.episodes,
            hyperparams={**replace_options(entry, cell), "n_timesteps": steps},
            cell=cell,
            base=base,
            gym_packages=tuple(checked.gym_packages),
        )


def _read_method(name: str, method: Method, checked: StudyFile, path: Path) -> dict[str, dict[str, Any]]:
    """
    :return: The method's hyperparameters for each environment, overrides included
    """
    entries: Any = method.hyperparams
    where = f"methods.{name}.hyperparams"
    if isinstance(entries, str):
        where = f"{where} ({entries})"
        try:
            entries = read_yaml(find_hyperparams(entries, path.parent))
        except OSError as error:
            raise ValueError(
                f"{where}: {error.strerror}; give a path relative to the study's file, or the name of one of the package's: "
                f"{', '.join(sorted(path.stem for path in HYPERPARAMS.glob('*.yml')))}"
            ) from error
        except ValueError as error:
            raise ValueError(f"{where} {error}") from error
    check_mapping(where, entries)
    result = {}
    for env, environment in checked.environments.items():
        entry = environment.entry or env
        if entry not in entries:
            known = [entry for entry, options in entries.items() if isinstance(options, dict) and entry not in ALGORITHMS]
            raise ValueError(f"{where} has no entry for {entry!r}; it has {known}")
        result[env] = check_mapping(f"{where}: {entry}", entries[entry])
        for source, overrides in ((f"methods.{name}", method.overrides), (f"environments.{env}", environment.overrides)):
            for option in overrides:
                check_option(result[env], option, f"{source}.overrides.{option}", name, env)
            result[env] = replace_options(result[env], overrides)
    return result


def _read_steps(environment: Environment, env: str, method: str, entry: dict[str, Any]) -> int:
    if environment.steps:
        return environment.steps
    steps = entry.get("n_timesteps")
    if isinstance(steps, float) and steps.is_integer():
        steps = int(steps)  # the Zoo's files have 1e6
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ValueError(
            f"environments.{env} has no steps, and n_timesteps in the method {method!r} is {steps!r}; a whole number of at "
            "least 1 is needed"
        )
    return steps


def _cells(grid: dict[str, list[Any]], base: dict[str, Any], design: str) -> Iterator[dict[str, Any]]:
    if design == "full":
        for combination in itertools.product(*grid.values()):
            cell = dict(zip(grid, combination, strict=True))
            yield {option: value for option, value in cell.items() if value != base[option]}
        return
    yield {}
    for option, values in grid.items():
        yield from ({option: value} for value in values if value != base[option])
