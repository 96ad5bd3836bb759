"""What works for SB3's own policies works for SPAN's: every space, every option, every way of saving."""

import copy
import pickle

import numpy as np
import pytest
import torch as th
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_span import SPANActorCriticPolicy, SPANFeaturesExtractor, SPANPolicy
from sb3_span.policies.networks import SPANActor
from tests.policies.envs import ACTIONS, OBSERVATIONS, make

SMALL = dict(nmodes=3, nelems=3)


def make_model(algo, env, *, steps: int = 32, learn: bool = True, policy="SPANPolicy", span_arch=SMALL, **kwargs):
    policy_kwargs = {**kwargs.pop("policy_kwargs", {})}
    if span_arch is not None:
        policy_kwargs["span_arch"] = span_arch
    sizes = {
        PPO: dict(n_steps=16, batch_size=8, n_epochs=2),
        A2C: dict(n_steps=8),
        SAC: dict(buffer_size=200, learning_starts=16, batch_size=8),
        TD3: dict(buffer_size=200, learning_starts=16, batch_size=8),
        DQN: dict(buffer_size=200, learning_starts=16, batch_size=8),
    }[algo]
    model = algo(policy, env, seed=0, device="cpu", policy_kwargs=policy_kwargs, **{**sizes, **kwargs})
    return model.learn(steps) if learn else model


def observations(model, n: int = 6):
    space = model.observation_space
    space.seed(1)
    samples = [space.sample() for _ in range(n)]
    if isinstance(samples[0], dict):
        return {key: np.stack([sample[key] for sample in samples]) for key in samples[0]}
    return np.stack(samples)


def actions(policy, obs) -> np.ndarray:
    return policy.predict(obs, deterministic=True)[0]


def assert_survives_saving(model, path) -> None:
    """Equal actions after each way of saving, and training goes on."""
    obs = observations(model)
    expected = actions(model, obs)

    model.save(path / "model")
    loaded = type(model).load(path / "model", env=model.get_env(), device="cpu")
    np.testing.assert_array_equal(actions(loaded, obs), expected)

    model.policy.save(path / "policy.pt")
    policy = type(model.policy).load(path / "policy.pt", device="cpu")
    np.testing.assert_array_equal(actions(policy, obs), expected)
    for name, value in model.policy.state_dict().items():
        th.testing.assert_close(policy.state_dict()[name], value, equal_nan=True, rtol=0, atol=0)

    np.testing.assert_array_equal(actions(pickle.loads(pickle.dumps(model.policy)), obs), expected)
    if not model.use_sde:  # SB3's own policies cannot be copied either while they hold gSDE's noise
        np.testing.assert_array_equal(actions(copy.deepcopy(model.policy), obs), expected)

    if isinstance(model, SAC):
        model.actor.save(path / "actor.pt")
        actor = type(model.actor).load(path / "actor.pt", device="cpu")
        np.testing.assert_array_equal(actions(actor, obs), expected)

    before = loaded.policy.parameters_to_vector()
    loaded.learn(32, reset_num_timesteps=False)
    assert (loaded.policy.parameters_to_vector() != before).any()


ON_POLICY = [(algo, obs, act) for algo in (PPO, A2C) for obs in OBSERVATIONS for act in ACTIONS]
# Images are slow: one action space each is enough for them.
ON_POLICY = [case for case in ON_POLICY if case[1] not in ("image", "dict") or case[2] == "discrete"]
OFF_POLICY = [(SAC, obs, "box") for obs in OBSERVATIONS]


@pytest.mark.parametrize("algo, obs, act", ON_POLICY + OFF_POLICY, ids=lambda value: getattr(value, "__name__", value))
def test_spaces(algo, obs, act, tmp_path):
    model = make_model(algo, make(obs, act))
    batch = observations(model)
    assert actions(model, batch).shape == (6, *model.action_space.shape)
    one = {key: value[0] for key, value in batch.items()} if isinstance(batch, dict) else batch[0]
    np.testing.assert_allclose(actions(model, one), actions(model, batch)[0], rtol=1e-5, atol=1e-5)
    assert_survives_saving(model, tmp_path)


@pytest.mark.parametrize(
    "algo, policy_kwargs, kwargs",
    [
        pytest.param(PPO, dict(squash_output=True), dict(use_sde=True), id="PPO gSDE squashed"),
        pytest.param(A2C, {}, dict(use_sde=True), id="A2C gSDE"),
        pytest.param(SAC, {}, dict(use_sde=True), id="SAC gSDE"),
        pytest.param(PPO, dict(ortho_init=False), {}, id="PPO plain initialisation"),
        pytest.param(PPO, dict(optimizer_class=th.optim.SGD), {}, id="PPO SGD"),
        pytest.param(SAC, dict(optimizer_class=th.optim.SGD, optimizer_kwargs=dict(momentum=0.9)), {}, id="SAC SGD"),
        pytest.param(SAC, dict(max_grad_norm=10.0), {}, id="SAC clipped"),
        pytest.param(SAC, dict(max_grad_norm=1, optimizer_class=th.optim.RMSprop), {}, id="SAC clipped RMSprop"),
        pytest.param(SAC, dict(n_critics=1), {}, id="SAC one critic"),
        pytest.param(SAC, dict(n_critics=5), {}, id="SAC five critics"),
        pytest.param(SAC, {}, dict(learning_rate=lambda progress: 1e-3 * progress), id="SAC schedule"),
        pytest.param(
            PPO, dict(span_arch=dict(pi=dict(nmodes=2), vf=dict(nmodes=5, basis="bspline"))), {}, id="PPO two shapes"
        ),
        pytest.param(SAC, dict(span_arch=dict(pi=dict(nmodes=2), qf=dict(nmodes=5))), {}, id="SAC two shapes"),
        pytest.param(SAC, dict(span_arch=dict(qf=dict(latent_dim=2))), {}, id="SAC one shape given"),
        *[
            pytest.param(algo, dict(span_arch=dict(preprocess=preprocess)), {}, id=f"{algo.__name__} {preprocess}")
            for algo in (PPO, SAC)
            for preprocess in ("layernorm", "batchnorm", "minmax", "none")
        ],
    ],
)
def test_options(algo, policy_kwargs, kwargs, tmp_path):
    policy_kwargs = dict(policy_kwargs)
    arch = policy_kwargs.pop("span_arch", SMALL)
    model = make_model(algo, make("vector"), span_arch=arch, policy_kwargs=policy_kwargs, **kwargs)
    assert_survives_saving(model, tmp_path)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("algo", [PPO, A2C, SAC])
def test_features_extractor_shared_or_not(algo, share, tmp_path):
    model = make_model(algo, make("image"), policy_kwargs=dict(share_features_extractor=share))
    assert_survives_saving(model, tmp_path)
    loaded = type(model.policy).load(tmp_path / "policy.pt", device="cpu")
    assert loaded.share_features_extractor is share
    if algo is not SAC:
        assert (loaded.pi_features_extractor is loaded.vf_features_extractor) is share


def test_images_that_are_normalised_already(tmp_path):
    from gymnasium import spaces

    from tests.policies.envs import RandomEnv

    env = RandomEnv(spaces.Box(0, 1, (3, 36, 36), np.float32), ACTIONS["discrete"])
    model = make_model(PPO, env, policy_kwargs=dict(normalize_images=False))
    assert type(model.policy.features_extractor).__name__ == "NatureCNN"
    assert_survives_saving(model, tmp_path)


@pytest.mark.parametrize("obs", ["vector", "image", "dict", "discrete"])
@pytest.mark.parametrize("algo, act", [(PPO, "box"), (SAC, "box"), (TD3, "box"), (DQN, "discrete")])
def test_span_as_features_extractor(algo, act, obs, tmp_path):
    policy_kwargs = dict(
        features_extractor_class=SPANFeaturesExtractor, features_extractor_kwargs=dict(span_arch=SMALL), net_arch=[]
    )
    policy = "MultiInputPolicy" if obs == "dict" else "MlpPolicy"
    model = make_model(algo, make(obs, act), policy=policy, span_arch=None, policy_kwargs=policy_kwargs)
    batch = observations(model)
    model.save(tmp_path / "model")
    loaded = algo.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(actions(loaded, batch), actions(model, batch))


@pytest.mark.parametrize("algo", [PPO, SAC])
def test_class_and_alias_are_the_same(algo):
    policy_class = SPANPolicy if algo is SAC else SPANActorCriticPolicy
    by_class = make_model(algo, make("vector"), policy=policy_class)
    by_alias = make_model(algo, make("vector"), policy="SPANPolicy")
    assert type(by_alias.policy) is policy_class
    np.testing.assert_array_equal(by_class.policy.parameters_to_vector(), by_alias.policy.parameters_to_vector())


@pytest.mark.parametrize("algo", [PPO, A2C, SAC])
def test_every_parameter_moves_in_one_update(algo):
    env = DummyVecEnv([lambda: make("vector")] * 8)
    sizes = {
        PPO: dict(n_steps=64, batch_size=512, n_epochs=1),
        A2C: dict(n_steps=64),
        SAC: dict(learning_starts=256, batch_size=256, buffer_size=2048, gradient_steps=1),
    }[algo]
    arch = dict(nmodes=3, nelems=2)
    model = make_model(algo, env, learn=False, span_arch=arch, **sizes)
    before = {name: param.detach().clone() for name, param in model.policy.named_parameters()}
    model.learn(264 if algo is SAC else 512)
    for name, param in model.policy.named_parameters():
        assert (param != before[name]).all(), name


def test_networks_are_evaluated_as_stacks(monkeypatch):
    from sb3_span.nn import SPAN

    calls = []
    forward = SPAN.forward
    monkeypatch.setattr(
        SPAN, "forward", lambda self, x, only=None: calls.append((self.n_stack, only)) or forward(self, x, only)
    )
    sac = make_model(SAC, make("vector"), learn=False)
    obs, _ = sac.policy.obs_to_tensor(observations(sac))
    sac.critic(obs, th.zeros(6, 2))
    assert calls == [(2, None)]
    calls.clear()
    ppo = make_model(PPO, make("vector"), learn=False)
    ppo.policy(obs)
    assert calls == [(2, None)]
    calls.clear()
    ppo.policy.predict_values(obs)
    ppo.predict(observations(ppo))
    assert calls == [(2, 1), (2, 0)]


def test_critics_differ_and_the_first_can_be_asked_alone():
    model = make_model(SAC, make("vector"), policy_kwargs=dict(n_critics=3))
    obs, _ = model.policy.obs_to_tensor(observations(model))
    act = th.rand(6, 2)
    values = model.critic(obs, act)
    assert [value.shape for value in values] == [(6, 1)] * 3
    assert not th.allclose(values[0], values[1])
    th.testing.assert_close(model.critic.q1_forward(obs, act), values[0])


@pytest.mark.parametrize("preprocess", ["dense", "batchnorm", "minmax"])
def test_target_follows_the_critic(preprocess):
    model = make_model(SAC, make("vector"), span_arch=dict(preprocess=preprocess), tau=1.0)
    target = model.critic_target.state_dict()
    for name, value in model.critic.state_dict().items():
        if "num_batches_tracked" not in name:
            th.testing.assert_close(target[name], value)


def test_orthogonal_initialisation_reaches_w_pre():
    policy = make_model(PPO, make("vector"), learn=False).policy
    weight = policy.mlp_extractor.pi_vf.preprocess.weight.detach()
    for network in weight:
        th.testing.assert_close(network @ network.T, 2 * th.eye(3), rtol=0, atol=1e-5)
    assert not th.allclose(weight[0], weight[1])
    assert (policy.mlp_extractor.pi_vf.preprocess.bias == 0).all()


def test_actor_is_a_policy_of_its_own():
    model = make_model(SAC, make("vector"))
    assert isinstance(model.actor, SPANActor)
    obs = observations(model)
    np.testing.assert_array_equal(actions(model.actor, obs), actions(model, obs))


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_logs_and_progress_bar(tmp_path):
    model = make_model(PPO, make("vector"), learn=False, tensorboard_log=str(tmp_path))
    model.learn(64, progress_bar=True, tb_log_name="span")
    assert list(tmp_path.glob("span_1/events.*"))
