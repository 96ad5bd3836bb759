"""``sb3-span export``."""

from pathlib import Path

import gymnasium as gym
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from sb3_span.deploy.export import export_c, export_onnx
from sb3_span.deploy.load import load_trained


def export_model(
    model: Path, form: str, output: Path, vecnormalize: Path | None = None, env: str | None = None, int8: bool = False
) -> None:
    """
    Export a trained policy and print what the check has found.

    :param model: A model's zip, or a folder of the Zoo or of a study's run; unpickled, so it has to be one that you trust
    :param form: "c" or "onnx"
    :param output: Folder for the result
    :param vecnormalize: File with VecNormalize's statistics; None takes the one in the Zoo's or study's folder
    :param env: The environment to record observations from; None takes the Zoo's or study's
    :param int8: Store the weights of C code in bytes
    """
    if int8 and form != "c":
        raise ValueError("--int8 is for --format c; the weights of ONNX are floats.")
    trained = load_trained(model, vecnormalize)
    if env is None and trained.env_id is None:
        print(
            "The environment is not known: checking with random observations only. Name it with --env to check with its own."
        )
    elif problem := _problem(env or trained.env_id, trained.policy.observation_space):
        if env is not None:
            raise ValueError(f"--env {env}: {problem}")
        print(f"Checking with random observations only: {problem}")
    else:
        env = env or trained.env_id
    if form == "c":
        verification = export_c(trained.policy, output, trained.vecnormalize, env, int8)
    else:
        verification = export_onnx(trained.policy, output, trained.vecnormalize, env)
    normalized = " with its VecNormalize statistics" if trained.vecnormalize is not None else ""
    written = ", ".join(str(output / name) for name in _names(form))
    print(f"{type(trained.policy).__name__}{normalized}: {verification}.\nWritten: {written}")


def _names(form: str) -> list[str]:
    return ["policy.h", "policy.c"] if form == "c" else ["policy.onnx"]


def _problem(env_id: str | None, observed: spaces.Space) -> str | None:
    """Why observations cannot be recorded from this environment; None when they can."""
    assert env_id is not None
    try:
        env = gym.make(env_id)
    except (gym.error.Error, ImportError) as error:
        return f"{env_id} cannot be made here: {error}"
    shown = env.observation_space
    env.close()
    if shown == observed or (is_image_space(observed) and is_image_space(shown)):
        return None
    return f"{env_id} shows {shown}, but the policy observes {observed}; there must have been a wrapper in training."
