"""Models that act as if they were trained: every parameter has moved, and actions differ from observation to observation."""

import re

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO

from sb3_span.deploy import export_c
from sb3_span.deploy.observations import TOTAL
from sb3_span.deploy.policy import DeterministicPolicy
from tests.policies.envs import make
from tests.policies.models import make_model
from tests.policies.models import observations as draw


def lively(algo=PPO, observations="vector", actions="box", steps=0, **kwargs):
    """
    :param algo: The algorithm
    :param observations: Name of an observation space in ``OBSERVATIONS``
    :param actions: Name of an action space in ``ACTIONS``
    :param steps: Steps to learn for, which moves the statistics of batchnorm and minmax
    :param kwargs: As for ``make_model``
    """
    env = kwargs.pop("env", None) or make(observations, actions)
    model = make_model(algo, env, learn=False, **kwargs)
    generator = th.Generator().manual_seed(0)
    with th.no_grad():
        for parameter in model.policy.parameters():
            parameter += 0.3 * th.randn(parameter.shape, generator=generator)
    if not isinstance(model.action_space, spaces.Box):
        balance(model)
    if steps:
        model.learn(steps)
    seen = draw(model, 200)
    assert len(np.unique(model.predict(seen, deterministic=True)[0], axis=0)) > 1
    return model


@th.no_grad()
def balance(model) -> None:
    """No action is the best everywhere: the mean scores over many observations become the same."""
    policy = DeterministicPolicy(model)
    seen = draw(model, 200)
    tensors = {key: th.as_tensor(value) for key, value in seen.items()} if isinstance(seen, dict) else th.as_tensor(seen)
    mean = policy(tensors)[1].mean(0)
    bias = [module for module in policy.network.modules() if getattr(module, "bias", None) is not None][-1].bias
    bias -= mean.repeat(bias.numel() // len(mean)).view_as(bias)  # QR-DQN has one for each quantile


def check(model, folder, **kwargs):
    """Export an agent to C, which checks itself."""
    verification = export_c(model, folder, **kwargs)
    assert verification.observations == TOTAL
    assert str(verification) in re.sub(r"\s+(\*\s+)?", " ", (folder / "policy.h").read_text())
    return verification
