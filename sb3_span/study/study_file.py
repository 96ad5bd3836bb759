"""The keys of a study's file, their allowed values, and the errors for other values."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

# Not ARS, which calls back while it compares agents.
ALGORITHMS = sorted(name for name, algo in ALGOS.items() if issubclass(algo, (OnPolicyAlgorithm, OffPolicyAlgorithm)))
# These learn from a data set of Minari, whose id takes the place of the environment's.
OFFLINE_ALGORITHMS = ("iql",)
DATASET_ID = re.compile(r"(?:[\w.-]+/)*[\w.-]+-v\d+")


def needs(what: str) -> WrapValidator:
    """
    :param what: The error for a value of another type
    """

    def validate(value: Any, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("needs", "{what}", {"what": what}) from None

    return WrapValidator(validate)


Count = Annotated[int, Field(ge=1), needs("a whole number of at least 1 is needed")]
Seeds = Annotated[
    Annotated[int, Field(ge=1)] | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)],
    needs("a number of seeds is needed, such as 20, or a list of them, such as [0, 1, 2]"),
]
Switch = Annotated[bool, needs("allowed are true and false")]
Values = Annotated[list[Any], Field(min_length=1), needs("a list of values is needed, such as [1, 3, 5]")]
Options = dict[str, Any]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Range(_Section):
    """The two ends of a search's range."""

    low: Any
    high: Any
    log: Any = False


class Environment(_Section):
    """An environment, or the data set of an offline algorithm. None for keys that are left out."""

    algo: Annotated[
        Literal[*ALGORITHMS, *OFFLINE_ALGORITHMS],  # type: ignore[valid-type]
        needs(f"allowed are {ALGORITHMS}, and {list(OFFLINE_ALGORITHMS)} for data sets"),
    ]
    steps: Count = Field(default=None)  # type: ignore[assignment]
    seeds: Seeds = Field(default=None)  # type: ignore[assignment]
    entry: Annotated[str, needs("the name of an entry in the hyperparameter files is needed")] = Field(default=None)  # type: ignore[assignment]
    overrides: Options = {}


class Method(_Section):
    """A way to train, with the hyperparameters of each environment or a file's name."""

    hyperparams: Annotated[str | dict[Any, Any], needs("the name of a file is needed, or a mapping of environments")]
    overrides: Options = {}


class Evaluation(_Section):
    """The paper's, unless the file says otherwise."""

    every: Count = 5000
    episodes: Count = 30


class StudyFile(_Section):
    """The whole file."""

    name: Annotated[
        str, Field(min_length=1), needs("a word is needed, or no key 'name' at all: then the study has the file's name")
    ] = Field(default=None)  # type: ignore[assignment]
    gym_packages: Annotated[list[str], needs("a list of packages is needed")] = []
    environments: dict[str, Environment]
    methods: dict[str, Method]
    seeds: Seeds
    evaluation: Evaluation = Evaluation()
    grid: dict[str, Values] = {}
    design: Annotated[Literal["one-factor", "full"], needs("allowed are ['one-factor', 'full']")] = "one-factor"
    search: dict[
        str,
        dict[
            str,
            Annotated[
                Annotated[list[Any], Field(min_length=1)] | Range,
                needs("a list of choices is needed, or a range like {low: 0.1, high: 10.0, log: true}"),
            ],
        ],
    ] = {}
    keep_models: Switch = True


SECTIONS: dict[str, type[BaseModel]] = {"environments": Environment, "methods": Method, "evaluation": Evaluation}


def check_file(study: Any) -> StudyFile:
    """
    :param study: The content of a study's file
    """
    try:
        checked = StudyFile.model_validate(study)
    except ValidationError as error:
        raise ValueError(_describe(error)) from None
    for key in ("environments", "methods"):
        if not getattr(checked, key):
            raise ValueError(f"{key} is empty; at least one is needed")
    for env, environment in checked.environments.items():
        if environment.algo in OFFLINE_ALGORITHMS and not DATASET_ID.fullmatch(env):
            raise ValueError(
                f"environments.{env}: {environment.algo} learns from a data set of Minari, such as D4RL/door/expert-v2, "
                "which this is not"
            )
    if checked.grid and checked.search:
        raise ValueError("a search varies the settings itself; remove 'grid' or 'search'")
    if unknown := set(checked.search) - set(checked.methods):
        raise ValueError(f"search has an unknown key {min(unknown)!r}; allowed are {sorted(checked.methods)}")
    for method, options in checked.search.items():
        for option, values in options.items():
            if isinstance(values, Range):
                _check_range(f"search.{method}.{option}", values)
    return checked


def check_mapping(where: str, mapping: Any) -> dict[str, Any]:
    """
    :param mapping: Any value, which must be a mapping with words as keys
    """
    if not isinstance(mapping, dict):
        raise ValueError(f"{where} is {mapping!r}; a mapping is needed")
    for key in mapping:
        if not isinstance(key, str):
            raise ValueError(_bad_key(where, key))
    return mapping


def _check_range(where: str, values: Range) -> None:
    ends = values.low, values.high
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends) or not ends[0] < ends[1]:
        raise ValueError(f"{where} goes from {ends[0]!r} to {ends[1]!r}; two numbers are needed, the lower one first")
    if not isinstance(values.log, bool):
        raise ValueError(f"{where}.log is {values.log!r}; allowed are true and false")
    if values.log and values.low <= 0:
        raise ValueError(f"{where} goes from {values.low!r} on a logarithmic scale; it must begin above 0")


def _describe(error: ValidationError) -> str:
    """The first mistake, in a sentence: what came in, and what is allowed."""
    # Unknown keys first: one may be a missing key, misspelt.
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    *groups, last = first["loc"] or ("",)
    where = ".".join(map(str, groups)) or "the study"
    if first["type"] == "extra_forbidden":
        section: type[BaseModel] = SECTIONS.get(str(groups[0]) if groups else "", StudyFile)
        allowed = section.model_fields
        return f"{where} has an unknown key {last!r}; allowed are {sorted(allowed)}"
    if first["type"] == "missing":
        return f"{where} lacks the key {last!r}"
    if last == "[key]":
        return _bad_key(".".join(map(str, groups[:-1])), groups[-1])
    if first["type"] == "invalid_key":
        return _bad_key(where, last)
    path = ".".join(map(str, first["loc"])) or "the study"
    what = first["ctx"]["what"] if first["type"] == "needs" else "a mapping is needed"
    return f"{path} is {first['input']!r}; {what}"


def _bad_key(where: str, key: Any) -> str:
    return f"{where} has the key {key!r}; a word is needed. Put it in quotes"
