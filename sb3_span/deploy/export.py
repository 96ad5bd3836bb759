"""Export, check, write: in this order, so that everything on disk has been checked."""

import contextlib
import dataclasses
import os
import re
from pathlib import Path

import numpy as np
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecNormalize

from sb3_span.atomic_files import written_whole
from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.compiled import CompiledPolicy
from sb3_span.deploy.observations import RecordingError, make_observations
from sb3_span.deploy.policy import DeterministicPolicy, Observation
from sb3_span.deploy.verify import TOLERANCE, Verification, verify
from sb3_span.saved import load_statistics


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
    more than ten times ``predict``'s own difference from double precision, nothing is written.

    :param model: A model of Stable-Baselines3 or sb3-contrib, or its policy
    :param output: The folder for the two files
    :param vecnormalize: The statistics of its observations, or their file. None uses those of the model's own environment, if
        it has any
    :param env: The environment to record observations from for the comparison: its id or specification. None uses one like
        the model's own if possible, and random observations otherwise
    :param int8: Store weights in bytes, a quarter of the size. Actions then differ from those of ``predict``: the
        comparison measures by how much, without a limit
    :param name: Name of the files, functions and macros; programs with several policies need several names
    :return: The result of the comparison
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError(
            f"name is {name!r}; it must be a name in C: letters, digits and underscores, not beginning with a digit."
        )
    folder = _check_folder(output)
    policy, observations = _prepare(model, vecnormalize, env)
    with CompiledPolicy(policy, write_c(policy, "", int8)) as compiled:
        verification = verify(policy, compiled, observations, "The exported C", np.inf if int8 else TOLERANCE)
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
    policy, observations = _prepare(model, vecnormalize, env)
    graph = build_onnx(policy)
    verification = verify(policy, OnnxPolicy(policy, graph), observations, "The exported ONNX graph")
    add_note(graph, "check", str(verification))
    _write(folder, {"policy.onnx": graph.SerializeToString()})
    return verification


def _prepare(
    model: BaseAlgorithm | BasePolicy, vecnormalize: VecNormalize | Path | str | None, env: EnvSpec | str | None
) -> tuple[DeterministicPolicy, tuple[list[Observation], int]]:
    """
    :return: The policy, and observations to check its export with
    """
    if isinstance(vecnormalize, Path | str):
        vecnormalize = load_statistics(vecnormalize)
    if isinstance(model, BaseAlgorithm):
        vecnormalize = vecnormalize or model.get_vec_normalize_env()
    policy = DeterministicPolicy(model, vecnormalize)
    if env is not None:
        return policy, make_observations(policy, env)
    own = _like(model.env) if isinstance(model, BaseAlgorithm) and model.env is not None else None
    try:
        return policy, make_observations(policy, own)
    except RecordingError:  # wrappers that no specification has, hardware of which there is only one
        return policy, make_observations(policy, None)


def _like(env: VecEnv) -> EnvSpec | None:
    """A function that makes environments like the model's own, which is in use; None if there is no way."""
    if isinstance(env.unwrapped, SubprocVecEnv):  # its processes would end when asked for what cannot be pickled
        return None
    try:
        spec = env.get_attr("spec")[0]
    except (AttributeError, NotImplementedError):  # environments of different kinds
        return None
    if spec is None:
        return None
    # SB3's Monitor cannot be made from a specification, and is not needed here.
    wrappers = tuple(wrapper for wrapper in spec.additional_wrappers if wrapper.name != "Monitor")
    return dataclasses.replace(spec, additional_wrappers=wrappers)


def _renamed(text: str, name: str) -> str:
    """All at once: the new name may contain the old one."""
    pattern = r"\bpolicy(?=(_act|_scores|\.[hc])\b)|\bPOLICY(?=_)"
    return re.sub(pattern, lambda match: name if match[0] == "policy" else name.upper(), text)


def _check_folder(output: Path | str) -> Path:
    """Check that the result can be written, before anything is computed."""
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
        with contextlib.ExitStack() as stack:  # all of them or none
            for name, content in files.items():
                stack.enter_context(written_whole(folder / name)).write_bytes(content)
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to: {error.strerror or error}.") from error
