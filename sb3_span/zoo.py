"""
SPAN inside the RL Zoo.

For agents: ``make_agent`` builds one from a Zoo file, in a script.

For ``rl_zoo3.train``: ``--gym-packages sb3_span.zoo`` imports this module, which changes the Zoo's tables. Searches
(``-optimize``), which otherwise draw an MLP's layers, draw ``span_arch`` when the policy is SPAN's. ``ppo`` and ``sac`` are
``sb3_span.PPO`` and ``sb3_span.SAC``, which learn the same as SB3's in less time, whatever the policy.
``import sb3_span`` alone changes neither.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import yaml
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER
from rl_zoo3.utils import ALGOS, get_class_by_name
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule

from sb3_span import algorithms
from sb3_span.policies.optimizers import GradientClipping
from sb3_span.policies.options import MLP_OPTIONS, SPANOptions
from sb3_span.policies.registry import ALIAS, policy_for


def make_agent(hyperparams: Path | str, env_id: str, seed: int, *, sb3: bool = False, **overrides: Any) -> BaseAlgorithm:
    """
    The PPO or SAC agent that a Zoo file describes, with its environments.

    :param hyperparams: A Zoo file of plain values, such as ``hyperparams/span.yml``; ``rl_zoo3.train`` also supports
        normalisation, wrappers and values written in Python
    :param env_id: The environment, which has an entry in the file
    :param seed: Seed of the agent and of the environments
    :param sb3: Whether it is SB3's own PPO or SAC instead of sb3_span's, which learn the same in less time
    :param overrides: Arguments of the algorithm that replace those of the file
    """
    advice = (
        "Only PPO and SAC agents with plain values are built here; train others with "
        f"python -m rl_zoo3.train --algo ... --env {env_id} --conf {hyperparams}"
    )
    entries = yaml.safe_load(Path(hyperparams).read_text()) or {}
    if env_id not in entries:
        known = [name for name in entries if name not in ALGOS]  # the others are only there for entries to refer to
        raise ValueError(f"{hyperparams} has no entry for {env_id!r}; it has {known}.")
    entry = {"device": "cpu", **entries[env_id], **overrides}
    policy, n_envs = entry.pop("policy", None), entry.pop("n_envs", 1)
    policy, algorithm = _find_algorithm(policy, entry)
    if algorithm is None:
        raise ValueError(
            f"{hyperparams} has the policy {getattr(policy, '__name__', policy)} for {env_id}, which with the other settings "
            f"could be PPO's or SAC's, or is neither's. {advice}"
        )
    entry.pop("n_timesteps", None)
    if not entry.get("normalize"):
        entry.pop("normalize", None)
    only_zoo = [name for name in entry if name not in inspect.signature(algorithm).parameters]
    only_zoo += ["policy_kwargs"] if isinstance(entry.get("policy_kwargs"), str) else []
    if only_zoo:
        raise ValueError(
            f"{hyperparams} has {', '.join(only_zoo)} for {env_id}, which {algorithm.__name__} does not accept. {advice}"
        )
    if isinstance(entry.get("train_freq"), list):
        entry["train_freq"] = tuple(entry["train_freq"])
    for name, value in entry.items():
        if isinstance(value, str) and value.startswith("lin_"):  # the Zoo's "lin_0.001": falls from there to zero
            entry[name] = LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    env = make_vec_env(env_id, n_envs=n_envs, seed=seed)
    algorithm = algorithm if sb3 else getattr(algorithms, algorithm.__name__)
    return algorithm(policy, env, seed=seed, **entry)


def _find_algorithm(policy: Any, entry: dict[str, Any]) -> tuple[Any, type[BaseAlgorithm] | None]:
    """
    :param policy: A policy's name as in a Zoo file
    :param entry: The other settings
    :return: The policy, and PPO or SAC: by the policy's class, or by settings that only one of them has
    """
    if isinstance(policy, str) and "." in policy:
        try:
            policy = get_class_by_name(policy)
        except (ImportError, AttributeError):
            return policy, None
        return policy, next((algo for algo in (PPO, SAC) if issubclass(policy, algo.policy_aliases["MlpPolicy"])), None)
    of_ppo, of_sac = (set(inspect.signature(algo).parameters) for algo in (PPO, SAC))
    is_ppo, is_sac = not (of_ppo - of_sac).isdisjoint(entry), not (of_sac - of_ppo).isdisjoint(entry)
    return policy, None if is_ppo == is_sac or policy is None else PPO if is_ppo else SAC


Sampler = Callable[[Any, int, int, dict], dict[str, Any]]
Converter = Callable[[dict[str, Any]], dict[str, Any]]

# SPAN supports higher learning rates than the MLPs that the Zoo's range is made for. They are not scaled once more.
LEARNING_RATES = (1e-4, 1e-2)
SPAN_PARAMS = ("nmodes", "nelems", "basis", "degree")


class _TrialWithoutMLP:
    """
    An Optuna trial that answers the Zoo's questions about an MLP itself, and passes the others on to Optuna.
    """

    def __init__(self, trial: optuna.Trial) -> None:
        self._trial = trial

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        return choices[0] if name in MLP_OPTIONS else self._trial.suggest_categorical(name, choices)

    def suggest_float(self, name: str, low: float, high: float, **kwargs: Any) -> float:
        if name == "learning_rate":
            low, high = LEARNING_RATES
        return self._trial.suggest_float(name, low, high, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trial, name)


def suggest_span_arch(trial: optuna.Trial) -> dict[str, Any]:
    """
    :param trial: An Optuna trial
    :return: Options for ``span_arch``
    """
    arch = {
        "nmodes": trial.suggest_int("nmodes", 1, 24),
        "nelems": trial.suggest_int("nelems", 2, 10),
        "basis": trial.suggest_categorical("basis", ["kernel", "bspline"]),
    }
    if arch["basis"] == "bspline":
        arch["degree"] = trial.suggest_int("degree", 1, 3)
    return arch


def _searches_span(trial: optuna.Trial) -> bool:
    # The Zoo writes the hyperparameters that it starts from into the study, classes as "<class 'module.Name'>".
    policy = trial.study.user_attrs.get("policy", "")
    if policy == ALIAS:
        return True
    try:
        return issubclass(get_class_by_name(policy.removeprefix("<class '").removesuffix("'>")), SPANOptions)
    except (ImportError, AttributeError, ValueError):  # one of SB3's strings, such as "MlpPolicy"
        return False


def _policy_kwargs(hyperparams: dict[str, Any], span_arch: dict[str, Any], **more: Any) -> dict[str, Any]:
    kept = {key: value for key, value in hyperparams.get("policy_kwargs", {}).items() if key not in MLP_OPTIONS}
    return {**hyperparams, "policy_kwargs": {**kept, "span_arch": span_arch, "lr_scale": 1.0, **more}}


def _make_sampler(zoo_sampler: Sampler, clips: bool) -> Sampler:
    def sample(trial: optuna.Trial, n_actions: int, n_envs: int, additional_args: dict) -> dict[str, Any]:
        if not _searches_span(trial):
            return zoo_sampler(trial, n_actions, n_envs, additional_args)
        hyperparams = zoo_sampler(_TrialWithoutMLP(trial), n_actions, n_envs, additional_args)
        span_arch = suggest_span_arch(trial)
        more = {"max_grad_norm": trial.suggest_float("max_grad_norm", 0.5, 20, log=True)} if clips else {}
        return _policy_kwargs(hyperparams, span_arch, **more)

    return sample


def _make_converter(zoo_converter: Converter, clips: bool) -> Converter:
    def convert(params: dict[str, Any]) -> dict[str, Any]:
        if "nmodes" not in params:
            return zoo_converter(params)
        params = dict(params)
        span_arch: dict[str, Any] = {key: params.pop(key) for key in SPAN_PARAMS if key in params}
        more = {"max_grad_norm": params.pop("max_grad_norm")} if clips else {}
        # The Zoo's converter insists on an MLP; what it makes of these is dropped.
        return _policy_kwargs(zoo_converter({**params, "net_arch": "small", "activation_fn": "relu"}), span_arch, **more)

    return convert


def _extend(samplers: dict[str, Sampler], converters: dict[str, Converter]) -> None:
    for algo in samplers:
        policy = policy_for(ALGOS[algo])
        if policy is not None:
            clips = issubclass(policy, GradientClipping)  # the others' max_grad_norm is the algorithm's
            samplers[algo] = _make_sampler(samplers[algo], clips)
            converters[algo] = _make_converter(converters[algo], clips)


_extend(HYPERPARAMS_SAMPLER, HYPERPARAMS_CONVERTER)  # type: ignore[arg-type]
ALGOS.update(ppo=algorithms.PPO, sac=algorithms.SAC)
