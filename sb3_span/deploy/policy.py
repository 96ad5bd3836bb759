"""
``predict(..., deterministic=True)`` in its parts: normalise, prepare, network, decode.

In SB3 these are in wrappers, policies, actors and distributions. Here they are one torch module for every policy, from which
both exports are made.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from stable_baselines3.sac.policies import Actor as SquashedGaussianActor
from stable_baselines3.td3.policies import Actor as TD3Actor
from torch import nn

from sb3_span.nn import SPAN
from sb3_span.policies.networks import SPANExtractor

Observation = np.ndarray | dict[str, np.ndarray]


class OneOfStack(nn.Module):
    """One network of a stack of SPAN networks."""

    def __init__(self, stack: SPAN, index: int) -> None:
        super().__init__()
        self.stack, self.index = stack, index

    def forward(self, x: th.Tensor) -> th.Tensor:
        return self.stack(x, only=self.index)


class QuantileMean(nn.Module):
    """Q-values of A actions from QR-DQN's quantiles: (B, n_quantiles * A) to (B, A)."""

    def __init__(self, n_quantiles: int) -> None:
        super().__init__()
        self.n_quantiles = n_quantiles

    def forward(self, quantiles: th.Tensor) -> th.Tensor:
        return quantiles.unflatten(1, (self.n_quantiles, -1)).mean(1)


class ForwardActor(nn.Module):
    """The actor's half of a user's extractor."""

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor

    def forward(self, features: th.Tensor) -> th.Tensor:
        return self.extractor.forward_actor(features)  # type: ignore[operator]


@dataclass(frozen=True)
class Normalization:
    """
    ``clip((observation - mean) / std)``, as VecNormalize normalises observations.

    :param mean: Shape of the observation, float64
    :param std: The same, with epsilon inside
    :param clip: The largest magnitude of the result
    """

    mean: np.ndarray
    std: np.ndarray
    clip: float


class DeterministicPolicy(nn.Module):
    """
    A policy's deterministic action as one module, from the environment's own observations to the environment's own actions.

    ``network`` maps prepared observations to *scores*: one number for each action of a discrete space, the action,
    not yet within bounds, for a continuous one.

    :param model: A model or policy of SB3 or sb3-contrib
    :param vecnormalize: The statistics that it was trained with, if any
    """

    def __init__(self, model: BaseAlgorithm | BasePolicy, vecnormalize: VecNormalize | None = None) -> None:
        super().__init__()
        policy = model.policy if isinstance(model, BaseAlgorithm) else model
        policy.set_training_mode(False)
        if policy.device.type != "cpu":  # where the export is checked; the user's policy stays on its device
            policy = copy.deepcopy(policy).to("cpu")
        self.policy_name = type(policy).__name__
        self.normalization = read_vecnormalize(vecnormalize, policy.observation_space)
        self.observation_space = _as_shown(policy.observation_space, self.normalization)
        self.action_space = policy.action_space
        self.normalize_images = policy.normalize_images
        self.squash_output = policy.squash_output
        self.network = find_network(policy)
        self._predict = policy.predict
        self._vecnormalize = vecnormalize

    def predict(self, observation: Observation) -> np.ndarray:
        """The reference: SB3's own computation for a batch of observations."""
        if self._vecnormalize is not None:
            observation = self._vecnormalize.normalize_obs(observation)
        return self._predict(observation, deterministic=True)[0]

    def forward(self, observation: th.Tensor | dict[str, th.Tensor]) -> tuple[th.Tensor, th.Tensor]:
        """
        :param observation: A batch, as from the environment
        :return: Actions, shape (B, *action_space.shape), and scores, shape (B, ...)
        """
        scores = self.network(self._prepare(observation))
        return self._decode(scores), scores

    def in_double_precision(self) -> Callable[[Observation], np.ndarray]:
        """From observations to actions as ``predict``, in double precision."""
        network = copy.deepcopy(self.network).double()

        def act(observation: Observation) -> np.ndarray:
            with th.no_grad():
                prepared = self._prepare(as_tensors(observation))
                wide = {k: v.double() for k, v in prepared.items()} if isinstance(prepared, dict) else prepared.double()
                return self._decode(network(wide)).numpy()

        return act

    def _prepare(self, observation: th.Tensor | dict[str, th.Tensor]) -> Any:
        return preprocess_obs(self._normalize(observation), self.observation_space, self.normalize_images)

    def _normalize(self, observation: th.Tensor | dict[str, th.Tensor]) -> th.Tensor | dict[str, th.Tensor]:
        if isinstance(observation, dict):
            return {
                key: normalized(value, self.normalization[key]) if key in self.normalization else value
                for key, value in observation.items()
            }
        return normalized(observation, self.normalization[""]) if "" in self.normalization else observation

    def _decode(self, scores: th.Tensor) -> th.Tensor:
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return scores.argmax(1)
        if isinstance(space, spaces.MultiDiscrete):
            parts = scores.split([int(n) for n in space.nvec], dim=1)
            return th.stack([part.argmax(1) for part in parts], 1).reshape(-1, *space.shape)
        if isinstance(space, spaces.MultiBinary):
            return (scores > 0).float().reshape(-1, *space.shape)
        assert isinstance(space, spaces.Box)
        actions = scores.reshape(-1, *space.shape)
        low, high = th.as_tensor(space.low), th.as_tensor(space.high)
        if self.squash_output:
            return low + 0.5 * (actions + 1.0) * (high - low)
        return actions.clamp(low, high)


def as_tensors(observation: Observation) -> th.Tensor | dict[str, th.Tensor]:
    if isinstance(observation, dict):
        return {key: th.as_tensor(value) for key, value in observation.items()}
    return th.as_tensor(observation)


def normalized(observation: th.Tensor, by: Normalization) -> th.Tensor:
    """As VecNormalize, in double precision."""
    scaled = (observation.double() - th.as_tensor(by.mean)) / th.as_tensor(by.std)
    return scaled.clamp(-by.clip, by.clip).float()


def read_vecnormalize(vecnormalize: VecNormalize | None, space: spaces.Space) -> dict[str, Normalization]:
    """
    :param vecnormalize: The statistics; None for none
    :param space: The policy's observation space
    :return: What to do with each part of a Dict observation; the key is "" unless observations are a dict
    """
    if vecnormalize is None or not vecnormalize.norm_obs:
        return {}
    statistics = vecnormalize.obs_rms if isinstance(vecnormalize.obs_rms, dict) else {"": vecnormalize.obs_rms}
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}
    result = {}
    for key, rms in statistics.items():
        if key not in parts or parts[key].shape != rms.mean.shape:
            raise ValueError(
                f"The VecNormalize statistics are for observations of shape {rms.mean.shape}{f' named {key!r}' * bool(key)}, "
                f"but the policy observes {space}. Give the statistics that were saved with this model. Where a wrapper "
                "around VecNormalize changes what the policy sees, train with VecNormalize as the outermost one, as in "
                "VecNormalize(VecFrameStack(env, 4)), or export model.policy and normalise before calling it."
            )
        std = np.sqrt(rms.var + vecnormalize.epsilon)
        result[key] = Normalization(np.asarray(rms.mean, dtype=np.float64), std, float(vecnormalize.clip_obs))
    return result


def _as_shown(space: spaces.Space, normalization: dict[str, Normalization]) -> spaces.Space:
    """For normalised images SB3's space has the bounds of clipping; those of the environment are unknown."""
    if isinstance(space, spaces.Dict):
        parts = {key: {"": normalization[key]} if key in normalization else {} for key in space.spaces}
        return spaces.Dict({key: _as_shown(part, parts[key]) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Box) and len(space.shape) == 3 and "" in normalization:
        clip = normalization[""].clip
        if (space.low == -clip).all() and (space.high == clip).all():
            return spaces.Box(-np.inf, np.inf, space.shape, np.float32)
    return space


def find_network(policy: Any) -> nn.Sequential:
    """
    :param policy: A policy of SB3 or sb3-contrib
    :return: From prepared observations (what ``preprocess_obs`` returns) to scores
    """
    # Policies of sb3-contrib, which may not be installed, are recognised by their parts.
    if hasattr(policy, "lstm_actor"):
        raise ValueError(
            f"{type(policy).__name__} is recurrent: its action depends on a state, which an exported policy does not keep. "
            "Only policies without memory can be exported; for a memory, train it on stacked observations "
            "(VecFrameStack)."
        )
    if hasattr(policy, "mlp_extractor") and hasattr(policy, "action_net"):  # PPO, A2C, TRPO, MaskablePPO
        network = [policy.pi_features_extractor, _actor_body(policy.mlp_extractor), policy.action_net]
        return nn.Sequential(*network, *[nn.Tanh()] * policy.squash_output)
    if isinstance(policy, DQNPolicy | QNetwork):
        q_net = policy if isinstance(policy, QNetwork) else policy.q_net
        return nn.Sequential(q_net.features_extractor, q_net.q_net)
    if hasattr(policy, "quantile_net"):  # QR-DQN's policy, or its network, which has a part of the same name
        whole = policy.quantile_net if hasattr(policy.quantile_net, "quantile_net") else policy
        return nn.Sequential(whole.features_extractor, whole.quantile_net, QuantileMean(whole.n_quantiles))
    actor = getattr(policy, "actor", policy)
    if isinstance(actor, TD3Actor):  # TD3, DDPG
        return nn.Sequential(actor.features_extractor, actor.mu)
    if isinstance(actor, SquashedGaussianActor) or hasattr(actor, "latent_pi"):  # SAC, TQC
        return nn.Sequential(actor.features_extractor, actor.latent_pi, actor.mu, nn.Tanh())
    raise ValueError(
        f"{type(policy).__name__} cannot be exported: it is none of the policies of PPO, A2C, TRPO, MaskablePPO, SAC, TD3, "
        "DDPG, TQC, DQN and QR-DQN."
    )


def _actor_body(extractor: nn.Module) -> nn.Module:
    if isinstance(extractor, MlpExtractor):
        return extractor.policy_net
    if isinstance(extractor, SPANExtractor):
        return OneOfStack(extractor.pi_vf, 0) if extractor.is_stack else extractor.pi
    return ForwardActor(extractor)
