"""
From a model's zip to an agent, or to its policy alone.

Loading a zip unpickles, which can run any code: only for files that you trust. A ``.safetensors`` file is not a pickle.
"""

import inspect
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.policies import SPANActorCriticPolicy
from sb3_span.policies.registry import supported_algorithms
from sb3_span.saved.find import find_model
from sb3_span.saved.normalization import find_vecnormalize
from sb3_span.saved.shared_file import is_shared, load_shared
from sb3_span.saved.statistics import load_statistics

# What a policy is built from; nothing else in a zip is read.
NEEDED = {"policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde"}


@dataclass(frozen=True)
class Trained:
    """
    :param policy: The trained policy
    :param vecnormalize: The statistics of its observations, if it was trained with any
    :param vecnormalize_file: Their file
    """

    policy: BasePolicy
    vecnormalize: VecNormalize | None
    vecnormalize_file: Path | None = None


def load_trained(path: Path | str, vecnormalize: Path | None = None) -> Trained:
    """
    :param path: A model's zip, or a folder of the Zoo (``logs/sac/Hopper-v5_1``) or of a study's run
    :param vecnormalize: File with VecNormalize's statistics, or the word "none"; None uses those next to the model,
        and is an error if it was trained with some and there are none
    """
    file = find_model(Path(path))
    policy = load_shared(file).policy if is_shared(file) else load_policy(file)
    found = find_vecnormalize(file, vecnormalize)
    return Trained(policy, None if found is None else load_statistics(found), found)


def load_agent(file: Path) -> Any:
    """
    Load a model of any algorithm.

    :param file: What ``model.save`` or ``save_shared`` wrote
    :return: What acts: an algorithm, or a :class:`~sb3_span.saved.shared_file.SharedAgent`
    """
    if is_shared(file):
        return load_shared(file)
    data, _ = _read(file)
    policy_class = data["policy_class"]
    algorithms = [
        algorithm
        for algorithm in supported_algorithms().values()
        if issubclass(policy_class, tuple(algorithm.policy_aliases.values()))
    ]
    if not algorithms:
        known = list(supported_algorithms())
        raise ValueError(f"{file} has the policy {policy_class.__name__}, which belongs to none of the algorithms {known}.")
    # The file does not name the algorithm, but has its policy and most arguments of its constructor.
    stored = data.keys()
    algorithm = min(algorithms, key=lambda algorithm: _strangeness(algorithm, policy_class, stored))
    try:
        return algorithm.load(file, device="cpu")
    except RuntimeError as error:  # the networks have another shape
        raise ValueError(f"{file} cannot be loaded: {error}") from error


def _strangeness(algorithm: type[BaseAlgorithm], policy_class: type, stored: Any) -> tuple[bool, int, int]:
    """How badly a saved model fits an algorithm."""
    arguments = inspect.signature(algorithm).parameters.keys()
    return policy_class not in algorithm.policy_aliases.values(), -len(arguments & stored), len(arguments)


def load_policy(file: Path) -> BasePolicy:
    """
    Only the policy of an SB3 model, without its algorithm, environment and buffers.

    :param file: What ``model.save`` wrote
    """
    data, params = _read(file)
    try:
        return _build_policy(data, params)
    except Exception as error:
        raise ValueError(f"{_broken(file)}: {error!r}. It may have been saved with other versions of the packages.") from error


def _broken(file: Path) -> str:
    return f"{file} is not a model saved by Stable-Baselines3, or it is damaged"


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    :return: The file's settings, of which only those needed to build the policy are unpickled, and the parameters
    """
    broken = _broken(file)
    try:
        with zipfile.ZipFile(file) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"{broken}: {damaged} in it is corrupt. Save or copy it again.")
            names = set(archive.namelist())
            keys = set(json.loads(archive.read("data"))) if "data" in names else set()
    except FileNotFoundError:
        raise ValueError(f"There is no {file}.") from None
    except (OSError, zipfile.BadZipFile, EOFError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{broken}: {error}. Give the file that model.save has written.") from error
    if "policy.pth" not in names or not NEEDED - {"use_sde"} <= keys:
        raise ValueError(f"{broken}: it has no policy. Give the file that model.save has written.")
    try:
        # Settings that are replaced by None are not unpickled.
        data, params, _ = load_from_zip_file(file, custom_objects={key: None for key in keys - NEEDED}, device="cpu")
    except ModuleNotFoundError as error:
        raise ValueError(f"{file} needs the package {error.name!r}, which is not installed.") from error
    except Exception as error:
        raise ValueError(f"{broken}: {error!r}. It may have been saved with other versions of the packages.") from error
    assert data is not None
    return data, params


def _build_policy(data: dict[str, Any], params: dict[str, Any]) -> BasePolicy:
    policy_class, kwargs = data["policy_class"], {**data["policy_kwargs"]}
    kwargs.pop("device", None)
    # On-policy algorithms pass use_sde themselves; off-policy ones that have it keep it in their policy_kwargs.
    if "use_sde" not in kwargs and data.get("use_sde"):
        kwargs["use_sde"] = True
    # TRPO's policy keeps actor and critic apart, which is not in its policy_kwargs.
    if issubclass(policy_class, SPANActorCriticPolicy):
        kwargs.setdefault("stacked", any("pi_vf" in name for name in params["policy"]))
    policy = policy_class(data["observation_space"], data["action_space"], lambda progress: 0.0, **kwargs)
    policy.load_state_dict(params["policy"])
    policy.set_training_mode(False)
    return policy.to(th.device("cpu"))
