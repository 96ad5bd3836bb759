"""A copy of an agent to play and update, while the agent itself and its random numbers do not change."""

import contextlib
import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import set_random_seed


def copy_agent(model: BaseAlgorithm) -> Any:
    """
    Copy what acting and updating change: networks, targets, optimizers, noise. Environments, buffers and schedules are the
    agent's; the copy's logs are discarded.

    :param model: Any agent of SB3
    :return: An agent of the same class
    """
    state_dicts, variables = model._get_torch_save_params()
    names = {name.partition(".")[0] for name in (*state_dicts, *variables)}
    names |= {name for name in vars(model) if "batch_norm_stats" in name}  # lists of the networks' own tensors
    names |= {"action_space", "action_noise"} & vars(model).keys()  # both draw random numbers
    twin: Any = copy.copy(model)
    # Together, so that optimizers get the copied parameters.
    vars(twin).update(copy.deepcopy({name: getattr(model, name) for name in names}, _without_graphs(model.policy)))
    if hasattr(twin, "_create_aliases"):
        twin._create_aliases()
    twin.set_logger(Logger(folder=None, output_formats=[]))
    return twin


def _without_graphs(policy: th.nn.Module) -> dict[int, Any]:
    """
    The last action or update may have left its graph in a policy's distribution, and tensors with a graph cannot be copied.

    :return: For ``copy.deepcopy``: replacements for these, by identity
    """
    known: dict[int, Any] = {}
    for module in policy.modules():
        distribution = getattr(module, "action_dist", None)
        for value in vars(distribution).values() if distribution is not None else ():
            if isinstance(value, th.Tensor):
                known[id(value)] = value.detach().clone()
            elif isinstance(value, th.distributions.Distribution | list):  # rebuilt before it is used
                known[id(value)] = None
    return known


@contextlib.contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """
    Inside, random numbers begin with a seed; outside, they continue as if nothing had happened.

    :param seed: The seed
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()
    with th.random.fork_rng(devices=range(th.cuda.device_count())):
        try:
            set_random_seed(seed)
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)
