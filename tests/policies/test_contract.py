"""What works for SB3's own policies works for SPAN's: every space, every option, every way of saving."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import QRDQN, TQC, TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

from sb3_span import SPANFeaturesExtractor
from tests.policies.envs import ACTIONS, OBSERVATIONS, RandomEnv, make
from tests.policies.models import (
    ALGORITHMS,
    POLICIES,
    SMALL,
    acting_network,
    action_spaces,
    actions,
    assert_survives_saving,
    make_model,
    name,
    observations,
)

# Every observation with one action space of the algorithm, every action space with one observation, and for PPO all pairs:
# but images are slow, and one action space each is enough for them.
SPACES = [(algo, obs, action_spaces(algo)[0]) for algo in ALGORITHMS for obs in OBSERVATIONS]
SPACES += [(algo, "vector", act) for algo in ALGORITHMS for act in action_spaces(algo)[1:]]
SPACES += [(PPO, obs, act) for obs in OBSERVATIONS if obs not in ("vector", "image", "dict") for act in list(ACTIONS)[1:]]


GROUPS = dict(nmodes=2, nelems=4, group_size=2)


@pytest.mark.parametrize("algo, obs, act", SPACES, ids=name)
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
        pytest.param(TRPO, {}, dict(use_sde=True), id="TRPO gSDE"),
        pytest.param(RecurrentPPO, dict(squash_output=True), dict(use_sde=True), id="RecurrentPPO gSDE squashed"),
        pytest.param(SAC, {}, dict(use_sde=True), id="SAC gSDE"),
        pytest.param(TQC, {}, dict(use_sde=True), id="TQC gSDE"),
        pytest.param(PPO, dict(ortho_init=False), {}, id="PPO plain initialisation"),
        pytest.param(MaskablePPO, dict(ortho_init=False), {}, id="MaskablePPO plain initialisation"),
        pytest.param(PPO, dict(optimizer_class=th.optim.SGD), {}, id="PPO SGD"),
        pytest.param(PPO, dict(stacked=False), {}, id="PPO apart"),
        pytest.param(SAC, dict(optimizer_class=th.optim.SGD, optimizer_kwargs=dict(momentum=0.9)), {}, id="SAC SGD"),
        pytest.param(DQN, dict(optimizer_class=th.optim.SGD, optimizer_kwargs=dict(momentum=0.9)), {}, id="DQN SGD"),
        pytest.param(SAC, dict(max_grad_norm=1, optimizer_class=th.optim.RMSprop), {}, id="SAC clipped RMSprop"),
        *[pytest.param(algo, dict(max_grad_norm=10.0), {}, id=f"{name(algo)} clipped") for algo in (SAC, TD3, TQC)],
        *[pytest.param(algo, dict(n_critics=1), {}, id=f"{name(algo)} one critic") for algo in (SAC, TD3, TQC)],
        *[pytest.param(algo, dict(n_critics=5), {}, id=f"{name(algo)} five critics") for algo in (SAC, DDPG, TQC)],
        *[pytest.param(algo, dict(n_quantiles=4), {}, id=f"{name(algo)} four quantiles") for algo in (TQC, QRDQN)],
        pytest.param(SAC, {}, dict(learning_rate=lambda progress: 1e-3 * progress), id="SAC schedule"),
        pytest.param(RecurrentPPO, dict(shared_lstm=True, enable_critic_lstm=False), {}, id="RecurrentPPO shared LSTM"),
        pytest.param(RecurrentPPO, dict(enable_critic_lstm=False), {}, id="RecurrentPPO no LSTM for the critic"),
        pytest.param(
            RecurrentPPO,
            dict(lstm_hidden_size=5, n_lstm_layers=2, lstm_kwargs=dict(bias=False)),
            {},
            id="RecurrentPPO two layers",
        ),
        *[
            pytest.param(algo, dict(span_arch=dict(pi=dict(nmodes=2), vf=dict(nmodes=5))), {}, id=f"{name(algo)} two shapes")
            for algo in (PPO, TRPO, MaskablePPO, RecurrentPPO)
        ],
        *[
            pytest.param(algo, dict(span_arch=dict(pi=dict(nmodes=2), qf=dict(nmodes=5))), {}, id=f"{name(algo)} two shapes")
            for algo in (SAC, TD3, TQC)
        ],
        pytest.param(SAC, dict(span_arch=dict(qf=dict(latent_dim=2))), {}, id="SAC one shape given"),
        *[
            pytest.param(algo, dict(span_arch=dict(GROUPS, latent_dim=5)), {}, id=f"{name(algo)} groups")
            for algo in ALGORITHMS
        ],
        pytest.param(SAC, dict(span_arch=GROUPS), dict(use_sde=True), id="SAC groups gSDE"),
        *[
            pytest.param(algo, dict(span_arch=dict(GROUPS, preprocess=preprocess)), {}, id=f"{name(algo)} groups {preprocess}")
            for algo in (PPO, DQN)
            for preprocess in ("layernorm", "batchnorm", "minmax", "none")
        ],
        pytest.param(DQN, dict(span_arch=dict(qf=dict(basis="bspline"))), {}, id="DQN shape by role"),
        *[
            pytest.param(algo, dict(span_arch=dict(preprocess=preprocess)), {}, id=f"{name(algo)} {preprocess}")
            for algo in (PPO, SAC, TD3, DQN)
            for preprocess in ("layernorm", "batchnorm", "minmax", "none")
        ],
    ],
)
def test_options(algo, policy_kwargs, kwargs, tmp_path):
    policy_kwargs = dict(policy_kwargs)
    arch = policy_kwargs.pop("span_arch", SMALL)
    model = make_model(algo, make("vector", action_spaces(algo)[0]), span_arch=arch, policy_kwargs=policy_kwargs, **kwargs)
    assert_survives_saving(model, tmp_path)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("algo", [PPO, A2C, TRPO, MaskablePPO, RecurrentPPO, SAC, TD3, TQC], ids=name)
def test_features_extractor_shared_or_not(algo, share, tmp_path):
    model = make_model(algo, make("image", action_spaces(algo)[0]), policy_kwargs=dict(share_features_extractor=share))
    assert_survives_saving(model, tmp_path)
    loaded = type(model.policy).load(tmp_path / "policy.pt", device="cpu")
    assert loaded.share_features_extractor is share
    if algo in (SAC, TD3, TQC):
        assert (loaded.actor.features_extractor is loaded.critic.features_extractor) is share
    else:
        assert (loaded.pi_features_extractor is loaded.vf_features_extractor) is share


def test_images_that_are_normalised_already(tmp_path):
    env = RandomEnv(spaces.Box(0, 1, (3, 36, 36), np.float32), ACTIONS["discrete"])
    model = make_model(PPO, env, policy_kwargs=dict(normalize_images=False))
    assert type(model.policy.features_extractor).__name__ == "NatureCNN"
    assert_survives_saving(model, tmp_path)


@pytest.mark.parametrize("arch", [SMALL, GROUPS], ids=["", "groups"])
@pytest.mark.parametrize("obs", ["vector", "image", "dict", "discrete"])
@pytest.mark.parametrize("algo, act", [(PPO, "box"), (SAC, "box"), (TD3, "box"), (DQN, "discrete")], ids=name)
def test_span_as_features_extractor(algo, act, obs, arch, tmp_path):
    policy_kwargs = dict(
        features_extractor_class=SPANFeaturesExtractor, features_extractor_kwargs=dict(span_arch=arch), net_arch=[]
    )
    policy = "MultiInputPolicy" if obs == "dict" else "MlpPolicy"
    model = make_model(algo, make(obs, act), policy=policy, span_arch=None, policy_kwargs=policy_kwargs)
    batch = observations(model)
    model.save(tmp_path / "model")
    loaded = algo.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(actions(loaded, batch), actions(model, batch))


@pytest.mark.parametrize("algo", ALGORITHMS, ids=name)
def test_class_and_alias_are_the_same(algo):
    env = make("vector", action_spaces(algo)[0])
    by_class = make_model(algo, env, policy=POLICIES[algo], learn=False)
    by_alias = make_model(algo, env, policy="SPANPolicy", learn=False)
    assert type(by_alias.policy) is POLICIES[algo]
    np.testing.assert_array_equal(by_class.policy.parameters_to_vector(), by_alias.policy.parameters_to_vector())


@pytest.mark.parametrize("algo", [SAC, TD3, TQC, DQN, QRDQN], ids=name)
def test_what_acts_is_a_policy_of_its_own(algo):
    model = make_model(algo, make("vector", action_spaces(algo)[0]))
    obs = observations(model)
    np.testing.assert_array_equal(actions(acting_network(model), obs), actions(model, obs))


def test_masked_actions_are_never_taken():
    model = make_model(MaskablePPO, make("vector", "discrete"))
    obs = observations(model)
    for allowed in range(3):
        masks = np.tile(np.arange(3) == allowed, (6, 1))
        for deterministic in (True, False):
            assert (model.predict(obs, deterministic=deterministic, action_masks=masks)[0] == allowed).all()


def test_recurrent_policy_remembers_after_loading(tmp_path):
    model = make_model(RecurrentPPO, make("vector", "box"))
    model.policy.save(tmp_path / "policy.pt")
    loaded = type(model.policy).load(tmp_path / "policy.pt", device="cpu")
    obs = observations(model)
    state = model.predict(obs, deterministic=True)[1]
    remembering, next_state = model.predict(obs, state=state, deterministic=True)
    assert (remembering != actions(model, obs)).any()
    again, next_state_again = loaded.predict(obs, state=state, deterministic=True)
    np.testing.assert_array_equal(again, remembering)
    np.testing.assert_array_equal(next_state_again, next_state)


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_logs_and_progress_bar(tmp_path):
    model = make_model(PPO, make("vector"), learn=False, tensorboard_log=str(tmp_path))
    model.learn(64, progress_bar=True, tb_log_name="span")
    assert list(tmp_path.glob("span_1/events.*"))
