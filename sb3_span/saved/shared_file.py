"""
An agent to share: its weights, shape, spaces and the statistics of its observations in one ``safetensors`` file.

SB3's zips are pickles, and loading one can run any code. Nothing in this file is executed: tensors, and a description in JSON
that is checked against the classes known here. It is not for further training: there are no optimizers and no buffers.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from stable_baselines3.common import torch_layers
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecNormalize

import sb3_span
from sb3_span.atomic_files import written_whole
from sb3_span.policies.registry import supported_algorithms
from sb3_span.saved.plain_spaces import space_from_data, space_to_data
from sb3_span.saved.statistics import statistics_from_data, statistics_to_data

ENDING, FORMAT = ".safetensors", "sb3_span agent, version 1"
WEIGHTS, STATISTICS = "policy/", "statistics/"
ENV_ID = re.compile(r"[\w./-]+")  # without a colon: Gymnasium would import what precedes it
# Only needed in training.
LEFT_OUT = ("observation_space", "action_space", "lr_schedule", "optimizer_class", "optimizer_kwargs")
EXTRACTORS = {
    cls.__name__: cls
    for cls in (
        torch_layers.FlattenExtractor,
        torch_layers.NatureCNN,
        torch_layers.CombinedExtractor,
        sb3_span.SPANFeaturesExtractor,
    )
}


@dataclass(frozen=True)
class SharedAgent:
    """
    An agent that only acts, with the same methods as SB3's algorithms.

    :param vecnormalize: The statistics that its observations are normalised with; None without any
    :param env_id: The environment that it was trained on, if known
    """

    policy: BasePolicy
    vecnormalize: VecNormalize | None
    env_id: str | None

    @property
    def observation_space(self) -> Any:
        return self.policy.observation_space

    @property
    def action_space(self) -> Any:
        return self.policy.action_space

    def predict(self, *arguments: Any, **options: Any) -> Any:
        """See ``BasePolicy.predict``; observations must already be normalised."""
        return self.policy.predict(*arguments, **options)


def is_shared(path: Path | str) -> bool:
    return Path(path).suffix == ENDING


def save_shared(
    model: BaseAlgorithm | BasePolicy, path: Path | str, vecnormalize: VecNormalize | None = None, env_id: str | None = None
) -> None:
    """
    :param model: An agent, or its policy
    :param path: The file to write, ending with ``.safetensors``
    :param vecnormalize: The statistics that its observations are normalised with; None uses those of its environment
    :param env_id: The environment that it was trained on
    """
    if not is_shared(path):
        raise ValueError(f"{path} does not end with {ENDING}, as such files must.")
    if isinstance(model, BaseAlgorithm):
        vecnormalize = vecnormalize or model.get_vec_normalize_env()
    policy: BasePolicy = model.policy if isinstance(model, BaseAlgorithm) else model
    if _name(type(policy)) not in _policies():
        raise ValueError(f"{_name(type(policy))} cannot be shared; policies of these algorithms can: {_algorithms()}.")
    if env_id is not None and not ENV_ID.fullmatch(env_id):
        raise ValueError(f"env_id is {env_id!r}; the registered id of an environment is needed, such as Hopper-v5.")
    # None in SB3 stands for the default.
    given = policy._get_constructor_parameters().items()
    parameters = {key: value for key, value in given if key not in LEFT_OUT and value is not None}
    if hasattr(policy, "share_features_extractor"):  # SB3's own policies leave it out
        parameters["share_features_extractor"] = policy.share_features_extractor
    description: dict[str, Any] = {
        "policy": _name(type(policy)),
        "options": {key: _to_data(value, key) for key, value in parameters.items()},
        "observation_space": space_to_data(policy.observation_space),
        "action_space": space_to_data(policy.action_space),
        "env_id": env_id,
        "statistics": None,
        "written_by": f"sb3_span {sb3_span.__version__}",
    }
    tensors = {f"{WEIGHTS}{name}": tensor.detach().cpu().clone() for name, tensor in policy.state_dict().items()}
    if vecnormalize is not None and vecnormalize.norm_obs:
        description["statistics"], arrays = statistics_to_data(vecnormalize)
        tensors |= {f"{STATISTICS}{name}": th.from_numpy(np.array(array)) for name, array in arrays.items()}
    content = save(tensors, {"format": FORMAT, "agent": json.dumps(description)})
    with written_whole(Path(path)) as temporary:
        temporary.write_bytes(content)


def load_shared(path: Path | str) -> SharedAgent:
    """
    :param path: What :func:`save_shared` wrote
    """
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"its format is {metadata.get('format')!r}, not {FORMAT!r}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
        agent = json.loads(metadata["agent"])
        policy = _build(agent, _part(tensors, WEIGHTS))
        statistics = None
        if agent["statistics"] is not None:
            arrays = {name: tensor.numpy() for name, tensor in _part(tensors, STATISTICS).items()}
            statistics = statistics_from_data(agent["statistics"], arrays)
        env_id = agent["env_id"]
        if env_id is not None and not ENV_ID.fullmatch(env_id):
            raise ValueError(f"its environment is called {env_id!r}")
    except FileNotFoundError:
        raise ValueError(f"There is no {path}.") from None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, AssertionError) as error:
        raise ValueError(
            f"{path} is not an agent that save_shared has written, or it is damaged ({error}). Copy or export it again."
        ) from error
    return SharedAgent(policy, statistics, env_id)


def _build(agent: Mapping[str, Any], weights: dict[str, th.Tensor]) -> BasePolicy:
    policy_class = _policies().get(agent["policy"])
    if policy_class is None:
        raise ValueError(f"its policy is {agent['policy']!r}, which is none of {_algorithms()}")
    options = {key: _from_data(value) for key, value in agent["options"].items()}
    if unknown := set(LEFT_OUT) & set(options):
        raise ValueError(f"it has the options {sorted(unknown)}")
    spaces = (space_from_data(agent[name]) for name in ("observation_space", "action_space"))
    policy = policy_class(*spaces, lambda progress: 0.0, **options)
    policy.load_state_dict(weights)
    policy.set_training_mode(False)
    return policy


def _part(tensors: Mapping[str, th.Tensor], beginning: str) -> dict[str, th.Tensor]:
    return {name.removeprefix(beginning): tensor for name, tensor in tensors.items() if name.startswith(beginning)}


def _policies() -> dict[str, type[BasePolicy]]:
    """The policies of the supported algorithms, SB3's own and ours."""
    classes = {cls for algorithm in supported_algorithms().values() for cls in algorithm.policy_aliases.values()}
    return {_name(cls): cls for cls in classes | {sb3_span.ClippedMlpPolicy}}


def _algorithms() -> str:
    return ", ".join(supported_algorithms())


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _to_data(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _to_data(part, f"{where}.{key}") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_data(part, where) for part in value]
    name = getattr(value, "__name__", "")
    if value in EXTRACTORS.values():
        return {"class": name}
    if isinstance(value, type) and issubclass(value, th.nn.Module) and getattr(th.nn, name, None) is value:
        return {"class": f"nn.{name}"}
    raise ValueError(
        f"{where} is {value!r}, which cannot be written as plain data; classes may be {list(EXTRACTORS)} and torch's."
    )


def _from_data(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"class"}:
        name = str(value["class"])
        found = getattr(th.nn, name.removeprefix("nn."), None) if name.startswith("nn.") else EXTRACTORS.get(name)
        if not isinstance(found, type) or not issubclass(found, th.nn.Module):
            raise ValueError(f"it has the class {name!r}")
        return found
    if isinstance(value, dict):
        return {key: _from_data(part) for key, part in value.items()}
    return [_from_data(part) for part in value] if isinstance(value, list) else value
