"""Gradients are clipped before each step, for SPAN and for the MLP that it is compared with; learning rates by part."""

import copy
import pickle
import re

import pytest
import torch as th
from sb3_contrib import QRDQN, TQC, TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.utils import update_learning_rate

import sb3_span
from sb3_span import ClippedMlpPolicy
from sb3_span.policies.optimizers import Adapted, clip_gradients, optimizers_of, read_lr_scale, scale_learning_rates
from tests.policies.envs import make
from tests.policies.models import name


def clipped(optimizer, max_grad_norm):
    clip_gradients(optimizer, max_grad_norm)
    return optimizer


@pytest.mark.parametrize("optimizer_class", [th.optim.SGD, th.optim.Adam, th.optim.AdamW])
def test_step_is_that_of_the_clipped_gradient(optimizer_class):
    gradient = th.tensor([3.0, -4.0])
    for max_norm, factor in [(1.0, 1 / 5), (10.0, 1.0)]:
        expected, param = th.nn.Parameter(th.ones(2)), th.nn.Parameter(th.ones(2))
        expected.grad, param.grad = factor * gradient, gradient.clone()
        optimizer_class([expected], lr=0.1).step()
        clipped(optimizer_class([param], lr=0.1), max_norm).step()
        th.testing.assert_close(param, expected)


@pytest.mark.parametrize("wrong", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_gradients_are_those_of_torchs_function(size, wrong):
    gradients = [size * th.randn(3, 4), size * th.randn(2), size * th.randn(())]
    if wrong is not None:
        gradients[0][1, 1] = wrong
    ours, theirs = ([th.nn.Parameter(th.zeros_like(gradient)) for gradient in [*gradients, th.ones(2)]] for _ in range(2))
    for params in (ours, theirs):  # the last one has no gradient
        for param, gradient in zip(params, gradients, strict=False):
            param.grad = gradient.clone()
    clipped(th.optim.SGD(ours, lr=1.0), 0.5).step()
    th.nn.utils.clip_grad_norm_(theirs, 0.5)
    for our, their in zip(ours[:-1], theirs, strict=False):
        th.testing.assert_close(our.grad, their.grad, equal_nan=True)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))], ids=["copy", "pickle"])
def test_a_copy_still_clips(duplicate):
    param = th.nn.Parameter(th.ones(2))
    optimizer = duplicate(clipped(th.optim.SGD([param], lr=1.0), 1.0))
    (param,) = optimizer.param_groups[0]["params"]
    param.grad = th.tensor([30.0, 40.0])
    optimizer.step()
    th.testing.assert_close(param.data, th.tensor([1 - 0.6, 1 - 0.8]))


@pytest.mark.parametrize(
    "algo, policy",
    [(SAC, "SPANPolicy"), (SAC, ClippedMlpPolicy), (TD3, "SPANPolicy"), (DDPG, "SPANPolicy"), (TQC, "SPANPolicy")],
    ids=name,
)
def test_steps_are_clipped_also_after_loading(algo, policy, tmp_path):
    kwargs = dict(learning_starts=8, batch_size=8, buffer_size=100, **({"policy_delay": 1} if algo is TD3 else {}))
    optimizer = dict(optimizer_class=th.optim.SGD, max_grad_norm=1e-3)
    if policy == "SPANPolicy":
        optimizer["lr_scale"] = 1.0
    model = algo(policy, make("vector"), learning_rate=1.0, seed=0, policy_kwargs=optimizer, **kwargs)
    model.learn(8)
    for _ in range(2):
        for network in (model.actor, model.critic):
            assert isinstance(network.optimizer, th.optim.SGD)
            before = network.parameters_to_vector()
            model.train(gradient_steps=1, batch_size=8)
            assert 0 < ((network.parameters_to_vector() - before) ** 2).sum() ** 0.5 <= 1.001e-3
        model.save(tmp_path / "model")
        model.save_replay_buffer(tmp_path / "buffer")
        model = algo.load(tmp_path / "model", env=model.get_env())
        model.load_replay_buffer(tmp_path / "buffer")
        model.learn(1, reset_num_timesteps=False)


def test_loaded_weights_leave_the_limit_alone(tmp_path):
    """What is asked for now counts, whatever the checkpoint was trained with."""
    for old in (dict(), dict(max_grad_norm=10.0)):
        SAC("SPANPolicy", make("vector"), buffer_size=100, policy_kwargs=old).save(tmp_path / "old")
        model = SAC("SPANPolicy", make("vector"), buffer_size=100, policy_kwargs=dict(max_grad_norm=1.0))
        model.set_parameters(tmp_path / "old")
        custom = SAC.load(tmp_path / "old", custom_objects=dict(policy_kwargs=dict(max_grad_norm=1.0)))
        for optimizer in (model.actor.optimizer, custom.critic.optimizer):
            assert optimizer.defaults["max_grad_norm"] == 1.0
            optimizer.step()


def test_baseline_policy_keeps_its_options(tmp_path):
    policy_kwargs = dict(max_grad_norm=2.0, net_arch=[4], share_features_extractor=True)
    model = SAC(ClippedMlpPolicy, make("vector"), buffer_size=100, policy_kwargs=policy_kwargs)
    model.policy.save(tmp_path / "policy.pt")
    loaded = ClippedMlpPolicy.load(tmp_path / "policy.pt")
    assert loaded.max_grad_norm == 2.0
    assert loaded.share_features_extractor is True
    assert loaded.optimizer_class is th.optim.Adam
    assert isinstance(loaded.actor.optimizer, th.optim.Adam) and loaded.actor.optimizer.defaults["max_grad_norm"] == 2.0


SCALES = dict(preprocess=0.0, coefficients=3.0, scale=2.0, other=5.0)  # the head has 1
ON_POLICY = (PPO, A2C, TRPO, RecurrentPPO, MaskablePPO)
DISCRETE = (DQN, QRDQN, MaskablePPO)


def part_of(parameter_name):
    if parameter_name.endswith("log_std") or "lstm" in parameter_name:
        return "other"
    for part in ("preprocess", "coefficients", "scale"):
        if f".{part}" in parameter_name and not parameter_name.endswith("head.weight"):
            return part
    return "head"


@pytest.mark.parametrize("algo", [*ON_POLICY, DQN, QRDQN, SAC, TQC, TD3, DDPG], ids=name)
def test_each_part_has_its_learning_rate(algo, tmp_path):
    """With SGD a step is the gradient times the learning rate, which SB3 sets, also after loading."""
    policy_kwargs = dict(lr_scale=SCALES, optimizer_class=th.optim.SGD)
    if algo in (SAC, TQC, TD3, DDPG):
        policy_kwargs["max_grad_norm"] = 1e6
    kwargs = {} if algo in ON_POLICY else dict(buffer_size=100)
    env = make("vector", "discrete" if algo in DISCRETE else "box")
    model = algo("SPANPolicy", env, policy_kwargs=policy_kwargs, **kwargs)
    for lr in (1e-3, 2e-3):
        names = {param: name for name, param in model.policy.named_parameters()}
        seen = set()
        for optimizer in optimizers_of(model.policy):
            update_learning_rate(optimizer, lr)
            params = [param for group in optimizer.param_groups for param in group["params"]]
            before = [param.detach().clone() for param in params]
            for param in params:
                param.grad = th.ones_like(param)
            optimizer.step()
            for param, old in zip(params, before, strict=True):
                part = part_of(names[param])
                th.testing.assert_close(param.detach(), old - lr * SCALES.get(part, 1.0), msg=names[param])
                seen.add(part)
            assert all(group["lr"] == lr for group in optimizer.param_groups)
        assert seen - {"other"} == {"preprocess", "coefficients", "scale", "head"}
        model.save(tmp_path / "model")
        model = algo.load(tmp_path / "model", env=env)
        assert model.policy.lr_scale == {**SCALES, "head": 1.0}


@pytest.mark.parametrize("lr_scale", [1, dict(head=1)])
def test_a_scale_of_one_is_the_optimizer_itself(lr_scale):
    (optimizer,) = optimizers_of(PPO("SPANPolicy", make("vector"), policy_kwargs=dict(lr_scale=lr_scale)).policy)
    assert type(optimizer) is th.optim.Adam


@pytest.mark.parametrize("algo", [*ON_POLICY, DQN, SAC, TQC, TD3], ids=name)
def test_factors_of_the_rate_by_default(algo):
    kwargs = {} if algo in ON_POLICY else dict(buffer_size=100)
    policy = algo("SPANPolicy", make("vector", "discrete" if algo in DISCRETE else "box"), **kwargs).policy
    factor = 2.0 if algo in ON_POLICY else 3.0 if algo in (SAC, TQC) else 1.0
    assert policy.lr_scale == {**dict.fromkeys(["preprocess", "coefficients", "scale", "head"], factor), "other": 1.0}


def test_what_is_not_span_keeps_its_rate_by_default():
    """The convolutions that images go through, and the width of the distribution."""
    policy = PPO("SPANPolicy", make("image"), n_steps=64).policy
    factors = dict(zip(policy.optimizer.param_groups[0]["params"], policy.optimizer.defaults["lr_scale"], strict=True))
    others = {policy.log_std, *policy.features_extractor.parameters()}
    assert len(others) > 4
    assert {factors[param] for param in others} == {1.0}
    assert {factor for param, factor in factors.items() if param not in others} == {2.0}


def test_a_layer_in_front_of_span_is_no_head():
    """sb3-contrib's stand-in for the critic's LSTM."""
    policy = RecurrentPPO("SPANPolicy", make("vector"), policy_kwargs=dict(enable_critic_lstm=False)).policy
    factors = dict(zip(policy.optimizer.param_groups[0]["params"], policy.optimizer.defaults["lr_scale"], strict=True))
    assert {factors[param] for param in policy.critic.parameters()} == {1.0}
    assert {factors[param] for param in policy.value_net.parameters()} == {2.0}


class Encoder(FlattenExtractor):
    """A features extractor with a layer of the name that SAC's head has."""

    def __init__(self, observation_space):
        super().__init__(observation_space)
        self.mu = th.nn.Linear(self.features_dim, self.features_dim)

    def forward(self, observations):
        return self.mu(super().forward(observations))


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_a_layer_of_a_features_extractor_is_no_head(algorithm):
    options = dict(features_extractor_class=Encoder, lr_scale=dict(head=10.0))
    policy = algorithm("SPANPolicy", make("vector"), policy_kwargs=options).policy
    optimizer = next(optimizers_of(policy))
    factors = dict(zip(optimizer.param_groups[0]["params"], optimizer.defaults["lr_scale"], strict=True))
    actor = policy if algorithm is PPO else policy.actor
    assert {factors[param] for param in actor.features_extractor.parameters()} == {1.0}
    head = policy.action_net if algorithm is PPO else policy.actor.mu
    assert {factors[param] for param in head.parameters()} == {10.0}


class Autoencoder(FlattenExtractor):
    """A features extractor that trains itself, with a decoder that the policy knows nothing of."""

    def __init__(self, observation_space):
        super().__init__(observation_space)
        self.encoder = th.nn.Linear(self.features_dim, self.features_dim)
        self.decoder = [th.nn.Linear(self.features_dim, self.features_dim)]
        parts = [dict(params=self.encoder.parameters()), dict(params=self.decoder[0].parameters())]
        self.optimizer = th.optim.SGD(parts, lr=1.0)

    def forward(self, observations):
        return self.encoder(super().forward(observations))


@pytest.mark.parametrize(
    ("algorithm", "options"), [(PPO, {}), (SAC, dict(lr_scale=2.0, max_grad_norm=1.0))], ids=["ppo", "sac"]
)
def test_an_optimizer_of_a_features_extractor_is_its_own(algorithm, options):
    policy = algorithm(
        "SPANPolicy", make("vector"), policy_kwargs=dict(features_extractor_class=Autoencoder, **options)
    ).policy
    extractors = [module for module in policy.modules() if isinstance(module, Autoencoder)]
    assert extractors and all(type(extractor.optimizer) is th.optim.SGD for extractor in extractors)
    assert all(isinstance(optimizer, Adapted) for optimizer in optimizers_of(policy))


class Wrapping(th.optim.Optimizer):
    """Leaves its steps to another optimizer, whose groups it has."""

    def __init__(self, params, lr, **kwargs):
        self.inner = th.optim.SGD(params, lr)
        super().__init__(self.inner.param_groups, dict(lr=lr))
        self.param_groups = self.inner.param_groups

    def step(self, closure=None):
        return self.inner.step(closure)


def test_an_optimizer_inside_another_has_the_scales_too():
    params = [th.nn.Parameter(th.zeros(1)) for _ in range(2)]
    optimizer = Wrapping(params, lr=0.1)
    scale_learning_rates(optimizer, dict(zip(params, ["head", "other"], strict=True)), dict(head=3.0, other=1.0))
    for param in params:
        param.grad = th.ones(1)
    optimizer.step()
    assert [param.item() for param in params] == pytest.approx([-0.3, -0.1])


class Counting(th.optim.SGD):
    """Counts its steps in its groups, as some optimizers do."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["n_steps"] = group.get("n_steps", 0) + 1
        return super().step(closure)


def test_what_an_optimizer_keeps_in_its_groups_stays():
    model = PPO(
        "SPANPolicy", make("vector"), n_steps=8, batch_size=8, n_epochs=3, policy_kwargs=dict(optimizer_class=Counting)
    )
    model.learn(8)
    (group,) = model.policy.optimizer.param_groups
    assert group["n_steps"] == 3 and group["lr"] == model.learning_rate
    assert len(group["params"]) == len(list(model.policy.parameters()))


def test_groups_of_ones_own_are_for_a_scale_of_one():
    optimizer = PPO("SPANPolicy", make("vector")).policy.optimizer
    optimizer.add_param_group(dict(params=[th.nn.Parameter(th.ones(1))]))
    with pytest.raises(ValueError, match=r"has 2 groups of parameters; lr_scale needs one.*lr_scale=1.0"):
        optimizer.step()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))], ids=["copy", "pickle"])
def test_a_copy_still_scales(duplicate):
    params = [th.nn.Parameter(th.ones(2)) for _ in range(2)]
    optimizer = th.optim.SGD(params, lr=0.1)
    scale_learning_rates(optimizer, {params[0]: "coefficients", params[1]: "head"}, read_lr_scale(dict(coefficients=3)))
    calls = []
    optimizer = duplicate(optimizer)
    optimizer.register_step_pre_hook(lambda *args: calls.append(args))
    params = optimizer.param_groups[0]["params"]
    for param in params:
        param.grad = th.ones(2)
    optimizer.step()
    th.testing.assert_close(params[0].data, th.full((2,), 0.7))
    th.testing.assert_close(params[1].data, th.full((2,), 0.9))
    assert len(calls) == 1 and len(optimizer.param_groups) == 1


@pytest.mark.parametrize("old, new", [({}, SCALES), (SCALES, {}), (dict(coefficients=9), SCALES), (SCALES, 2.0)])
def test_loaded_weights_leave_the_scales_alone(old, new, tmp_path):
    """Agents trained with and without scales load into each other, optimizers included; what is asked for now counts."""
    PPO("SPANPolicy", make("vector"), policy_kwargs=dict(lr_scale=old)).save(tmp_path / "old")
    model = PPO("SPANPolicy", make("vector"), policy_kwargs=dict(lr_scale=new, optimizer_class=th.optim.Adam))
    fresh = PPO("SPANPolicy", make("vector"), policy_kwargs=dict(lr_scale=new))
    model.set_parameters(tmp_path / "old")
    assert model.policy.optimizer.defaults == fresh.policy.optimizer.defaults
    model.learn(8)


@pytest.mark.parametrize("lr_scale", [-1, "3", True, dict(modes=2.0), dict(head="2"), float("inf")])
def test_wrong_scales(lr_scale):
    with pytest.raises(
        ValueError, match=r"lr_scale is .*; it must be a number that .* any of the parts \['preprocess', 'coeff"
    ):
        PPO("SPANPolicy", make("vector"), policy_kwargs=dict(lr_scale=lr_scale))


def test_the_learning_rate_that_is_used_is_shown():
    """Twice the one that PPO has by default: in the optimizer's repr, and in the log of sb3_span's algorithms."""
    model = sb3_span.PPO("SPANPolicy", make("vector"), n_steps=64, device="cpu")
    shown = [float(rate) for rate in re.findall(r" lr: (\S+)", repr(model.policy.optimizer))]
    assert sorted(shown) == pytest.approx([model.learning_rate, 2 * model.learning_rate])  # the standard deviation's, SPAN's
    assert (
        len(model.policy.optimizer.param_groups) == 1 and model.policy.optimizer.param_groups[0]["lr"] == model.learning_rate
    )
    model.learn(64)
    assert model.logger.name_to_value["train/learning_rate"] == pytest.approx(2 * model.learning_rate)
    parts = sb3_span.PPO("SPANPolicy", make("vector"), device="cpu", policy_kwargs=dict(lr_scale=dict(coefficients=3.0)))
    rates = [float(rate) for rate in re.findall(r" lr: (\S+)", repr(parts.policy.optimizer))]
    assert sorted(rates) == pytest.approx([3e-4, 9e-4])
