"""What somebody has hooked into or put in from elsewhere is called, or refused, as by SB3's own algorithms."""

import pytest
import stable_baselines3
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

import sb3_span
from sb3_span.nn.native import choice
from tests.algorithms.twins import make_agent, needs_native, train
from tests.policies.envs import make

STEPS = {"SAC": 40, "PPO": 96}


def test_a_subclass_with_its_own_way_to_tensors_acts():
    class Careful(sb3_span.SPANPolicy):
        calls = 0

        def obs_to_tensor(self, observation):
            type(self).calls += 1
            return super().obs_to_tensor(observation)

    sizes = dict(buffer_size=500, learning_starts=20, batch_size=16)
    train(sb3_span.SAC(Careful, make("vector"), seed=0, device="cpu", **sizes), STEPS["SAC"])
    assert Careful.calls == STEPS["SAC"] - 20


class _Records(BaseCallback):
    """Records activations, but only while experience is collected."""

    def _on_training_start(self) -> None:
        self.calls = 0

    def _on_rollout_start(self) -> None:
        self.handle = self.model.policy.action_net.register_forward_hook(self._count)

    def _count(self, *_) -> None:
        self.calls += 1

    def _on_rollout_end(self) -> None:
        self.handle.remove()

    def _on_step(self) -> bool:
        return True


def test_hooks_of_a_rollout_are_called():
    callback = _Records()
    agent = train(make_agent(sb3_span.PPO), STEPS["PPO"])
    agent.learn(STEPS["PPO"], callback=callback, log_interval=None, reset_num_timesteps=False)
    assert callback.calls >= STEPS["PPO"]
    train(agent, STEPS["PPO"])
    assert agent._plan is not None or not choice.IS_NATIVE


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_hooks_of_all_modules_are_called(name):
    counts = []
    for module in (stable_baselines3, sb3_span):
        agent = train(make_agent(getattr(module, name)), STEPS[name])
        calls = []
        handle = nn.modules.module.register_module_forward_hook(lambda *_, calls=calls: calls.append(1))
        train(agent, STEPS[name])
        handle.remove()
        counts.append(len(calls))
    assert counts[0] == counts[1] > 0


@needs_native
@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_another_default_device(name):
    """As with torch.set_default_device("cuda") and device="cpu" for the agent."""
    agent = train(make_agent(getattr(sb3_span, name)), STEPS[name])
    th.set_default_device("meta")
    try:
        agent.learn(STEPS[name], log_interval=None, reset_num_timesteps=False)
    finally:
        th.set_default_device(None)
    assert all(param.is_cpu and param.isfinite().all() for param in agent.policy.parameters())
    assert agent._plan is not None


@needs_native
def test_a_replay_buffer_of_another_environment():
    agent = train(make_agent(sb3_span.SAC), STEPS["SAC"])
    other = train(sb3_span.SAC("SPANPolicy", "MountainCarContinuous-v0", buffer_size=50, learning_starts=20), 40)
    agent.replay_buffer = other.replay_buffer
    with pytest.raises(ValueError, match=r"100 numbers of observations.*must be 150.*another environment"):
        agent.train(1, 16)


def test_a_rollout_of_another_environment():
    agent = train(make_agent(sb3_span.PPO), STEPS["PPO"])
    other = train(sb3_span.PPO("SPANPolicy", "MountainCarContinuous-v0", n_steps=32, batch_size=16), 32)
    agent.rollout_buffer = other.rollout_buffer
    with pytest.raises(ValueError, match=r"shape \(16, 2\)"):
        agent.train()


def test_actions_that_there_are_not():
    agent = train(make_agent(sb3_span.PPO, env=lambda: make("vector", "discrete")), STEPS["PPO"])
    agent.rollout_buffer.actions[:3] = 7
    with pytest.raises(ValueError, match="within the support"):
        agent.train()


def test_a_gpu_is_warned_of(monkeypatch):
    """There is none here: the agent is told that it is on one."""
    agent = make_agent(sb3_span.PPO)
    with pytest.warns(UserWarning, match=r"updates them in C on the CPU only.*device='cpu'"):
        monkeypatch.setattr(stable_baselines3.PPO, "_setup_model", lambda self: None)
        agent.device = th.device("cuda")
        agent._setup_model()
