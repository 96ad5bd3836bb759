"""The RL Zoo's own commands, typed as in the README, on our files."""

import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
import stable_baselines3
from rl_zoo3.utils import ALGOS
from stable_baselines3 import SAC

import sb3_span
from sb3_span.policies.optimizers import GradientClipping
from sb3_span.policies.options import SPANOptions
from sb3_span.zoo import make_agent

ROOT = Path(__file__).parents[1]


def zoo(module, *arguments):
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", f"rl_zoo3.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def train(algo, env, conf, folder, *more):
    return zoo("train", "--algo", algo, "--env", env, "--conf", f"hyperparams/{conf}.yml", "-n", 300, "-f", folder, *more)


@pytest.mark.parametrize("conf", ["span", "mlp"])
def test_train_enjoy_and_plot(conf, tmp_path):
    out = train("sac", "Hopper-v5", conf, tmp_path, "-params", "learning_starts:100", "--eval-freq", 150, "--seed", 1)
    assert ("SPANPolicy" if conf == "span" else "ClippedMlpPolicy") in out
    saved = tmp_path / "sac" / "Hopper-v5_1"
    assert (saved / "Hopper-v5.zip").exists() and (saved / "best_model.zip").exists()
    out = zoo("enjoy", "--algo", "sac", "--env", "Hopper-v5", "-f", tmp_path, "--no-render", "-n", 200)
    assert "Mean reward" in out
    zoo("plots.plot_train", "-a", "sac", "-e", "Hopper-v5", "-f", tmp_path)
    zoo("plots.all_plots", "-a", "sac", "-e", "Hopper-v5", "-f", tmp_path, "-o", tmp_path / "all")
    assert (tmp_path / "all.pkl").exists()


@pytest.mark.parametrize("conf, policy", [("span-tuned", "SPANPolicy"), ("mlp-tuned", "ClippedMlpPolicy")])
def test_tuned_sac(conf, policy, tmp_path):
    """The searched settings normalise observations: the statistics are saved beside the agent."""
    out = train("sac", "InvertedPendulum-v5", conf, tmp_path, "-params", "learning_starts:100", "--seed", 1)
    assert policy in out
    saved = tmp_path / "sac" / "InvertedPendulum-v5_1"
    assert (saved / "InvertedPendulum-v5" / "vecnormalize.pkl").exists()


@pytest.mark.parametrize("conf, policy", [("span", "SPAN"), ("span-tuned", "SPAN"), ("mlp-tuned", "Mlp")])
def test_ppo(conf, policy, tmp_path):
    out = train("ppo", "CartPole-v1", conf, tmp_path, "--seed", 1)
    assert policy in out
    assert (tmp_path / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip").exists()


def assert_search_space(params, conf):
    assert "learning_rate" in params
    assert ({"nmodes", "nelems", "basis"} <= set(params)) == (conf == "span")
    assert ("degree" in params) == (params.get("basis") == "bspline")
    assert ("net_arch" in params) == (conf == "mlp")


@pytest.mark.parametrize("conf", ["span", "mlp"])
def test_search(conf, tmp_path):
    """A search over SPAN draws SPAN's options, a search over the MLP draws the MLP's, and its result can be trained."""
    storage = f"sqlite:///{tmp_path}/study.db"
    study = ["--storage", storage, "--study-name", "search", "--seed", 1, "--gym-packages", "sb3_span.zoo"]
    search = [
        "-optimize",
        "--n-trials",
        2,
        "--sampler",
        "random",
        "--pruner",
        "none",
        "--n-evaluations",
        1,
        "--no-optim-plots",
    ]
    train("sac", "InvertedPendulum-v5", conf, tmp_path, *search, *study)
    trials = optuna.load_study(study_name="search", storage=storage).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 2
    for trial in trials:
        assert_search_space(trial.params, conf)
    out = train("sac", "InvertedPendulum-v5", conf, tmp_path, *study, "--trial-id", 1)
    assert ("span_arch" in out) == (conf == "span")


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")  # the Zoo's search draws such sizes
@pytest.mark.parametrize("conf", ["span", "mlp"])
@pytest.mark.parametrize("algo", ["ppo", "a2c", "trpo", "ppo_lstm", "sac", "td3", "ddpg", "tqc", "dqn", "qrdqn"])
def test_what_a_search_draws_can_be_built(algo, conf):
    """The tables that the Zoo's search uses, without the training."""
    from rl_zoo3 import ALGOS
    from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER

    import sb3_span.zoo  # noqa: F401

    cls = ALGOS[algo]
    policy = cls.policy_aliases["SPANPolicy"]
    if conf == "mlp":
        policy = "MlpLstmPolicy" if algo == "ppo_lstm" else "MlpPolicy"
    env = "CartPole-v1" if algo in ("dqn", "qrdqn") else "Pendulum-v1"
    is_clipped = conf == "span" and issubclass(policy, GradientClipping)
    assert is_clipped == (conf == "span" and algo in ("sac", "td3", "ddpg", "tqc"))
    for attribute in {str(policy), policy if conf == "mlp" else "SPANPolicy"}:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        study.set_user_attr("policy", attribute)
        for _ in range(3):
            trial = study.ask()
            hyperparams = HYPERPARAMS_SAMPLER[algo](trial, 1, 1, dict(using_her_replay_buffer=False, her_kwargs={}))
            assert_search_space(trial.params, conf)
            assert ("max_grad_norm" in hyperparams["policy_kwargs"]) == is_clipped
            converted = HYPERPARAMS_CONVERTER[algo](trial.params)
            if algo in ("td3", "ddpg"):  # the Zoo makes the noise from its description later
                del converted["noise_type"], converted["noise_std"]
                assert converted == {key: value for key, value in hyperparams.items() if key != "action_noise"}
            else:
                assert converted == hyperparams
            is_off_policy = hasattr(cls, "load_replay_buffer")
            model = cls(policy, env, device="cpu", **hyperparams, **({"buffer_size": 10} if is_off_policy else {}))
            assert isinstance(model.policy, SPANOptions) == (conf == "span")
            if conf == "span":  # the rate that was drawn is the rate
                assert set(model.policy.lr_scale.values()) == {1.0}


def test_importing_the_package_leaves_the_zoo_alone():
    code = "; ".join(
        [
            "import rl_zoo3, rl_zoo3.hyperparams_opt as opt, stable_baselines3",
            "before = dict(rl_zoo3.ALGOS), dict(opt.HYPERPARAMS_SAMPLER), dict(opt.HYPERPARAMS_CONVERTER)",
            "import sb3_span",
            "assert before == (rl_zoo3.ALGOS, opt.HYPERPARAMS_SAMPLER, opt.HYPERPARAMS_CONVERTER)",
            "assert rl_zoo3.ALGOS['sac'] is stable_baselines3.SAC",
        ]
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_the_zoo_trains_with_the_native_updates(name):
    assert ALGOS[name.lower()] is getattr(sb3_span, name)
    env_id = {"PPO": "CartPole-v1", "SAC": "InvertedPendulum-v5"}[name]
    for method in ("span", "mlp"):
        hyperparams = ROOT / "hyperparams" / f"{method}.yml"
        assert type(make_agent(hyperparams, env_id, seed=0)) is getattr(sb3_span, name)
        assert type(make_agent(hyperparams, env_id, seed=0, sb3=True)) is getattr(stable_baselines3, name)


def test_falling_learning_rate_as_the_zoo_writes_it():
    agent = make_agent(ROOT / "hyperparams" / "span.yml", "CartPole-v1", seed=0, learning_rate="lin_0.002")
    assert [agent.lr_schedule(remaining) for remaining in (1.0, 0.5, 0.0)] == pytest.approx([0.002, 0.001, 0.0])
    agent = make_agent(ROOT / "hyperparams" / "span.yml", "CartPole-v1", seed=0, clip_range="lin_0.2", device="auto")
    assert agent.clip_range(0.5) == pytest.approx(0.1)


def test_what_only_the_zoo_can_build_is_left_to_it(tmp_path):
    conf = tmp_path / "conf.yml"
    entry = "n_timesteps: 100, policy: MlpPolicy, n_epochs: 4"
    conf.write_text(f"CartPole-v1: {{{entry}, normalize: true, frame_stack: 2, policy_kwargs: 'dict(net_arch=[4])'}}")
    with pytest.raises(ValueError, match=r"has normalize, frame_stack, policy_kwargs for CartPole-v1.*rl_zoo3.train"):
        make_agent(conf, "CartPole-v1", seed=0)
    conf.write_text(f"CartPole-v1: {{{entry}, normalize: false, policy_kwargs: {{net_arch: [4]}}}}")
    assert make_agent(conf, "CartPole-v1", seed=0).policy.net_arch == [4]


def test_the_policy_tells_the_algorithm(tmp_path):
    conf = tmp_path / "conf.yml"
    conf.write_text("Pendulum-v1: {n_timesteps: 100, policy: sb3_span.SPANPolicy}")
    assert isinstance(make_agent(conf, "Pendulum-v1", seed=0), SAC)
    conf.write_text("Pendulum-v1: {n_timesteps: 100, policy: sb3_span.SPANTD3Policy}")
    with pytest.raises(ValueError, match=r"has the policy SPANTD3Policy for Pendulum-v1, .*or is neither's.*rl_zoo3"):
        make_agent(conf, "Pendulum-v1", seed=0)
    conf.write_text("Pendulum-v1: {policy: SPANPolicy, tau: 0.01, train_freq: [1, episode]}")
    agent = make_agent(conf, "Pendulum-v1", seed=0)
    assert isinstance(agent, SAC) and agent.train_freq.unit.value == "episode"
    for entry in ("policy: MlpPolicy, learning_rate: 0.001", "policy: nowhere.Policy", "tau: 0.01"):
        conf.write_text(f"Pendulum-v1: {{{entry}}}")
        with pytest.raises(ValueError, match="could be PPO's or SAC's"):
            make_agent(conf, "Pendulum-v1", seed=0)
    conf.write_text("")
    with pytest.raises(ValueError, match=r"no entry for 'Pendulum-v1'; it has \[\]"):
        make_agent(conf, "Pendulum-v1", seed=0)
    conf.write_text("Pendulum-v1: {policy: SPANPolicy, tau: 0.01}")
    with pytest.raises(ValueError, match=r"no entry for 'Hopper-v5'; it has \['Pendulum-v1'\]"):
        make_agent(conf, "Hopper-v5", seed=0)
