"""An agent says whether it runs in C, and why not."""

import logging

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.noise import NormalActionNoise
from torch import nn

import sb3_span
from tests.algorithms.twins import make_agent, needs_native, train
from tests.policies.envs import make

pytestmark = needs_native


def hook(agent):
    agent.actor.mu.register_forward_hook(lambda *_: None)


def freeze(agent):
    agent.actor.mu.weight.requires_grad_(False)


def convert(agent):
    agent.policy.double()


class OwnBuffer(RolloutBuffer):
    pass


REASONS = {
    "gSDE": ("SAC", dict(use_sde=True), "gSDE"),
    "wide": ("SAC", dict(network="mlp", policy_kwargs=dict(net_arch=[512, 512])), "512 x 512 weights is larger than"),
    "deep": ("PPO", dict(network="mlp", policy_kwargs=dict(net_arch=[4] * 8)), "9 layers, and native code at most 8"),
    "activation": ("PPO", dict(network="mlp", policy_kwargs=dict(activation_fn=nn.ELU)), "activation is ELU"),
    "image": ("PPO", dict(env=lambda: make("image")), "observations are images"),
    "dict": ("PPO", dict(env=lambda: make("dict")), "observations are Dict"),
    "actions": ("PPO", dict(env=lambda: make("vector", "multibinary")), "drawn by BernoulliDistribution"),
    "optimizer": ("SAC", dict(policy_kwargs=dict(optimizer_class=th.optim.AdamW)), "optimizer is AdamW"),
    "option": ("SAC", dict(policy_kwargs=dict(optimizer_kwargs=dict(amsgrad=True))), "option amsgrad"),
    "preprocess": ("SAC", dict(policy_kwargs=dict(span_arch=dict(preprocess="layernorm"))), "preprocess='layernorm'"),
    "degree": ("PPO", dict(policy_kwargs=dict(span_arch=dict(basis="bspline", degree=4))), "degree=4"),
    "buffer": ("PPO", dict(rollout_buffer_class=OwnBuffer), "kept in a OwnBuffer"),
    "extractor": (
        "SAC",
        dict(policy_kwargs=dict(features_extractor_class=sb3_span.SPANFeaturesExtractor)),
        "SPANFeaturesExtractor is in the place of FlattenExtractor",
    ),
}


@pytest.mark.parametrize("which", REASONS)
def test_the_reason_is_named(which, caplog):
    name, options, reason = REASONS[which]
    agent = make_agent(getattr(sb3_span, name), **options)
    status = agent.native_status()
    assert status.startswith(f"{name} runs in PyTorch: ") and reason in status
    for _ in range(2):
        train(agent, 1 if name == "SAC" else 32)
    assert [record.message for record in caplog.records if record.name == "sb3_span"] == [status], "logged once"


@pytest.mark.parametrize(("change", "reason"), [(hook, "Linear has a hook"), (freeze, "frozen"), (convert, "float64")])
def test_what_was_changed_is_named(change, reason):
    agent = make_agent(sb3_span.SAC)
    assert agent.native_status() == "SAC runs in C."
    change(agent)
    assert reason in agent.native_status()


def test_noise_on_the_actions_is_named():
    agent = make_agent(sb3_span.SAC, action_noise=NormalActionNoise(np.zeros(2), np.ones(2)))
    assert agent.native_status() == (
        "SAC runs in C, but its actions are drawn by PyTorch: action_noise (NormalActionNoise) is added to them."
    )


def test_a_rollout_that_cannot_be_is_named():
    agent = train(make_agent(sb3_span.PPO, env=lambda: make("vector", "discrete")), 32)
    agent.rollout_buffer.actions[0] = 7
    with pytest.raises((RuntimeError, ValueError)):  # of SB3's own update
        agent.train()
    assert agent.native_status() == "PPO runs in PyTorch: the rollout has actions that there are not."


def test_an_agent_in_c_says_so(caplog):
    caplog.set_level(logging.INFO, "sb3_span")
    train(make_agent(sb3_span.PPO), 32)
    assert "PPO runs in C." in caplog.messages


def test_a_predict_of_ones_own_is_named():
    class Careful(sb3_span.SAC):
        def predict(self, *args, **kwargs):
            return super().predict(*args, **kwargs)

    agent = Careful("SPANPolicy", make("vector"), buffer_size=10, device="cpu")
    assert agent.native_status() == (
        "Careful runs in C, but its actions are drawn by PyTorch: Careful has a predict of its own."
    )


def test_torch_can_be_chosen(monkeypatch):
    from sb3_span.nn.native import choice

    monkeypatch.setattr(choice, "IS_NATIVE", False)
    monkeypatch.setattr(choice, "_reason", "SB3_SPAN_KERNEL is 'torch'")
    assert make_agent(sb3_span.PPO).native_status() == "PPO runs in PyTorch: SB3_SPAN_KERNEL is 'torch'."
