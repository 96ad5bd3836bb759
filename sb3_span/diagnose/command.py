"""The diagnosis of a saved agent: a table, what is out of line, a picture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

from sb3_span.diagnose.diagnosis import Diagnosis, diagnose
from sb3_span.diagnose.environments import make_own_env
from sb3_span.diagnose.figure import draw
from sb3_span.diagnose.parts import find_networks
from sb3_span.diagnose.returns import random_scores
from sb3_span.diagnose.twin import copy_agent, own_randomness
from sb3_span.diagnose.verdicts import verdicts
from sb3_span.inspection.environments import make_envs
from sb3_span.inspection.figure import save_figure
from sb3_span.policies.optimizers import optimizers_of
from sb3_span.saved import env_name, env_needed, find_agent, find_vecnormalize, load_agent, load_statistics
from sb3_span.saved.normalization import describe

STEPS = 2048  # steps that a saved agent collects, since it comes without its replay buffer
SEED = 2000  # no agent was trained with it

# For each measure, what it is in plain words.
MEANINGS = {
    "value": "what the critic expects (Q, or V for PPO), discounted",
    "return": "the actual return, discounted; for SAC with the entropy bonus",
    "value_minus_return": "the critic's bias",
    "unseen_tail": "largest weight of the rewards behind a time limit",
    "episode_score": "undiscounted return of these episodes",
    "random_score": "that of a policy that acts at random",
    "ent_coef": "entropy coefficient",
    "policy_std": "standard deviation of the actions, mean",
    "policy_entropy": "entropy of the actions, mean",
    "interference": "an update's change of values outside its batch, relative to inside",
    "interference_single": "the same for a batch of one state: how local the critic is",
    "effective_rank": "how many different features the head reads",
    "dead_features": "features that are constant over the states",
    "z_range": "share of (0, 1) that a latent dimension uses, mean",
    "z_range_min": "the same, smallest",
    "z_saturated": "share of latent numbers where the sigmoid is flat",
}


def diagnose_agent(
    name: str, env_id: str | None = None, n_episodes: int = 5, output: Path | None = None, vecnormalize: Path | None = None
) -> None:
    """
    Print a saved agent's diagnosis.

    :param name: A model's file, or the folder of a run
    :param env_id: Its environment; None to find it by the folder or the file's name
    :param n_episodes: Episodes to play
    :param output: A picture, PNG or PDF or SVG; None for none
    :param vecnormalize: VecNormalize's file, or the word "none"; None looks for it next to the model
    """
    if n_episodes < 1:
        raise ValueError(f"--episodes is {n_episodes}; it must be at least 1. Try 5.")
    path = find_agent(name)
    env = env_needed(path, env_id)
    model, normalization = load_agent(path), find_vecnormalize(path, vecnormalize)
    if not isinstance(model, BaseAlgorithm):
        raise ValueError(
            f"{path} can only act: it lacks the critics and optimizers that are measured. Give the zip that "
            "model.save wrote, or the folder of a run."
        )
    find_networks(model.policy)
    own = make_own_env(model, env, n_episodes, SEED)
    try:
        diagnosis = diagnose(collect(model, env, normalization), own, n_episodes, SEED)
        random = random_scores(own, SEED)
    finally:
        own.close()
    title = f"{type(model).__name__} on {env_name(env)}"
    chance = {"random_score": float(random.mean()), "random_spread": float(random.std())}
    diagnosis = replace(diagnosis, extras={**chance, **diagnosis.extras})
    found = verdicts(diagnosis.numbers, normalization is not None) or ["Nothing is out of line."]
    _print(title, diagnosis, found)
    if not all(optimizer.state for optimizer in optimizers_of(model.policy)):
        print("The file has no optimizer states: the update is a first one, whose steps are larger than those in training.")
    if output is not None:
        save_figure(draw(title, diagnosis, found[0]), output)
        print(f"Written to {output}")
    print(f"Measured on {env_name(env)}, {describe(path, normalization)}")


def collect(model: BaseAlgorithm, env: EnvSpec | str, vecnormalize: Path | None = None, n_steps: int = STEPS) -> Any:
    """
    Collect transitions for a loaded agent, which has none, with the exploring policy, as in training.

    :param model: The agent
    :param env: Its environment
    :param vecnormalize: VecNormalize's file, if it was trained with one
    :param n_steps: How many transitions; for PPO and similar algorithms one rollout
    :return: The agent, with transitions in its buffer. Its learning rate is that of the start of training: a schedule may
        have ended at 0
    """
    envs = make_envs(model, env, model.n_envs, SEED, None)
    if vecnormalize is not None:
        normalised = load_statistics(vecnormalize)
        normalised.set_venv(envs)
        normalised.training = False
        envs = normalised
    with own_randomness(SEED):
        agent = copy_agent(model)
        agent.verbose, agent.tensorboard_log = 0, None
        agent.set_env(envs)
        agent._setup_learn(n_steps)
        callback: BaseCallback = ConvertCallback(None)
        callback.init_callback(agent)
        if isinstance(model, OnPolicyAlgorithm):
            agent.collect_rollouts(agent.env, callback, agent.rollout_buffer, agent.n_steps)
        else:
            frequency = TrainFreq(-(-n_steps // model.n_envs), TrainFrequencyUnit.STEP)
            agent.collect_rollouts(agent.env, callback, frequency, agent.replay_buffer, agent.action_noise, learning_starts=0)
    agent._current_progress_remaining = 1.0
    return agent


def _print(title: str, diagnosis: Diagnosis, found: list[str]) -> None:
    numbers = diagnosis.numbers
    table = Table(title=f"{title}: diagnosis")
    table.add_column("measure")
    table.add_column("", justify="right")
    table.add_column("what it is", style="dim")
    for name, meaning in MEANINGS.items():
        if name in numbers:
            table.add_row(name, _show(numbers[name]), meaning)
    for role in diagnosis.seen:
        table.add_section()
        n = numbers[f"{role}/features"]
        for name, meaning in MEANINGS.items():
            if (key := f"{role}/{name}") in numbers:
                of = f" of {n:.0f}" if name in ("effective_rank", "dead_features") else ""
                table.add_row(key, _show(numbers[key]) + of, meaning)
    parts_table = Table(title="One update, part by part")
    parts_table.add_column("")
    parts_table.add_column("gradient norm", justify="right")
    parts_table.add_column("it alone moves the outputs by", justify="right")
    for role, parts in diagnosis.steps.items():
        parts_table.add_section()
        for part, step in parts.items():
            parts_table.add_row(f"{role}: {part}", _show(step.gradient), _show(step.change))
    console = Console()
    console.print(table)
    console.print(parts_table)
    for sentence in found:
        console.print(f"- {sentence}", highlight=False, markup=False, soft_wrap=True)


def _show(value: float) -> str:
    if not np.isfinite(value) or value == 0:
        return f"{value:.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
