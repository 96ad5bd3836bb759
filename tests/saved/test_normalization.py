"""Agents act on observations as they were in training, or it is said that they do not."""

import numpy as np
import pytest
import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

import sb3_span
from sb3_span.cli import main
from sb3_span.saved import find_vecnormalize, save_statistics
from sb3_span.saved.normalization import was_normalized


def trained(algorithm, env_id="Pendulum-v1", normalized=True, **normalization):
    env = make_vec_env(env_id, seed=0)
    env = VecNormalize(env, **normalization) if normalized else env
    rollout = {"n_steps": 64} if issubclass(algorithm, stable_baselines3.PPO) else {"learning_starts": 10}
    return algorithm("SPANPolicy", env, seed=0, device="cpu", **rollout).learn(64)


@pytest.mark.parametrize(
    "algorithm, normalization, told",
    [
        (sb3_span.PPO, dict(), True),
        (sb3_span.SAC, dict(), True),
        (sb3_span.SAC, dict(norm_obs=False), False),
        (sb3_span.SAC, dict(normalized=False), False),
        (stable_baselines3.PPO, dict(), True),
        (stable_baselines3.PPO, dict(normalized=False), False),
        (stable_baselines3.SAC, dict(), None),
    ],
)
def test_what_a_file_tells(algorithm, normalization, told, tmp_path):
    model = trained(algorithm, **normalization)
    model.save(tmp_path / "model.zip")
    assert was_normalized(tmp_path / "model.zip") is told
    # And again after it was loaded, without its environments, and saved.
    algorithm.load(tmp_path / "model.zip").save(tmp_path / "again.zip")
    assert was_normalized(tmp_path / "again.zip") is told


@pytest.fixture(scope="module")
def normalized():
    return trained(sb3_span.PPO)


@pytest.fixture(scope="module")
def plain():
    return trained(sb3_span.PPO, normalized=False)


def test_one_is_used_whatever_it_is_called(normalized, plain, tmp_path):
    normalized.save(tmp_path / "a.zip")
    plain.save(tmp_path / "plain.zip")
    normalized.env.save(tmp_path / "of_last_week.pkl")
    trained(sb3_span.SAC, normalized=False).save_replay_buffer(tmp_path / "buffer.pkl")
    np.savez(tmp_path / "buffer.npz", rewards=np.zeros(3))
    for name in ("broken.pkl", "broken.npz"):
        (tmp_path / name).write_text("neither a pickle nor an archive")
    assert find_vecnormalize(tmp_path / "a.zip") == tmp_path / "of_last_week.pkl"
    assert find_vecnormalize(tmp_path / "plain.zip") is None
    save_statistics(normalized.env, tmp_path / "a_vecnormalize.npz")
    assert find_vecnormalize(tmp_path / "a.zip") == tmp_path / "a_vecnormalize.npz"
    assert find_vecnormalize(tmp_path / "a.zip", "none") is None
    assert find_vecnormalize(tmp_path / "a.zip", tmp_path / "of_last_week.pkl") == tmp_path / "of_last_week.pkl"


@pytest.mark.parametrize(
    "model, name",
    [
        ("a", "a.pkl"),
        ("a", "a_vecnormalize.pkl"),
        ("a", "vec_normalize_a.pkl"),
        ("rl_model_500_steps", "rl_model_vecnormalize_500_steps.pkl"),
    ],
)
def test_of_several_the_one_that_is_called_after_the_model(model, name, normalized, tmp_path):
    normalized.save(tmp_path / f"{model}.zip")
    for file in (name, "b.pkl", "ab_vecnormalize.pkl"):
        normalized.env.save(tmp_path / file)
    assert find_vecnormalize(tmp_path / f"{model}.zip") == tmp_path / name


def test_several_are_asked_for(normalized, tmp_path):
    normalized.save(tmp_path / "model.zip")
    for file in ("monday.pkl", "tuesday.pkl"):
        normalized.env.save(tmp_path / file)
    with pytest.raises(ValueError, match=r"several VecNormalize next to .*: monday.pkl, tuesday.pkl. .*--vecnormalize none"):
        find_vecnormalize(tmp_path / "model.zip")


def test_those_of_other_observations_are_not_used(normalized, tmp_path):
    """Agents of two environments in one folder, one of them saved by an algorithm that does not tell what it needs."""
    trained(stable_baselines3.SAC, normalized=False).save(tmp_path / "pendulum.zip")
    of_cartpole = tmp_path / "cartpole.pkl"
    VecNormalize(make_vec_env("CartPole-v1")).save(of_cartpole)
    assert find_vecnormalize(tmp_path / "pendulum.zip") is None
    with pytest.raises(ValueError, match=r"cartpole.pkl has .* of shape \(4,\), and .*pendulum.zip observes \(3,\)"):
        find_vecnormalize(tmp_path / "pendulum.zip", of_cartpole)
    normalized.env.save(tmp_path / "of_pendulum.pkl")
    assert find_vecnormalize(tmp_path / "pendulum.zip") == tmp_path / "of_pendulum.pkl"


@pytest.mark.parametrize("command", [["watch", "--episodes", "1"], ["plot"], ["diagnose"], ["export"], ["hvac", "evaluate"]])
def test_none_is_said(command, normalized, tmp_path, monkeypatch):
    if command[0] == "hvac":
        pytest.importorskip("sinergym", reason="the extra 'hvac' is not installed")
    monkeypatch.chdir(tmp_path)
    normalized.save("Pendulum-v1.zip")
    with pytest.raises(SystemExit, match=r"Pendulum-v1.zip was trained with VecNormalize, and there are no statistics"):
        main([*command, "Pendulum-v1.zip"])
    assert [path.name for path in tmp_path.iterdir()] == ["Pendulum-v1.zip"]


def test_watch_gives_the_normalised_return(tmp_path, capsys, monkeypatch):
    """As a newcomer saves it: SB3's own algorithm, two files of the same name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    model = trained(stable_baselines3.PPO, "CartPole-v1")
    env = model.get_vec_normalize_env()
    env.obs_rms.mean += 0.5  # which no observation of the environment is anywhere near
    model.save("vn2.zip")
    env.save("vn2.pkl")
    main(["watch", "vn2.zip", "--env", "CartPole-v1", "--episodes", "5"])
    env.training = env.norm_reward = False
    env.seed(2000)
    expected, _ = evaluate_policy(model, env, n_eval_episodes=5, return_episode_rewards=True)
    score = f"return {np.mean(expected):.1f} ± {np.std(expected):.1f} over 5 episodes"
    assert f"CartPole-v1: {score}, observations normalised with vn2.pkl" in capsys.readouterr().out
    main(["watch", "vn2.zip", "--env", "CartPole-v1", "--episodes", "5", "--vecnormalize", "none"])
    without = capsys.readouterr().out
    assert score not in without and "observations not normalised" in without


def test_what_a_file_does_not_tell_is_said(tmp_path, capsys, monkeypatch):
    """Files of SB3's off-policy algorithms: normalised or not, they look the same."""
    monkeypatch.chdir(tmp_path)
    trained(stable_baselines3.SAC).save("Pendulum-v1.zip")
    main(["watch", "Pendulum-v1.zip", "--episodes", "1"])
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.endswith("observations not normalised (the file does not say whether they were in training)")
    trained(sb3_span.SAC, normalized=False).save("Pendulum-v1.zip")
    main(["watch", "Pendulum-v1.zip", "--episodes", "1"])
    assert capsys.readouterr().out.splitlines()[-1].endswith("in one episode, observations not normalised")
