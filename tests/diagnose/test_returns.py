import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

import sb3_span
from sb3_span.diagnose import diagnose
from sb3_span.diagnose.environments import make_own_env
from sb3_span.diagnose.returns import Episode, compare
from sb3_span.diagnose.twin import copy_agent, own_randomness
from tests.diagnose.agents import Walk, make_agent, walking_dqn

BOX = spaces.Box(-2.0, 2.0, (1,))


def own(action_space, is_cut=False, n=2):
    return DummyVecEnv([lambda: Walk(action_space, is_cut)] * n)


def test_an_ended_episode_counts_whole():
    env = own(spaces.Discrete(2))
    found = compare(walking_dqn(), env, n_episodes=2, seed=0, normalizer=None)
    whole = [(1 - 0.9**left) / (1 - 0.9) for left in range(10, 0, -1)]
    np.testing.assert_allclose(found.returns, whole + whole)
    assert (found.tail, found.score) == (0.0, 10.0)


def test_of_a_cut_episode_only_the_beginning_counts():
    found = compare(walking_dqn(), own(spaces.Discrete(2), is_cut=True), 2, 0, None)
    assert len(found.returns) == 2  # a tenth of each: the rest has too little behind it
    assert found.tail == pytest.approx(0.9**10)
    long = Episode(values=[0.0] * 1000, rewards=[1.0] * 1000, bonuses=[0.0] * 1000, is_cut=True)
    count = long.counted(0.99)
    assert 0.99 ** (1000 - count + 1) <= 0.05 < 0.99 ** (1000 - count)
    # What is missing is bounded by that weight.
    assert np.all(np.abs(long.returns(0.99)[:count] - 100) <= 0.05 * 100)


def test_a_buffer_for_which_time_limits_are_ends_cuts_nothing():
    model = make_agent(stable_baselines3.DQN, lambda: Walk(spaces.Discrete(2)), "MlpPolicy")
    model.replay_buffer.handle_timeout_termination = False
    assert len(compare(model, own(spaces.Discrete(2), is_cut=True), 2, 0, None).returns) == 20


def test_the_bonus_counts_as_in_sac():
    episode = Episode(values=[0.0] * 3, rewards=[1.0, 2.0, 3.0], bonuses=[10.0, 20.0, 30.0])
    last, middle = 3.0, 2.0 + 0.5 * (30 + 3)
    np.testing.assert_allclose(episode.returns(0.5), [1 + 0.5 * (20 + middle), middle, last])


def test_the_bonus_is_the_coefficient_times_minus_the_log_probability():
    model = make_agent(stable_baselines3.SAC, lambda: Walk(BOX), "MlpPolicy", ent_coef=0.5, gamma=1.0)
    th.nn.init.zeros_(model.actor.mu.weight)
    th.nn.init.zeros_(model.actor.log_std.weight)
    th.nn.init.zeros_(model.actor.mu.bias)
    th.nn.init.constant_(model.actor.log_std.bias, -5.0)  # tanh is the identity there: a Gaussian's entropy
    found = compare(model, own(BOX, n=200), 200, 0, None)
    entropy = 0.5 * np.log(2 * np.pi * np.e) - 5.0
    returns = found.returns.reshape(200, 10)
    np.testing.assert_allclose(returns[:, 0].mean(), 10 + 0.5 * 9 * entropy, atol=0.15)
    np.testing.assert_allclose(returns[:, -1], 1.0)


@pytest.mark.parametrize("policy", ["SPANPolicy", "MlpPolicy"])
@pytest.mark.parametrize("algorithm", [sb3_span.SAC, stable_baselines3.TD3, sb3_span.PPO])
def test_a_shifted_head_shifts_the_bias_by_as_much(algorithm, policy):
    model = make_agent(algorithm, "Pendulum-v1", policy).learn(64)
    env = make_own_env(model, None, 2, 0)
    before = seeded(model, env)
    with th.no_grad():
        if hasattr(model.policy, "value_net"):
            model.policy.value_net.bias += 7.0
        else:
            heads = [model.critic.qf.head] if policy == "SPANPolicy" else [net[-1] for net in model.critic.q_networks]
            for head in heads:
                head.bias += 7.0
    after = seeded(model, env)
    np.testing.assert_allclose(after.values - before.values, 7.0, atol=1e-4)
    np.testing.assert_array_equal(after.returns, before.returns)


def seeded(model, env):
    with own_randomness(0):
        return compare(copy_agent(model), env, 2, 0, None)


def test_rewards_and_observations_are_normalised_as_in_training():
    model = make_agent(stable_baselines3.PPO, "Pendulum-v1", normalize=True).learn(64)
    env = make_own_env(model, None, 2, 0)
    normalizer = model.get_vec_normalize_env()
    found = compare(model, env, 2, 0, normalizer)
    th.manual_seed(0)
    first = compare(model, env, 2, 0, normalizer).returns
    normalizer.ret_rms.var = 4 * normalizer.ret_rms.var  # rewards count half
    th.manual_seed(0)
    half = compare(model, env, 2, 0, normalizer).returns
    np.testing.assert_allclose(half, first / 2, rtol=1e-4)
    assert found.score < -100  # the environment's own


def test_an_agent_is_left_as_it_is():
    model = make_agent(sb3_span.SAC, "Pendulum-v1").learn(64)
    before = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    state, numbers = th.get_rng_state(), np.random.get_state()[1].copy()
    first = diagnose(model, make_own_env(model, None, 2, 0), 2)
    second = diagnose(model, make_own_env(model, None, 2, 0), 2)
    assert first.numbers == second.numbers
    assert all(th.equal(before[name], tensor) for name, tensor in model.policy.state_dict().items())
    assert th.equal(state, th.get_rng_state())
    assert np.array_equal(numbers, np.random.get_state()[1])
