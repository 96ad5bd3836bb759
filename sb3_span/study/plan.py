"""What a study runs: from a YAML file to a list of runs, each with its final settings."""

import copy
import hashlib
import importlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

STUDY_KEYS = {
    "name",
    "gym_packages",
    "environments",
    "methods",
    "seeds",
    "evaluation",
    "grid",
    "design",
    "search",
    "keep_models",
}
ENVIRONMENT_KEYS = {"algo", "steps", "seeds", "entry", "overrides"}
METHOD_KEYS = {"hyperparams", "overrides"}
EVALUATION_KEYS = {"every", "episodes"}
# Not ARS, which calls back in the middle of comparing agents.
ALGORITHMS = sorted(name for name, algo in ALGOS.items() if issubclass(algo, (OnPolicyAlgorithm, OffPolicyAlgorithm)))
# These learn from a data set of Minari, whose id stands where others have their environment's.
OFFLINE_ALGORITHMS = ("iql",)
DATASET_ID = re.compile(r"(?:[\w.-]+/)*[\w.-]+-v\d+")
DESIGNS = ("one-factor", "full")
RANGE_KEYS = {"low", "high", "log"}


@dataclass(frozen=True)
class Run:
    """
    One training run. Everything that decides its outcome is in here.

    :param env: The environment's id; of an offline algorithm, the data set's
    :param cell: The grid's options that differ from the base setting, for example ``{"span_arch.nmodes": 3}``
    :param base: What the grid's options are in the base setting; None for one that the hyperparameter file leaves out
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

        :param settings: What its ``run.json`` has
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
        """Equal for two runs exactly when their settings are."""
        return hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """
    :param resolved: The study's file with the hyperparameter files read in: it stands alone
    :param search: For each method that settings are searched for, its options and what each may be: a list of choices, or the
        ends of a range
    :param keep_models: Whether the trained models are kept; then a finished run without its model is not done
    """

    name: str
    runs: list[Run]
    resolved: dict[str, Any]
    search: dict[str, dict[str, Any]] = field(default_factory=dict)
    keep_models: bool = True

    def check_extends(self, older: "Plan", where: Path) -> None:
        """
        A study that was started may grow (more seeds, environments, methods); what it has must stay as it was.

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


def short_names(options: list[str]) -> dict[str, str]:
    """
    :param options: Paths such as ``span_arch.nmodes``
    :return: For each the end of it that tells it from the others: ``nmodes``, or ``pi.nmodes`` beside ``vf.nmodes``
    """
    names = {}
    for option in dict.fromkeys(options):
        parts = option.split(".")
        ends = [".".join(parts[-n:]) for n in range(1, len(parts) + 1)]
        others = [other for other in options if other != option]
        names[option] = next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)), option)
    return names


def read_plan(path: Path | str) -> Plan:
    """
    :param path: A study's file, such as ``zoo_configs/smoke.yml``. The hyperparameter files that it names are looked up
        beside it.
    """
    path = Path(path)
    try:
        study = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}. A study is a YAML file; the package's are in zoo_configs.") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    try:
        return make_plan(study, path)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def make_plan(study: Any, path: Path) -> Plan:
    """
    :param study: What a study's file says
    :param path: The file, beside which hyperparameter files are looked up
    """
    name, gym_packages = _read_head(study, path)
    evaluation = {"every": 5000, "episodes": 30, **_check_keys("evaluation", study.get("evaluation", {}), EVALUATION_KEYS)}
    for key in EVALUATION_KEYS:
        _check_count(f"evaluation.{key}", evaluation[key])
    grid = _read_grid(study.get("grid", {}))
    if grid and study.get("search"):
        raise ValueError("a search varies the settings itself; remove 'grid' or 'search'")
    design = study.get("design", DESIGNS[0])
    if design not in DESIGNS:
        raise ValueError(f"design is {design!r}; allowed are {list(DESIGNS)}")

    for env, options in study["environments"].items():
        _check_environment(env, options)
    methods = {name: _read_method(name, method, study["environments"], path) for name, method in study["methods"].items()}
    runs: list[Run] = []
    for env, options in study["environments"].items():
        # Seeds outside methods: a study that is cut short has the same seeds for every method.
        for seed, (method, entries) in itertools.product(_read_seeds(options.get("seeds", study["seeds"])), methods.items()):
            entry, steps = entries[env], _read_steps(env, method, options, entries[env])
            for option in grid:
                _look_up(entry, option, f"grid.{option}", method, env)
            base = {option: get_option(entry, option) for option in grid}
            for cell in _cells(grid, base, design):
                hyperparams = replace_options(entry, cell)
                hyperparams["n_timesteps"] = steps
                runs.append(
                    Run(
                        env=env,
                        algo=options["algo"],
                        method=method,
                        seed=seed,
                        steps=steps,
                        eval_freq=evaluation["every"],
                        n_eval_episodes=evaluation["episodes"],
                        hyperparams=hyperparams,
                        cell=cell,
                        base=base,
                        gym_packages=tuple(gym_packages),
                    )
                )
    for key, count in Counter(run.key for run in runs).items():
        if count > 1:
            raise ValueError(f"{count} runs have the name {key!r}: a seed, a value or a name is there twice, or almost")
    resolved = {**study, "name": name}
    resolved["methods"] = {name: {"hyperparams": entries} for name, entries in methods.items()}
    resolved["environments"] = {
        env: {key: value for key, value in options.items() if key not in ("entry", "overrides")}
        for env, options in study["environments"].items()
    }
    return Plan(name, runs, resolved, _read_search(study.get("search", {}), methods), study.get("keep_models", True))


def _read_head(study: Any, path: Path) -> tuple[str, list[str]]:
    """
    :return: The study's name, and the packages that register its environments, imported
    """
    _check_keys("the study", study, STUDY_KEYS, required=("environments", "methods", "seeds"))
    gym_packages = study.get("gym_packages", [])
    if not isinstance(gym_packages, list) or not all(isinstance(package, str) for package in gym_packages):
        raise ValueError(f"gym_packages is {gym_packages!r}; a list of packages is needed")
    for package in gym_packages:
        _import(package)
    name = study.get("name", path.stem)
    if not isinstance(name, str) or not name:
        raise ValueError(f"name is {name!r}; a word is needed, or no key 'name' at all: then the file's name is taken")
    for key in ("environments", "methods"):
        if not _check_keys(key, study[key], None):
            raise ValueError(f"{key} is empty; at least one is needed")
    return name, gym_packages


def _read_method(name: str, method: Any, environments: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """
    :return: The method's hyperparameters for each environment, overrides included
    """
    _check_keys(f"methods.{name}", method, METHOD_KEYS, required=("hyperparams",))
    entries = method["hyperparams"]
    where = f"methods.{name}.hyperparams"
    if isinstance(entries, str):
        file = path.parent / entries
        where = f"{where} ({entries})"
        try:
            entries = yaml.safe_load(file.read_text())
        except OSError as error:
            raise ValueError(f"{where}: {error.strerror}; the path is relative to the study's file") from error
        except yaml.YAMLError as error:
            raise ValueError(f"{where} is not YAML: {error}") from error
    _check_keys(where, entries, None)
    result = {}
    for env in environments:
        entry = environments[env].get("entry", env)
        if entry not in entries:
            known = [entry for entry, options in entries.items() if isinstance(options, dict) and entry not in ALGORITHMS]
            raise ValueError(f"{where} has no entry for {entry!r}; it has {known}")
        result[env] = _check_keys(f"{where}: {entry}", entries[entry], None)
        for source, options in ((f"methods.{name}", method), (f"environments.{env}", environments[env])):
            overrides = _check_keys(f"{source}.overrides", options.get("overrides", {}), None)
            for option in overrides:
                _look_up(result[env], option, f"{source}.overrides.{option}", name, env)
            result[env] = replace_options(result[env], overrides)
    return result


def _read_steps(env: str, method: str, options: dict[str, Any], entry: dict[str, Any]) -> int:
    if "steps" in options:
        where, steps = f"environments.{env}.steps", options["steps"]
    else:
        where, steps = f"environments.{env} has no steps, and n_timesteps in the method {method!r}", entry.get("n_timesteps")
        if isinstance(steps, float) and steps.is_integer():
            steps = int(steps)  # the Zoo's files have 1e6
    _check_count(where, steps)
    return steps


def _read_grid(grid: Any) -> dict[str, list[Any]]:
    _check_keys("grid", grid, None)
    for option, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"grid.{option} is {values!r}; a list of values is needed, such as [1, 3, 5]")
    return grid


def _read_search(search: Any, methods: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    _check_keys("search", search, set(methods))
    for method, options in search.items():
        for option, values in _check_keys(f"search.{method}", options, None).items():
            where = f"search.{method}.{option}"
            for env, entry in methods[method].items():
                _look_up(entry, option, where, method, env)
            if isinstance(values, list) and values:
                continue
            if not isinstance(values, dict) or not {"low", "high"} <= set(values) <= RANGE_KEYS:
                raise ValueError(
                    f"{where} is {values!r}; a list of choices is needed, or a range like {{low: 0.1, high: 10.0, log: true}}"
                )
            ends = values["low"], values["high"]
            if any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends) or not ends[0] < ends[1]:
                raise ValueError(f"{where} goes from {ends[0]!r} to {ends[1]!r}; two numbers are needed, the lower one first")
            if not isinstance(values.get("log", False), bool):
                raise ValueError(f"{where}.log is {values['log']!r}; allowed are true and false")
            if values.get("log") and ends[0] <= 0:
                raise ValueError(f"{where} goes from {ends[0]!r} on a logarithmic scale; it must begin above 0")
    return search


def _cells(grid: dict[str, list[Any]], base: dict[str, Any], design: str) -> Iterator[dict[str, Any]]:
    if design == "full":
        for combination in itertools.product(*grid.values()):
            cell = dict(zip(grid, combination, strict=True))
            yield {option: value for option, value in cell.items() if value != base[option]}
        return
    yield {}
    for option, values in grid.items():
        yield from ({option: value} for value in values if value != base[option])


def _read_seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds > 0:
        return list(range(seeds))
    if isinstance(seeds, list) and seeds and all(type(seed) is int and seed >= 0 for seed in seeds):
        return seeds
    raise ValueError(f"seeds is {seeds!r}; a number of seeds is needed, such as 20, or a list of them, such as [0, 1, 2]")


def _check_environment(env: str, options: Any) -> None:
    _check_keys(f"environments.{env}", options, ENVIRONMENT_KEYS, required=("algo",))
    if options["algo"] not in (*ALGORITHMS, *OFFLINE_ALGORITHMS):
        allowed = f"{ALGORITHMS}, and {list(OFFLINE_ALGORITHMS)} for data sets"
        raise ValueError(f"environments.{env}.algo is {options['algo']!r}; allowed are {allowed}")
    if options["algo"] in OFFLINE_ALGORITHMS:
        if not DATASET_ID.fullmatch(env):
            raise ValueError(
                f"environments.{env}: {options['algo']} learns from a data set of Minari, such as D4RL/door/expert-v2, "
                "and this is no such id"
            )
        return
    try:
        gym.spec(env)
    except gym.error.Error as error:
        raise ValueError(
            f"environments.{env}: Gymnasium does not know it ({error}). Name the package that registers it under gym_packages"
        ) from error


def _import(package: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise ValueError(f"gym_packages: {error}") from error


def _check_keys(where: str, mapping: Any, allowed: set[str] | None, required: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(mapping, dict):
        raise ValueError(f"{where} is {mapping!r}; a mapping is needed")
    for key in mapping:
        if not isinstance(key, str):
            raise ValueError(f"{where} has the key {key!r}; a word is needed. Put it in quotes")
        if allowed is not None and key not in allowed:
            raise ValueError(f"{where} has an unknown key {key!r}; allowed are {sorted(allowed)}")
    for key in required:
        if key not in mapping:
            raise ValueError(f"{where} lacks the key {key!r}")
    return mapping


def _check_count(where: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{where} is {value!r}; a whole number of at least 1 is needed")


def _parts(option: str) -> list[str]:
    # The options that studies vary most have a short form.
    return f"policy_kwargs.{option}".split(".") if option.startswith("span_arch.") else option.split(".")


def _look_up(entry: dict[str, Any], option: str, where: str, method: str, env: str) -> None:
    """Refuse an option of a group that the method does not have, such as ``span_arch.nmodes`` of an MLP."""
    for part in _parts(option)[:-1]:
        if not isinstance(entry.get(part), dict):
            raise ValueError(f"{where}: the hyperparameters of the method {method!r} for {env} have no {part!r} to vary")
        entry = entry[part]


def get_option(entry: dict[str, Any], option: str) -> Any:
    """An option of a Zoo file's entry by its path, such as ``span_arch.nmodes``; None where it is left out."""
    *groups, last = _parts(option)
    for group in groups:
        entry = entry[group]
    return entry.get(last)


def replace_options(entry: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A copy of a Zoo file's entry with other values for some options, by their paths."""
    entry = copy.deepcopy(entry)
    for option, value in options.items():
        *groups, last = _parts(option)
        target = entry
        for group in groups:
            target = target[group]
        target[last] = value
    return entry


def differences(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two plans' settings differ: the path, what it was, what it is."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    elif old != new:
        yield where, old, new
