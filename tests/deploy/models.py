"""Models that act as if they were trained: every parameter has moved, and actions differ from observation to observation."""

import torch as th
from stable_baselines3 import PPO

from tests.policies.envs import make
from tests.policies.models import make_model


def lively(algo=PPO, observations="vector", actions="box", **kwargs):
    """
    :param algo: The algorithm
    :param observations: Name of an observation space in ``OBSERVATIONS``
    :param actions: Name of an action space in ``ACTIONS``
    :param kwargs: As for ``make_model``
    """
    env = kwargs.pop("env", None) or make(observations, actions)
    model = make_model(algo, env, learn=False, **kwargs)
    generator = th.Generator().manual_seed(0)
    with th.no_grad():
        for parameter in model.policy.parameters():
            parameter += 0.3 * th.randn(parameter.shape, generator=generator)
    return model
