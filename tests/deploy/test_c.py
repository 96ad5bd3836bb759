"""
The exported C acts as ``predict`` does. Every export checks itself, with the compiled code: here that is done for all kinds of
policies.
"""

import re
import subprocess

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import QRDQN, TQC, MaskablePPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize
from torch import nn

from sb3_span.deploy import export_c
from sb3_span.deploy.policy import DeterministicPolicy
from sb3_span.policies.extractors import SPANFeaturesExtractor
from tests.deploy.models import check, lively
from tests.policies.envs import ACTIONS, OBSERVATIONS, RandomEnv
from tests.policies.models import ALGORITHMS, make_model, name

MLP = dict(policy="MlpPolicy", span_arch=None)


@pytest.mark.parametrize("algo", [algo for algo in ALGORITHMS if algo.__name__ != "RecurrentPPO"], ids=name)
def test_every_algorithm(algo, tmp_path):
    discrete = algo in (DQN, QRDQN, MaskablePPO)
    verification = check(lively(algo, actions="discrete" if discrete else "box"), tmp_path)
    assert verification.discrete == discrete


@pytest.mark.parametrize("actions", ["discrete", "multidiscrete", "multibinary"])
def test_action_spaces(actions, tmp_path):
    check(lively(actions=actions), tmp_path)


@pytest.mark.parametrize("observations", ["float64", "matrix", "small image", "discrete", "multidiscrete", "multibinary"])
def test_observation_spaces(observations, tmp_path):
    check(lively(observations=observations), tmp_path)


@pytest.mark.parametrize(
    "span_arch",
    [
        *(dict(basis="bspline", degree=degree, nelems=2) for degree in (1, 2, 3, 5)),
        *(dict(preprocess=preprocess) for preprocess in ("layernorm", "batchnorm", "minmax", "none")),
        dict(latent_dim=7, nelems=9),
        *(dict(latent_dim=7, nmodes=2, nelems=4, group_size=size) for size in (1, 2, 3, 7)),
        dict(latent_dim=6, nmodes=3, group_size=4, basis="bspline"),
        dict(pi=dict(nmodes=4), vf=dict(nmodes=2)),
    ],
    ids=str,
)
def test_networks(span_arch, tmp_path):
    check(lively(span_arch=span_arch, steps=32), tmp_path)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.9, -4.0, 40.0])
def test_bumps_of_any_width(scale, tmp_path):
    """None of the bumps beyond those that are evaluated is above zero."""
    model = lively(span_arch=dict(nelems=6))
    model.policy.mlp_extractor.pi_vf.scale.data[0, 1:] = scale
    check(model, tmp_path)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.ELU, nn.LeakyReLU, nn.SiLU, nn.Sigmoid], ids=name)
def test_mlps(activation, tmp_path):
    check(lively(SAC, policy_kwargs=dict(net_arch=[8, 5], activation_fn=activation), **MLP), tmp_path)


@pytest.mark.parametrize("algo", [PPO, TD3, TQC, DQN], ids=name)
def test_mlps_of_other_algorithms(algo, tmp_path):
    kwargs = dict(actions="discrete" if algo is DQN else "box", policy_kwargs=dict(net_arch=[8]), **MLP)
    check(lively(algo, **kwargs), tmp_path)


@pytest.mark.parametrize("algo, squash", [(PPO, True), (PPO, False), (SAC, True)], ids=name)
def test_gsde(algo, squash, tmp_path):
    policy_kwargs = dict(squash_output=squash) if algo is PPO else {}
    check(lively(algo, use_sde=True, policy_kwargs=policy_kwargs), tmp_path)


def test_features_extractor(tmp_path):
    options = dict(features_extractor_class=SPANFeaturesExtractor, features_extractor_kwargs=dict(span_arch=dict(nmodes=4)))
    check(lively(policy_kwargs=dict(net_arch=[5], **options), **MLP), tmp_path)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize(
    "actions", [spaces.MultiDiscrete([1, 3]), spaces.Box(np.array([-1, 2], np.float32), np.array([1, 2], np.float32))], ids=str
)
def test_actions_without_a_choice(actions, int8, tmp_path):
    check(lively(env=RandomEnv(OBSERVATIONS["vector"], actions)), tmp_path, int8=int8)


def test_bounds_that_are_none(tmp_path):
    space = spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (3,), np.int64)
    check(make_model(PPO, RandomEnv(space, ACTIONS["box"]), learn=False), tmp_path)
    check(lively(SAC, env=VecNormalize(make_vec_env("Pendulum-v1"), clip_obs=np.inf)), tmp_path)


@pytest.mark.filterwarnings("ignore:Observations may be as large as")
def test_no_closer_to_predict_than_predict_to_itself(tmp_path):
    """Large observations lose digits of single precision, in predict as in the export."""
    env = RandomEnv(spaces.Box(-5000, 5000, (6,)), spaces.Box(-1, 1, (2,)))
    model = make_model(PPO, env, learn=False, span_arch=dict(nmodes=10, nelems=8, slope=8.0))
    check(model, tmp_path)
    policy = DeterministicPolicy(model)
    exact, seen = policy.in_double_precision(), np.random.default_rng(0).uniform(-1, 1, (50, 6)).astype(np.float32)
    np.testing.assert_allclose(exact(seen), policy.predict(seen), atol=1e-5)


@pytest.mark.parametrize("algo, part", [(SAC, "actor"), (TD3, "actor"), (DQN, "q_net"), (QRDQN, "quantile_net")], ids=name)
def test_a_network_alone(algo, part, tmp_path):
    """What the guide saves alone is exported alone: each export is compared with predict."""
    model = lively(algo, actions="box" if part == "actor" else "discrete")
    assert export_c(getattr(model, part), tmp_path).largest <= 1e-4


def test_scores_for_those_who_mask(tmp_path):
    """``policy_scores`` is what ``policy_act`` decides by."""
    model = lively(MaskablePPO, actions="discrete")
    export_c(model, tmp_path)
    observation = np.array([0.3, -0.2, 0.9], np.float32)
    main = '#include <stdio.h>\n#include "policy.h"\nint main(void) { float o[] = {0.3f, -0.2f, 0.9f}, s[POLICY_SCORES_SIZE];'
    main += 'policy_scores(o, s); for (int i = 0; i < POLICY_SCORES_SIZE; i++) printf("%.7g ", s[i]); return 0; }'
    (tmp_path / "main.c").write_text(main)
    subprocess.run(["cc", "-std=c99", "main.c", "policy.c", "-o", "main"], cwd=tmp_path, check=True)
    out = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    distribution = model.policy.get_distribution(th.as_tensor(observation[None]))
    expected = distribution.distribution.logits[0].detach().numpy()
    scores = np.array(out.split(), float)
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], atol=1e-5)


@pytest.mark.parametrize(
    "algo, arch",
    [
        (SAC, {}),
        (PPO, dict(basis="bspline", degree=3)),
        (SAC, dict(nmodes=4, latent_dim=16, group_size=1)),
        (PPO, dict(nmodes=4, nelems=4, latent_dim=17, group_size=2)),
        (PPO, None),
    ],
    ids=str,
)
def test_weights_in_bytes(algo, arch, tmp_path):
    """A quarter of the size, an error that is small, and said."""
    mlp = dict(policy="MlpPolicy", policy_kwargs=dict(net_arch=[12, 12]))
    kwargs = dict(span_arch=arch, **(mlp if arch is None else {}))
    export_c(lively(algo, **kwargs), tmp_path / "float")
    verification = check(lively(algo, **kwargs), tmp_path / "int8", int8=True)
    assert 1e-5 < verification.largest < 0.05
    constants = [
        int(re.search(r"([\d,]+) bytes of constants", (tmp_path / kind / "policy.h").read_text())[1].replace(",", ""))
        for kind in ("int8", "float")
    ]
    assert constants[0] < 0.6 * constants[1]
