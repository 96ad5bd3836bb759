"""All measurements of one agent at one time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_span.diagnose.features import Seen, dead_features, effective_rank, latent_ranges, saturation, see
from sb3_span.diagnose.parts import find_networks
from sb3_span.diagnose.returns import Comparison, compare, ent_coef_of
from sb3_span.diagnose.transitions import Transitions, batch_size_of, draw
from sb3_span.diagnose.twin import copy_agent, own_randomness
from sb3_span.diagnose.updates import Step, decisions, expected, interference, steps

STATES = 1024  # states in which features and latent dimensions are measured
UPDATES = 4  # batches that interference is measured with, each on a fresh copy: of the agent's own size
SINGLES = 8  # and of one transition


@dataclass(frozen=True)
class Diagnosis:
    """
    :param comparison: What the critic expected, and the actual returns
    :param interference: How far an update moves values outside its batch, relative to inside
    :param interference_single: The same for batches of one transition: how local a network is
    :param seen: By role, what the head reads and where the inputs are in (0, 1)
    :param steps: By role and part, what one update does
    :param extras: The entropy coefficient, and how widely the policy acts, where the algorithm has them
    """

    comparison: Comparison
    interference: float
    interference_single: float
    seen: dict[str, Seen]
    steps: dict[str, dict[str, Step]]
    extras: dict[str, float]

    @property
    def numbers(self) -> dict[str, float]:
        """All numbers in one dict, the most important first; single parts have ``role/grad/part``, ``role/step/part``."""
        compared = self.comparison
        found = {
            "value": float(compared.values.mean()),
            "return": float(compared.returns.mean()),
            "value_minus_return": float((compared.values - compared.returns).mean()),
            "return_spread": float(compared.returns.std()),
            "unseen_tail": compared.tail,
            "episode_score": compared.score,
            **self.extras,
            "interference": self.interference,
            "interference_single": self.interference_single,
        }
        for role, seen in self.seen.items():
            found[f"{role}/features"] = seen.features[0].shape[1]
            found[f"{role}/effective_rank"] = float(np.mean([effective_rank(each) for each in seen.features]))
            found[f"{role}/dead_features"] = float(np.mean([dead_features(each) for each in seen.features]))
            if seen.latents:
                ranges = self.ranges(role)
                found[f"{role}/z_range"] = float(ranges.mean())
                found[f"{role}/z_range_min"] = float(ranges.min())
                found[f"{role}/z_saturated"] = float(np.mean([saturation(z) for z in seen.latents]))
        for role, parts in self.steps.items():
            for name, step in parts.items():
                found[f"{role}/grad/{name}"] = step.gradient
                found[f"{role}/step/{name}"] = step.change
        return found

    def ranges(self, role: str) -> th.Tensor:
        """How much of (0, 1) each latent dimension uses; shape (D,), or (C D,) for C critics."""
        return th.cat([latent_ranges(z) for z in self.seen[role].latents])


def diagnose(model: BaseAlgorithm, env: VecEnv, n_episodes: int = 5, seed: int = 0) -> Diagnosis:
    """
    Measure an agent that has collected transitions. Neither the agent nor any random numbers change.

    :param model: The agent
    :param env: An environment for the diagnosis alone, not normalised
    :param n_episodes: How many episodes to play, at least
    :param seed: Seed of all random numbers used here
    """
    with own_randomness(seed):
        twin = copy_agent(model)
        twin.policy.set_training_mode(False)
        comparison = compare(twin, env, n_episodes, seed, model.get_vec_normalize_env())
        states = draw(model, STATES)
        batches = [_split(model) for _ in range(UPDATES)]
        singles = [draw(model, STATES // 4).split(1) for _ in range(SINGLES)]
        calls = {
            "critic": lambda: expected(twin, states),
            "actor": lambda: decisions(twin.policy, states.observations),
        }
        seen = {role: see(network, calls[role]) for role, network in find_networks(twin.policy).items()}
        return Diagnosis(
            comparison=comparison,
            interference=interference(model, batches),
            interference_single=interference(model, singles),
            seen=seen,
            steps=steps(model, batches[0][0]),
            extras=_extras(twin, states),
        )


def _split(model: BaseAlgorithm) -> tuple[Transitions, Transitions]:
    transitions = draw(model, 2 * (getattr(model, "batch_size", None) or STATES))
    return transitions.split(batch_size_of(model, len(transitions)))


@th.no_grad()
def _extras(model: Any, states: Transitions) -> dict[str, float]:
    found = {}
    if (ent_coef := ent_coef_of(model)) is not None:
        found["ent_coef"] = ent_coef
    policy = model.policy
    if hasattr(policy, "get_distribution"):
        distribution = policy.get_distribution(states.observations)
    elif hasattr(policy, "actor") and hasattr(policy.actor, "action_log_prob"):
        mean, log_std, kwargs = policy.actor.get_action_dist_params(states.observations)
        distribution = policy.actor.action_dist.proba_distribution(mean, log_std, **kwargs)
    else:  # its actions are not drawn
        return found
    if isinstance(distribution.distribution, th.distributions.Normal):
        found["policy_std"] = float(distribution.distribution.stddev.mean())
    else:
        found["policy_entropy"] = float(distribution.entropy().mean())
    return found
