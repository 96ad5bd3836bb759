"""SPAN as an encoder: in several of d3rlpy's algorithms, and through every way of saving."""

import d3rlpy
import numpy as np
import onnxruntime
import pytest
import torch as th
from d3rlpy.algos import BCConfig, CQLConfig, DQNConfig, IQLConfig, TD3PlusBCConfig
from d3rlpy.dataset import TransitionMiniBatch
from torch import nn

from sb3_span.nn import SPAN
from sb3_span.offline import SPANEncoderFactory, SPANIQLConfig

OBSERVATION_DIM, ACTION_DIM, N_ACTIONS, BATCH = 5, 2, 3, 32
ENCODER = SPANEncoderFactory(nmodes=4, nelems=3)
GROUPS = SPANEncoderFactory(nmodes=2, nelems=4, latent_dim=6, group_size=1)
ACTOR_CRITIC = dict(actor_encoder_factory=ENCODER, critic_encoder_factory=ENCODER)
CONFIGS = {
    "IQL": IQLConfig(**ACTOR_CRITIC, value_encoder_factory=ENCODER),
    "IQL in groups": IQLConfig(actor_encoder_factory=GROUPS, critic_encoder_factory=GROUPS, value_encoder_factory=GROUPS),
    "SPANIQL": SPANIQLConfig(**ACTOR_CRITIC, value_encoder_factory=ENCODER),
    "CQL": CQLConfig(**ACTOR_CRITIC),
    "TD3+BC": TD3PlusBCConfig(**ACTOR_CRITIC, update_actor_interval=1),
    "BC": BCConfig(encoder_factory=ENCODER),
    "DQN": DQNConfig(encoder_factory=ENCODER, target_update_interval=1),
}
algorithms = pytest.mark.parametrize("name", CONFIGS)


def make(name, seed=0):
    d3rlpy.seed(seed)
    algo = CONFIGS[name].create()
    algo.create_impl((OBSERVATION_DIM,), N_ACTIONS if name == "DQN" else ACTION_DIM)
    return algo


def make_batch(name):
    generator = np.random.default_rng(0)

    def draw(*shape):
        return generator.normal(size=shape).astype(np.float32)

    if name == "DQN":
        actions = generator.integers(N_ACTIONS, size=(BATCH, 1)).astype(np.float32)
    else:
        actions = np.tanh(draw(BATCH, ACTION_DIM))
    return TransitionMiniBatch(
        observations=draw(BATCH, OBSERVATION_DIM),
        actions=actions,
        rewards=draw(BATCH, 1),
        next_observations=draw(BATCH, OBSERVATION_DIM),
        next_actions=actions,
        terminals=np.zeros((BATCH, 1), dtype=np.float32),
        intervals=np.ones((BATCH, 1), dtype=np.float32),
        transitions=[],
    )


def modules_of(algo):
    return {name: module for name, module in vars(algo.impl.modules).items() if isinstance(module, nn.Module)}


def test_with_and_without_action():
    x, action = th.randn(7, OBSERVATION_DIM), th.randn(7, ACTION_DIM)
    encoder = ENCODER.create((OBSERVATION_DIM,))
    assert th.equal(encoder(x), encoder.span(x)) and encoder(x).shape == (7, 4)
    encoder = ENCODER.create_with_action((OBSERVATION_DIM,), ACTION_DIM)
    assert th.equal(encoder(x, action), encoder.span(th.cat([x, action], dim=1)))
    encoder = ENCODER.create_with_action((OBSERVATION_DIM,), N_ACTIONS, discrete_action=True)
    assert th.equal(encoder(x[:1], th.tensor([[2.0]])), encoder.span(th.cat([x[:1], th.tensor([[0.0, 0.0, 1.0]])], dim=1)))


@algorithms
def test_every_parameter_moves(name):
    """Targets too: they follow."""
    algo, batch = make(name), make_batch(name)
    before = {part: [p.detach().clone() for p in module.parameters()] for part, module in modules_of(algo).items()}
    assert all(any(isinstance(layer, SPAN) for layer in module.modules()) for part, module in modules_of(algo).items()
               if part not in ("log_temp", "log_alpha"))  # fmt: skip
    for _ in range(3):
        losses = algo.update(batch)
    assert all(np.isfinite(value) for value in losses.values())
    for part, module in modules_of(algo).items():
        for old, new in zip(before[part], module.parameters(), strict=True):
            assert not th.equal(old, new), part


@algorithms
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # TorchScript is d3rlpy's choice
def test_equal_actions_after_every_way_of_saving(name, tmp_path):
    algo, batch = make(name), make_batch(name)
    algo.update(batch)
    observations = np.random.default_rng(1).normal(size=(20, OBSERVATION_DIM)).astype(np.float32)
    actions = algo.predict(observations)

    algo.save_model(str(tmp_path / "model.pt"))
    other = make(name, seed=1)
    assert not np.allclose(other.predict(observations), actions) or name == "DQN"
    other.load_model(str(tmp_path / "model.pt"))
    np.testing.assert_array_equal(other.predict(observations), actions)

    algo.save(str(tmp_path / "model.d3"))
    loaded = d3rlpy.load_learnable(str(tmp_path / "model.d3"))
    assert type(loaded) is type(algo) and loaded.config == algo.config
    np.testing.assert_array_equal(loaded.predict(observations), actions)
    # With its optimizers: it learns on as if nothing had happened.
    for each in (algo, loaded):
        d3rlpy.seed(2)
        each.update(batch)
    np.testing.assert_allclose(loaded.predict(observations), algo.predict(observations), atol=1e-6)

    actions = algo.predict(observations)
    algo.save_policy(str(tmp_path / "policy.pt"))
    script = th.jit.load(str(tmp_path / "policy.pt"))
    np.testing.assert_allclose(script(th.as_tensor(observations)).numpy(), actions, atol=1e-6)
    algo.save_policy(str(tmp_path / "policy.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    for some in (observations[:1], observations):
        (found,) = session.run(["output_0"], {"input_0": some})
        np.testing.assert_allclose(found, algo.predict(some), atol=1e-6)
    algo.update(batch)  # and it still learns


def test_scalers_are_in_the_exported_policy(tmp_path):
    d3rlpy.seed(0)
    observation_scaler = d3rlpy.preprocessing.StandardObservationScaler(
        mean=np.full(OBSERVATION_DIM, 3.0), std=np.full(OBSERVATION_DIM, 0.5)
    )
    action_scaler = d3rlpy.preprocessing.MinMaxActionScaler(
        minimum=np.full(ACTION_DIM, -7.0), maximum=np.full(ACTION_DIM, 9.0)
    )
    algo = SPANIQLConfig(observation_scaler=observation_scaler, action_scaler=action_scaler).create()
    algo.create_impl((OBSERVATION_DIM,), ACTION_DIM)
    algo.save_policy(str(tmp_path / "policy.onnx"))
    observations = np.random.default_rng(0).normal(3.0, 0.5, size=(4, OBSERVATION_DIM)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    (found,) = session.run(None, {"input_0": observations})
    np.testing.assert_allclose(found, algo.predict(observations), rtol=1e-5, atol=1e-5)


def test_images_are_refused():
    with pytest.raises(ValueError, match=r"shape \(4, 84, 84\); SPANEncoderFactory supports vectors. .*PixelEncoderFactory"):
        ENCODER.create((4, 84, 84))


def test_wrong_options_are_refused_at_once():
    with pytest.raises(ValueError, match=r"span_arch\['nelems'\] is 1"):
        SPANEncoderFactory(nelems=1)


def test_files_of_earlier_versions():
    """They may name options that are no more; one that was used is refused."""
    saved = SPANEncoderFactory(nmodes=3).serialize_to_dict()
    assert SPANEncoderFactory.deserialize_from_dict({**saved, "mode_norm": False}) == SPANEncoderFactory(nmodes=3)
    with pytest.raises(ValueError, match=r"mode_norm=True \(modes through layer normalisation\).*Leave mode_norm out"):
        SPANEncoderFactory.deserialize_from_dict({**saved, "mode_norm": True})
