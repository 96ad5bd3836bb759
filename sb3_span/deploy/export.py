"""Export, check, write: in this order, so that what is on disk has been checked."""

import contextlib
import dataclasses
import os
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.compiled import CompiledPolicy
from sb3_span.deploy.policy import DeterministicPolicy
from sb3_span.deploy.verify import TOLERANCE, Verification, verify
from sb3_span.files import written_whole
from sb3_span.trained import env_name, load_vecnormalize, same_actions


def export_c(
    model: BaseAlgorithm | BasePolicy,
    output: Path | str,
    vecnormalize: VecNormalize | Path | str | None = None,
    env: EnvSpec | str | None = None,
    int8: bool = False,
    name: str = "policy",
) -> Verification:
    """
    Write a policy's deterministic action as C99: ``policy.h`` and ``policy.c``.

    The code is compiled and compared with ``predict`` first; if it differs by more than 1e-5 of the action's range, and by
    more than ten times what ``predict`` differs from double precision by, nothing is written.

    :param model: A model of Stable-Baselines3 or sb3-contrib, or its policy
    :param output: The folder for the two files
    :param vecnormalize: The statistics of its observations, or their file. None takes those of the model's own environment, if
        it has any
    :param env: The environment to record observations from for the comparison: its id or specification. None takes one like
        the model's own if it has any, and random observations otherwise
    :param int8: Store weights in bytes, a quarter of the size. Actions then differ from those of ``predict`` by as much as the
        comparison says, and nothing is too much
    :param name: What files, functions and macros are called after; programs with several policies need several names
    :return: What the comparison has found
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError(f"name is {name!r}; it must be a name in C: letters, digits and underscores, and no digit first.")
    folder = _check_folder(output)
    policy, env = _prepare(model, vecnormalize, env)
    with CompiledPolicy(policy, write_c(policy, "", int8)) as compiled:
        verification = verify(policy, compiled, env, "The exported C", np.inf if int8 else TOLERANCE)
    files = write_c(policy, str(verification), int8)
    _write(folder, {_renamed(file, name): _renamed(text, name).encode() for file, text in files.items()})
    return verification


def export_onnx(
    model: BaseAlgorithm | BasePolicy,
    output: Path | str,
    vecnormalize: VecNormalize | Path | str | None = None,
    env: EnvSpec | str | None = None,
) -> Verification:
    """
    Write a policy's deterministic action as ONNX: ``policy.onnx``.

    Arguments and check are those of :func:`export_c`, without ``int8`` and ``name``.
    """
    from sb3_span.deploy.onnx_export import OnnxPolicy, add_note, build_onnx

    folder = _check_folder(output)
    policy, env = _prepare(model, vecnormalize, env)
    graph = build_onnx(policy)
    verification = verify(policy, OnnxPolicy(policy, graph), env, "The exported ONNX graph")
    add_note(graph, "check", str(verification))
    _write(folder, {"policy.onnx": graph.SerializeToString()})
    return verification


def _prepare(
    model: BaseAlgorithm | BasePolicy, vecnormalize: VecNormalize | Path | str | None, env: EnvSpec | str | None
) -> tuple[DeterministicPolicy, EnvSpec | str | None]:
    if isinstance(vecnormalize, Path | str):
        vecnormalize = load_vecnormalize(vecnormalize)
    if env is not None:
        if problem := recording_problem(env, model):
            raise ValueError(problem)
    elif isinstance(model, BaseAlgorithm) and model.env is not None:
        env = _like(model.env)
        if env is not None and recording_problem(env, model):  # wrapped in a way that no recipe has
            env = None
    if isinstance(model, BaseAlgorithm):
        vecnormalize = vecnormalize or model.get_vec_normalize_env()
    return DeterministicPolicy(model, vecnormalize), env


def recording_problem(env: EnvSpec | str, model: BaseAlgorithm | BasePolicy) -> str | None:
    """Why observations cannot be recorded from an environment; None when they can."""
    name = env_name(env)
    try:
        made = gym.make(env)
    except (gym.error.Error, ImportError, ValueError) as error:
        return f"{name} cannot be made here: {error}"
    shown, taken = made.observation_space, made.action_space
    made.close()
    observed, wrapped = model.observation_space, "there must have been a wrapper or an option in training."
    if shown != observed and not (is_image_space(observed) and is_image_space(shown)):
        return f"{name} shows {shown}, but the policy observes {observed}; {wrapped}"
    if not same_actions(model.action_space, taken):
        return f"{name} takes {taken}, but the policy's actions are {model.action_space}; {wrapped}"
    return None


def _like(env: VecEnv) -> EnvSpec | None:
    """A recipe for environments like the model's own, which is in the middle of something; None where there is none."""
    try:
        spec = env.get_attr("spec")[0]
    except (OSError, EOFError, AttributeError):  # that of another process, which is closed
        return None
    if spec is None:
        return None
    # SB3's Monitor cannot be made from a specification, and is of no use here.
    wrappers = tuple(wrapper for wrapper in spec.additional_wrappers if wrapper.name != "Monitor")
    return dataclasses.replace(spec, additional_wrappers=wrappers)


def _renamed(text: str, name: str) -> str:
    text = re.sub(r"\bpolicy(_act|_scores|\.[hc])\b", rf"{name}\1", text)
    return re.sub(r"\bPOLICY_", f"{name.upper()}_", text)


def _check_folder(output: Path | str) -> Path:
    """Before anything is computed: whether the result could be written."""
    folder = Path(output)
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ValueError(f"{folder} cannot be a folder, because {existing} is a file. Name another folder.")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"{existing} is not writable. Name another folder, or change its permissions.")
    return folder


def _write(folder: Path, files: dict[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:  # none of them is there before all of them are written
            for name, content in files.items():
                stack.enter_context(written_whole(folder / name)).write_bytes(content)
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to: {error.strerror or error}.") from error
