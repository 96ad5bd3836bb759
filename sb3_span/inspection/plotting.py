"""What an agent has learned, gathered for a picture."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from matplotlib.figure import Figure
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_span.atomic_files import default_output
from sb3_span.inspection.environments import action_names, make_envs, observation_names
from sb3_span.inspection.figure import draw, save_figure
from sb3_span.inspection.networks import Network, find_networks
from sb3_span.inspection.slices import Slice, actions, cut, values
from sb3_span.inspection.watching import SEED
from sb3_span.policies.budget import count_parameters
from sb3_span.saved import env_name, env_of, find_agent, find_vecnormalize, load_agent, load_statistics
from sb3_span.saved.find import label_of
from sb3_span.saved.normalization import describe

# The states to look at: the first steps of some episodes, played in parallel.
EPISODES, STEPS = 10, 300


class NetworkWarning(UserWarning):
    """Something is wrong with a trained network."""


def plot(
    model: BaseAlgorithm,
    env_id: EnvSpec | str | None = None,
    network: str | None = None,
    names: Sequence[str] | None = None,
    dims: Sequence[str] | None = None,
    observations: np.ndarray | None = None,
    n_modes: int = 3,
    vecnormalize: Path | None = None,
) -> Figure:
    """
    Draw what an agent has learned: the splines of its strongest modes, W_pre, and slices through policy and value.

    Warns of dead modes, and of gaps between the bumps of the kernel basis.

    :param model: An agent with SPAN networks, whose observations are vectors
    :param env_id: Its environment, by id or specification: for names, and for the states that it visits. Without it the
        states are drawn from the observation space
    :param network: Whose splines: ``pi``, ``vf`` or ``qf``; None for the actor, if there is one
    :param names: A name for each number of an observation; None for the environment's
    :param dims: Names of the two numbers to slice along; None for the most influential ones
    :param observations: States to look at, shape (B, D); None to play some episodes in the environment
    :param n_modes: Number of modes to draw; with ``group_size``, of each group of dimensions
    :param vecnormalize: VecNormalize's file, if the agent was trained with one. The picture then has normalised observations,
        as the agent sees them
    :return: The figure, to show or to save
    """
    networks = find_networks(model.policy)
    if not networks:
        raise ValueError(f"{type(model.policy).__name__} has no SPAN network to draw. Train with the policy 'SPANPolicy'.")
    if not isinstance(model.observation_space, spaces.Box) or len(model.observation_space.shape) != 1:
        raise ValueError(f"The agent observes {model.observation_space}; only agents that observe vectors can be drawn.")
    roles = list(dict.fromkeys(each.role for each in networks))
    if network is not None and network not in roles:
        raise ValueError(f"There is no network {network!r}; choose one of {roles}.")
    if n_modes < 1:
        raise ValueError(f"The number of modes to draw is {n_modes}; it must be at least 1. Try 3.")
    name = None if env_id is None else env_name(env_id)
    names = _observation_names(model, name, names)
    states = "the states seen"
    if observations is None:
        states = "random observations" if env_id is None else states
        observations = _drawn(model, vecnormalize) if env_id is None else _visited(model, env_id, vecnormalize)

    normalised = vecnormalize is not None and load_statistics(vecnormalize).norm_obs
    doing = action_names(model.action_space, name)
    # A shared agent has a policy, and no algorithm.
    kind = type(model).__name__ if isinstance(model, BaseAlgorithm) else "SPAN"
    where = f" on {name}" if name else ""
    where += ", observations normalised" if normalised else ""
    model.policy.set_training_mode(False)
    with _on_cpu(model.policy):
        inputs = _inputs(model, networks, observations)
        for each in networks:
            for problem in each.problems(inputs[each.span]):
                warnings.warn(problem, NetworkWarning, stacklevel=2)
        chosen = next(each for each in networks if each.role == (network or roles[0]))
        return draw(
            title=f"{kind}{where}: {count_parameters(model.policy):,} parameters",
            network=chosen,
            inputs=inputs[chosen.span],
            input_names=_input_names(chosen, [*names, *doing], len(names)),
            n_modes=n_modes,
            slice_=_slice(model, observations, names, dims, normalised),
            observations=observations,
            observation_names=names,
            action_names=doing,
            is_discrete=isinstance(model.action_space, spaces.Discrete),
            states=states,
        )


@contextlib.contextmanager
def _on_cpu(policy: th.nn.Module) -> Iterator[None]:
    """Arrays for drawing: an agent that was just trained may be on a GPU."""
    device = next(policy.parameters()).device
    policy.to("cpu")
    try:
        yield
    finally:
        policy.to(device)


def plot_file(
    name: str, env_id: str | None = None, output: Path | None = None, vecnormalize: Path | None = None, **options: Any
) -> None:
    """
    Draw a saved agent into a file, and print problems with it.

    :param name: A model's file, the folder of a run, or the short name of an agent that comes with the package
    :param env_id: Its environment; None to find it by the folder or the file's name, ``"none"`` to draw without one
    :param output: The picture; None for a new PNG with the name of the model or of its run's folder, in the current folder
    :param vecnormalize: VecNormalize's file, or the word "none"; None uses the one next to the model
    :param options: As for :func:`plot`
    """
    path = find_agent(name)
    if output is None:
        output = default_output(Path(f"{label_of(name, path)}.png"))
    env = None if env_id == "none" else env_id or env_of(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", NetworkWarning)
        vecnormalize = find_vecnormalize(path, vecnormalize)
        figure = plot(load_agent(path), env, vecnormalize=vecnormalize, **options)
    for warning in caught:
        print(f"Warning: {warning.message}")
    if env is None:
        print("No environment: the states are drawn at random from the observation space. --env ID uses those visited.")
    save_figure(figure, output)
    print(f"Written to {output}, {describe(path, vecnormalize)}")


def _observation_names(model: BaseAlgorithm, env_id: str | None, names: Sequence[str] | None) -> list[str]:
    known = observation_names(model.observation_space, env_id)
    if names is not None and len(names) != len(known):
        raise ValueError(f"There are {len(names)} names for the {len(known)} numbers of an observation: {list(names)}.")
    return known if names is None else list(names)


def _visited(model: BaseAlgorithm, env_id: EnvSpec | str, vecnormalize: Path | None) -> np.ndarray:
    env = make_envs(model, env_id, EPISODES, SEED, vecnormalize)
    observation: Any = env.reset()  # an array: only vectors are drawn
    state, start = None, np.ones(EPISODES, dtype=bool)
    states = []
    for _ in range(STEPS):
        states.append(observation)
        action, state = model.predict(observation, state, start, deterministic=True)
        observation, _, start, _ = env.step(action)
    env.close()
    return np.concatenate(states)


def _drawn(model: BaseAlgorithm, vecnormalize: Path | None) -> np.ndarray:
    space = model.observation_space
    space.seed(0)
    states = np.array([space.sample() for _ in range(EPISODES * STEPS)])
    return states if vecnormalize is None else load_statistics(vecnormalize).normalize_obs(states)  # type: ignore[return-value]


def _inputs(model: BaseAlgorithm, networks: list[Network], observations: np.ndarray) -> dict[th.nn.Module, th.Tensor]:
    """Each network's inputs in these states, shape (B, inputs): features, and the agent's actions for a critic."""
    seen: dict[th.nn.Module, th.Tensor] = {}

    def remember(module: th.nn.Module, args: tuple[th.Tensor, ...]) -> None:
        seen[module] = args[0].float()

    hooks = [span.register_forward_pre_hook(remember) for span in {each.span for each in networks}]
    try:
        actions(model, observations)
        values(model, observations)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _input_names(network: Network, names: list[str], n_observed: int) -> list[str]:
    """Names of the observations, then the actions for a critic that reads both; numbers for other features."""
    size = network.span.input_dim
    return names[:size] if size in (n_observed, len(names)) else [f"feature[{i}]" for i in range(size)]


def _slice(
    model: BaseAlgorithm, observations: np.ndarray, names: list[str], dims: Sequence[str] | None, normalised: bool
) -> Slice | None:
    if len(names) < 2:
        return None
    if dims is None:
        return cut(model, observations, normalised=normalised)
    for name in dims:
        if name not in names:
            raise ValueError(f"There is no {name!r} in the observation; it has {names}.")
    if len(set(dims)) != 2:
        raise ValueError(f"A slice needs two different numbers of the observation, not {list(dims)}.")
    first, second = (names.index(name) for name in dims)
    return cut(model, observations, (first, second), normalised)
