"""The parameters of a policy, and the networks that come closest to a given number of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import gymnasium as gym
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import FlattenExtractor

from sb3_span.nn import SPANArch
from sb3_span.nn.budget import Candidate, Role, count_trainable, match_mlps, span_candidates
from sb3_span.policies.options import split_by_role
from sb3_span.policies.registry import ALIAS, supported_algorithms

# Options of SPAN's policies alone. ClippedMlpPolicy has max_grad_norm too, but it changes no count.
SPAN_OPTIONS = ("span_arch", "lr_scale", "max_grad_norm", "stacked")

NetArch = Sequence[int] | Mapping[str, Sequence[int]]


def count_parameters(policy: BasePolicy) -> int:
    """
    The trainable parameters of a policy, without its target networks: actor and critic of PPO, actor and all critics of SAC.

    :param policy: Any policy of Stable-Baselines3 or of this package
    """
    networks = [module for name, module in policy.named_children() if not name.endswith("_target")]
    own = sum(param.numel() for param in policy.parameters(recurse=False) if param.requires_grad)  # such as log_std
    return own + count_trainable(networks)


@dataclass(frozen=True)
class PolicySizes:
    """
    What the parameters of an algorithm's policy depend on.

    :param roles: The networks that ``span_arch`` or ``net_arch`` shapes, by their role (``pi``, ``vf``, ``qf``)
    :param rest: Parameters of everything else: a features extractor, an LSTM, a standard deviation
    :param default_arch: The policy's default shape
    """

    roles: dict[str, Role]
    rest: int
    default_arch: Mapping[str, Any] = field(default_factory=dict)

    def count_span(self, span_arch: Mapping[str, Any] | None) -> int:
        """
        :param span_arch: As for the policy: one shape for all networks, or one for each role
        :return: Number of parameters of a policy with such SPAN networks
        """
        return self.rest + sum(self._count_roles(span_arch).values())

    def count_mlp(self, net_arch: NetArch) -> int:
        """
        :param net_arch: As for SB3's policies: a list of widths for all networks, or one for each role
        :return: Number of parameters of a policy with such MLPs
        """
        by_role = net_arch if isinstance(net_arch, Mapping) else dict.fromkeys(self.roles, net_arch)
        if by_role.keys() != self.roles.keys():
            raise ValueError(
                f"net_arch has the keys {list(by_role)}; the networks here are {list(self.roles)}. Give a list for each."
            )
        return self.rest + sum(role.count_mlp(by_role[name]) for name, role in self.roles.items())

    def span_candidates(self, budget: int | NetArch) -> list[Candidate]:
        """
        SPAN networks with about this number of parameters, see :func:`sb3_span.nn.budget.span_candidates`.

        :param budget: A number of parameters of the whole policy, or a ``net_arch`` to match
        :return: Candidates, best first; none is more than 2 % over
        """
        number = budget if isinstance(budget, Integral) else self.count_mlp(budget)  # type: ignore[arg-type]
        if number < 1:
            raise ValueError(f"The budget is {number} parameters; it must be at least 1.")
        return span_candidates(self.count_span, number, self.default_arch)

    def match_mlp(self, span_arch: Mapping[str, Any] | None) -> list[int] | dict[str, list[int]]:
        """
        The MLPs to compare SPAN networks with, see :func:`sb3_span.nn.budget.match_mlps`.

        :param span_arch: As for the policy
        :return: A ``net_arch`` for SB3's policy, whose networks have about as many parameters each
        """
        counts = self._count_roles(span_arch)
        matched = match_mlps([(role, counts[name]) for name, role in self.roles.items()])
        return matched[0] if len(matched) == 1 else dict(zip(self.roles, matched, strict=True))

    def _count_roles(self, span_arch: Mapping[str, Any] | None) -> dict[str, int]:
        archs: dict[str, SPANArch] = split_by_role(span_arch, tuple(self.roles), self.default_arch)
        return {name: role.count_span(archs[name]) for name, role in self.roles.items()}


class _Spaces(gym.Env):
    """An environment that is never stepped: an algorithm only needs its spaces to build its networks."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space = observation_space
        self.action_space = action_space


class _Flatten(FlattenExtractor):
    """For MultiDiscrete spaces ``features_dim`` is numpy's integer, which an LSTM in front of an MLP refuses."""

    def __init__(self, observation_space: spaces.Space) -> None:
        super().__init__(observation_space)
        self._features_dim = int(self._features_dim)


def policy_sizes(
    algorithm: type[BaseAlgorithm],
    observation_space: spaces.Space,
    action_space: spaces.Space,
    policy_kwargs: Mapping[str, Any] | None = None,
) -> PolicySizes:
    """
    Find out which networks an algorithm builds for these spaces.

    A few tiny MLPs are built and their parameters counted. The count of an MLP with two hidden layers is linear in each width;
    its slopes give the number of networks, their inputs and their outputs, whatever the algorithm.

    :param algorithm: An algorithm with a SPAN policy, such as ``SAC``
    :param observation_space: The observation space of the environment
    :param action_space: The action space of the environment
    :param policy_kwargs: Other options of the policy, such as ``n_critics``
    """
    span_class = algorithm.policy_aliases.get(ALIAS)
    if span_class is None:
        raise ValueError(
            f"There is no SPAN policy for {algorithm.__name__}; the algorithms with one are {list(supported_algorithms())}."
        )
    env = _Spaces(observation_space, action_space)
    options = dict(policy_kwargs or {})
    buffer: dict[str, Any] = dict(buffer_size=1) if issubclass(algorithm, OffPolicyAlgorithm) else {}

    def build(policy_class: type[BasePolicy], **kwargs: Any) -> BasePolicy:
        with th.random.fork_rng(devices=[]):  # counting must not change what a script draws next
            return algorithm(policy_class, env, policy_kwargs=kwargs, device="cpu", **buffer).policy

    # SB3 has a policy class for vectors, one for images and one for Dict observations; SPAN's chooses the extractor.
    extractor = build(span_class, **options).features_extractor_class
    options["features_extractor_class"] = _Flatten if extractor is FlattenExtractor else extractor
    options = {name: value for name, value in options.items() if name not in SPAN_OPTIONS}
    mlp_class = next(cls for name, cls in algorithm.policy_aliases.items() if name.startswith("Mlp"))  # or MlpLstmPolicy
    names = span_class.span_roles  # type: ignore[attr-defined]

    def count(role: str, first: int, second: int) -> int:
        widths = {name: [first, second] if name == role else [1, 1] for name in names}
        net_arch = widths if len(names) > 1 else widths[role]
        return count_parameters(build(mlp_class, **options, net_arch=net_arch))

    smallest = count(names[0], 1, 1)
    roles = {}
    for role in names:
        by_first, by_second = count(role, 2, 1) - smallest, count(role, 1, 2) - smallest
        n_networks = count(role, 2, 2) - smallest - by_first - by_second
        # A unit more in the first layer: a weight for each input, a bias, and a weight to the second layer's one unit.
        # A unit more in the second: a weight from the first layer's one unit, a bias, and a weight to each output.
        roles[role] = Role(by_first // n_networks - 2, by_second // n_networks - 2, n_networks)
    rest = smallest - sum(role.count_mlp([1, 1]) for role in roles.values())
    return PolicySizes(roles, rest, span_class.default_arch)  # type: ignore[attr-defined]
