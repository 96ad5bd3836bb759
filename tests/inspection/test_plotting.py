"""The picture shows the network it is asked for, under the right names, and warns."""

import itertools

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.cli import main
from sb3_span.inspection import NetworkWarning, plot
from sb3_span.inspection.environments import OBSERVATIONS
from sb3_span.inspection.networks import find_networks
from sb3_span.saved import load_shared, save_shared
from tests.policies.envs import make

# Of ten modes that have learned nothing one may well be so weak that it counts as dead.
UNTRAINED = pytest.mark.filterwarnings("ignore::sb3_span.inspection.plotting.NetworkWarning")


@pytest.fixture(scope="module")
def cartpole():
    return PPO("SPANPolicy", "CartPole-v1", seed=0, device="cpu", policy_kwargs=dict(span_arch=dict(nmodes=4, nelems=3)))


def texts(labels):
    return [label.get_text() for label in labels]


def axes_of(figure):
    """W_pre, policy, value; then the splines."""
    top, bottom = figure.subfigs
    return [ax for ax in top.axes if ax.get_label() != "<colorbar>"], bottom.axes


def test_what_is_drawn(cartpole):
    figure = plot(cartpole, "CartPole-v1")
    (weights, policy, value), splines = axes_of(figure)
    assert figure.get_suptitle() == "PPO on CartPole-v1: 159 parameters"
    shown = weights.images[0].get_array()
    assert np.array_equal(shown.T, cartpole.policy.mlp_extractor.pi_vf.preprocess.weight[0].detach())
    assert texts(weights.get_yticklabels()) == OBSERVATIONS["CartPole"]
    assert {policy.get_xlabel(), policy.get_ylabel()} <= set(OBSERVATIONS["CartPole"])
    assert value.get_xlabel() == policy.get_xlabel() and value.get_title().startswith("Value")
    assert len(splines) == 4 and all(len(ax.get_lines()) == 3 + 3 + 1 for ax in splines)  # bold, thin, zero
    assert len(texts(splines[0].get_legend().get_texts())) == 3


def test_choices(cartpole):
    names = ["a", "b", "c", "d"]
    figure = plot(cartpole, "CartPole-v1", network="vf", names=names, dims=["d", "a"], n_modes=1)
    (weights, policy, _), splines = axes_of(figure)
    assert np.array_equal(weights.images[0].get_array().T, cartpole.policy.mlp_extractor.pi_vf.preprocess.weight[1].detach())
    assert texts(weights.get_yticklabels()) == names
    assert (policy.get_xlabel(), policy.get_ylabel()) == ("d", "a")
    assert len(splines[0].get_lines()) == 3


@pytest.mark.parametrize("norm_obs", [True, False])
def test_the_title_says_what_the_agent_sees(cartpole, tmp_path, norm_obs):
    VecNormalize(make_vec_env("CartPole-v1"), norm_obs=norm_obs).save(tmp_path / "vecnormalize.pkl")
    figure = plot(cartpole, "CartPole-v1", vecnormalize=tmp_path / "vecnormalize.pkl")
    assert (", observations normalised" in figure.get_suptitle()) == norm_obs


def test_a_shared_agent(cartpole, tmp_path):
    """Its title names no class of ours."""
    save_shared(cartpole, tmp_path / "agent.safetensors")
    figure = plot(load_shared(tmp_path / "agent.safetensors"), "CartPole-v1")
    assert figure.get_suptitle() == "SPAN on CartPole-v1: 159 parameters"


@UNTRAINED
def test_critics_read_observations_and_actions():
    model = SAC("SPANPolicy", "Pendulum-v1", device="cpu", seed=0)
    (weights, policy, _), _ = axes_of(plot(model, "Pendulum-v1", network="qf"))
    assert texts(weights.get_yticklabels()) == ["cos θ", "sin θ", "angular velocity", "torque"]
    assert policy.get_title() == "Policy: torque"


@UNTRAINED
def test_without_an_environment():
    model = SAC("SPANPolicy", "Pendulum-v1", device="cpu", seed=0)
    figure = plot(model)
    (weights, _, _), _ = axes_of(figure)
    assert texts(weights.get_yticklabels()) == ["obs[0]", "obs[1]", "obs[2]"]
    top, bottom = figure.subfigs
    assert "random observations" in top.get_supxlabel() and "random observations" in bottom.get_suptitle()


@pytest.mark.parametrize("preprocess", ["layernorm", "minmax", "none"])
def test_other_ways_into_the_unit_cube(preprocess):
    span_arch = dict(preprocess=preprocess, basis="bspline", nmodes=10, nelems=2)
    kwargs = dict(n_steps=64, device="cpu", seed=0, policy_kwargs=dict(span_arch=span_arch))
    model = PPO("SPANPolicy", "CartPole-v1", **kwargs).learn(64)
    (weights, _, _), splines = axes_of(plot(model, "CartPole-v1"))
    assert texts(weights.texts) == [f"none: preprocess='{preprocess}'"]
    assert splines[2].get_title() == "$z_{3}$: angle"


def test_many_dimensions():
    model = SAC("SPANPolicy", "HalfCheetah-v5", device="cpu", seed=0, buffer_size=10)
    figure = plot(model, names=OBSERVATIONS["HalfCheetah"])
    _, splines = axes_of(figure)
    assert len(splines) == 12  # of 17
    figure.canvas.draw()
    for left, right in itertools.pairwise(splines[:6]):  # titles do not lie on each other
        assert left.title.get_window_extent().x1 < right.title.get_window_extent().x0


@UNTRAINED
@pytest.mark.parametrize("group_size, panels", [(1, {12}), (2, {12}), (5, {10}), (14, {6, 12}), (20, {12})])
def test_groups(group_size, panels):
    """The panels show whole groups, each with its own modes, and a large group its most lively dimensions."""
    model = SAC(
        "SPANPolicy",
        "HalfCheetah-v5",
        device="cpu",
        seed=0,
        buffer_size=10,
        policy_kwargs=dict(span_arch=dict(nmodes=4, nelems=3, latent_dim=20, group_size=group_size)),
    )
    figure = plot(model, names=OBSERVATIONS["HalfCheetah"])
    _, splines = axes_of(figure)
    drawn = [ax for ax in splines if ax.get_lines()]
    assert len(drawn) in panels and all(len(ax.get_lines()) == 3 + 3 + 1 for ax in drawn)
    dims = [int(ax.get_title()[4:].split("}")[0]) - 1 for ax in drawn]
    groups = [dim // group_size for dim in dims]
    assert len(set(dims)) == len(drawn)
    network = find_networks(model.policy)[0]
    for ax, group, before in zip(drawn, groups, [None, *groups], strict=False):
        if group == before:
            assert ax.get_legend() is None
            continue
        modes = [int(label.split()[1]) - 1 for label in texts(ax.get_legend().get_texts())]
        assert {mode // 4 for mode in modes} == {group} and len(modes) == 3
        for mode in modes:
            assert set(dim for dim in dims if dim // group_size == group) <= set(network.dimensions(mode))


def test_warnings_come_with_the_picture(tmp_path, capsys, monkeypatch):
    options = dict(span_arch=dict(nmodes=10, nelems=8))
    model = PPO("SPANPolicy", "CartPole-v1", device="cpu", seed=0, policy_kwargs=options)
    with th.no_grad():
        model.policy.mlp_extractor.pi_vf.scale[0, 2] = 30
        model.policy.value_net.weight[:, 4:] = 0
    with pytest.warns(NetworkWarning) as caught:
        figure = plot(model, "CartPole-v1")
    assert ["gaps" in str(each.message) for each in caught] == [True, False]
    assert len(axes_of(figure)[1][2].collections) == 1  # the gaps, in red
    model.save(tmp_path / "CartPole-v1.zip")
    monkeypatch.chdir(tmp_path)
    main(["plot", "CartPole-v1.zip"])
    out = capsys.readouterr().out
    assert "Warning: 'pi' has gaps in the latent dimensions 3" in out
    assert "Warning: 6 of 10 modes of 'vf' are dead (5, 6, 7, 8, 9, 10)" in out
    assert (tmp_path / "CartPole-v1.png").stat().st_size > 10_000


def test_errors(cartpole, tmp_path):
    with pytest.raises(ValueError, match=r"no network 'qf'; choose one of \['pi', 'vf'\]"):
        plot(cartpole, network="qf")
    with pytest.raises(ValueError, match="There are 2 names for the 4 numbers"):
        plot(cartpole, names=["a", "b"])
    with pytest.raises(ValueError, match=r"There is no 'speed' in the observation; it has \['position'"):
        plot(cartpole, "CartPole-v1", dims=["speed", "angle"])
    with pytest.raises(ValueError, match="two different numbers"):
        plot(cartpole, "CartPole-v1", dims=["angle", "angle"])
    with pytest.raises(ValueError, match="modes to draw is 0"):
        plot(cartpole, n_modes=0)
    with pytest.raises(ValueError, match=r"The agent observes .* and Pendulum-v1 gives"):
        plot(cartpole, "Pendulum-v1")
    with pytest.raises(ValueError, match="ActorCriticPolicy has no SPAN network to draw"):
        plot(PPO("MlpPolicy", "CartPole-v1", device="cpu"))
    with pytest.raises(ValueError, match="only agents that observe vectors can be drawn"):
        plot(PPO("SPANPolicy", make("dict"), device="cpu"))
    cartpole.save(tmp_path / "model.zip")
    with pytest.raises(SystemExit, match=r"sb3-span plot: The picture cannot be written to .*picture.txt"):
        main(["plot", str(tmp_path / "model.zip"), "--output", str(tmp_path / "picture.txt")])


def test_a_single_observation_has_no_slice():
    env = make("vector", "discrete")
    env.observation_space = spaces.Box(-1, 1, (1,))
    model = PPO("SPANPolicy", env, device="cpu", seed=0, policy_kwargs=dict(span_arch=dict(nmodes=10)))
    top, splines = axes_of(plot(model))
    assert len(top) == 1 and len(splines) == 1
