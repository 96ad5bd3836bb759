"""The RL-Zoo files hold the paper's networks: every parameter count of its table of online networks, exactly."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml
from gymnasium import spaces
from rl_zoo3.utils import get_class_by_name
from stable_baselines3 import PPO, SAC

from sb3_span.policies.budget import count_parameters
from sb3_span.study.plan import read_plan
from sb3_span.study.run import StudyManager

HYPERPARAMS = Path(__file__).parents[1] / "hyperparams"
CONFIGS = Path(__file__).parents[1] / "zoo_configs"

# Environment: algorithm, observations, actions, parameters of SPAN and of the MLP.
# The paper prints 256 for InvertedPendulum's MLP, but the layers it names have 263.
PAPER = {
    "CartPole-v1": (PPO, 4, spaces.Discrete(2), 86, 88),
    "Acrobot-v1": (PPO, 6, spaces.Discrete(3), 472, 602),
    "LunarLander-v3": (PPO, 8, spaces.Discrete(4), 1084, 1156),
    "InvertedPendulum-v5": (SAC, 4, spaces.Box(-1, 1, (1,)), 260, 263),
    "Hopper-v5": (SAC, 11, spaces.Box(-1, 1, (3,)), 3799, 3744),
    "HalfCheetah-v5": (SAC, 17, spaces.Box(-1, 1, (6,)), 4147, 4130),
    "Walker2d-v5": (SAC, 17, spaces.Box(-1, 1, (6,)), 4623, 4616),
    "SPANDataCenter-v0": (SAC, 41, spaces.Box(-1, 1, (2,)), 15859, 15785),
}
# Not in the paper: matched by sb3-span budget.
OTHERS = {
    "SPANFiveZone-v0": (SAC, 17, spaces.Box(-1, 1, (2,)), 5587, 5609),
    "QuarterCar-v0": (PPO, 5, spaces.Box(-1, 1, (1,)), 1603, 1599),
}


class Still(gym.Env):
    def __init__(self, obs_dim, action_space):
        self.observation_space = spaces.Box(-np.inf, np.inf, (obs_dim,))
        self.action_space = action_space


def read(method):
    return yaml.safe_load((HYPERPARAMS / f"{method}.yml").read_text())


@pytest.mark.parametrize("method", ["span", "mlp"])
@pytest.mark.parametrize("env_id", PAPER | OTHERS)
def test_parameter_counts(env_id, method):
    algo, obs_dim, action_space, span_params, mlp_params = (PAPER | OTHERS)[env_id]
    hyperparams = read(method)[env_id]
    policy = hyperparams["policy"]
    policy = get_class_by_name(policy) if "." in policy else policy
    model = algo(policy, Still(obs_dim, action_space), policy_kwargs=hyperparams["policy_kwargs"], device="cpu")
    # PPO: actor and critic. SAC: actor and two critics, without the targets.
    networks = [model.policy] if algo is PPO else [model.actor, model.critic]
    count = sum(param.numel() for network in networks for param in network.parameters())
    assert count == (span_params if method == "span" else mlp_params)


def test_hyperparameters_are_the_papers():
    ppo = dict(batch_size=64, n_epochs=4, learning_rate=3e-4, gamma=0.99, gae_lambda=0.95, clip_range=0.2, vf_coef=0.5)
    ppo |= dict(max_grad_norm=0.5)
    sac = dict(batch_size=128, buffer_size=1_000_000, learning_starts=50_000, learning_rate=3e-4, gamma=0.99, tau=0.005)
    budgets = {"CartPole-v1": 500_000, "Acrobot-v1": 500_000, "SPANDataCenter-v0": 525_600}
    for env_id, hyperparams in read("span").items():
        if env_id not in PAPER:
            continue
        is_ppo = PAPER[env_id][0] is PPO
        expected = (ppo if is_ppo else sac) | dict(n_timesteps=budgets.get(env_id, 1_000_000))
        assert {key: hyperparams[key] for key in expected} == expected
        if is_ppo:
            assert hyperparams["n_envs"] * hyperparams["n_steps"] == 1024
        else:
            assert hyperparams["policy_kwargs"]["max_grad_norm"] == 10.0


def test_the_two_files_differ_in_the_policy_only():
    span, mlp = read("span"), read("mlp")
    assert list(span) == list(mlp)
    for env_id in PAPER | OTHERS:
        for key in ("policy", "policy_kwargs"):
            span_value, mlp_value = span[env_id].pop(key), mlp[env_id].pop(key)
            assert span_value != mlp_value
            if key == "policy_kwargs":
                assert span_value.get("max_grad_norm") == mlp_value.get("max_grad_norm")
        assert span[env_id] == mlp[env_id]


@pytest.mark.parametrize("method", ["span", "mlp"])
def test_tuned_networks_have_the_papers_sizes(method):
    """And one set of settings for all environments of an algorithm. SPAN's for SAC are not larger than the MLPs."""
    runs = {run.env: run for run in read_plan(CONFIGS / "tuned.yml").runs if run.method == f"{method}-tuned"}
    for env_id, run in runs.items():
        agent = StudyManager(run).make_agent()
        params, (_, _, _, of_span, of_mlp) = count_parameters(agent.policy), PAPER[env_id]
        if method == "span" and run.algo == "sac":
            assert 0.85 * of_mlp < params <= of_mlp
        else:
            assert params == (of_span if method == "span" else of_mlp)
        agent.env.close()
    own = ("n_timesteps", "policy_kwargs")
    settings = {
        (run.algo, yaml.safe_dump({key: value for key, value in run.hyperparams.items() if key not in own}))
        for run in runs.values()
    }
    assert len(settings) == len({run.algo for run in runs.values()})


@pytest.mark.parametrize("env_id", [env_id for env_id in PAPER if env_id != "SPANDataCenter-v0"])
def test_sizes_are_those_of_the_real_environment(env_id):
    env = gym.make(env_id)
    _, obs_dim, action_space, _, _ = PAPER[env_id]
    assert env.observation_space.shape == (obs_dim,)
    assert env.action_space.shape == action_space.shape
    env.close()
