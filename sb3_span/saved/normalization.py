"""
The statistics that a model's observations are normalised with: found next to it, asked for, or known not to be needed.

A model must see normalised observations if and only if it was trained on them. Stable-Baselines3 keeps the statistics in a
separate file of any name. Nothing is unpickled here.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.saved.environments import find_env_id
from sb3_span.saved.names import STUDY_RUN
from sb3_span.saved.shared_file import is_shared, load_shared
from sb3_span.saved.statistics import find_statistics, load_statistics

NONE = "none"
# Set by the algorithms of sb3_span in their files.
FLAG = "trained_on_normalized_observations"
# How a pickled VecNormalize begins.
PICKLED_CLASS, BEGINNING = VecNormalize.__module__.encode(), 200


def find_vecnormalize(file: Path, given: Path | str | None = None) -> Path | None:
    """
    :param file: A model's zip
    :param given: VecNormalize's file that the user has named, or the word "none"; None to look for it
    :return: VecNormalize's file; None where observations are not normalised. It is looked for next to the model, under any
        name, and where studies and the Zoo have it
    """
    if given is not None:
        if str(given) == NONE:
            return None
        _check_shape(Path(given), file)
        return Path(given)
    if is_shared(file):  # they are in it
        return file if load_shared(file).vecnormalize is not None else None
    in_run = [file.parent] if (file.parent / STUDY_RUN).is_file() else []
    in_zoo = [file.parent / name for name in (find_env_id(file), file.stem) if name]
    for folder in (*in_run, *in_zoo):
        if known := find_statistics(folder):
            return known
    trained = was_normalized(file)
    if trained is False:  # statistics next to it are another model's
        return None
    beside = [path for path in sorted(file.parent.iterdir()) if _has_statistics(path) and _fits(path, file)]
    own = [path for path in beside if _belongs(path, file)] or beside
    if len(own) == 1:
        return own[0]
    if own:
        raise ValueError(
            f"There are statistics of several VecNormalize next to {file}: {', '.join(path.name for path in own)}. Name "
            f"those that it was trained with, for example --vecnormalize {own[0]}, or --vecnormalize {NONE}."
        )
    if trained:
        raise ValueError(
            f"{file} was trained with VecNormalize, and there are no statistics next to the file: without them the agent sees "
            "other numbers than in training. Name the file that VecNormalize.save wrote with --vecnormalize FILE, or, "
            f"if only rewards were normalised, --vecnormalize {NONE}."
        )
    return None


def was_normalized(file: Path) -> bool | None:
    """
    Whether a model's file says that it was trained on normalised observations. Nothing is unpickled.

    Algorithms of sb3_span say so. SB3's own on-policy algorithms keep the last observation that was not normalised, if there
    is a VecNormalize; its off-policy algorithms do not record it.

    :param file: What ``model.save`` wrote
    :return: None if the file does not say
    """
    data = _settings(file)
    if isinstance(data.get(FLAG), bool):
        return data[FLAG]
    is_on_policy = "n_steps" in data and "replay_buffer_class" not in data
    if not is_on_policy or "_last_original_obs" not in data or not data.get("num_timesteps"):
        return None
    return data["_last_original_obs"] is not None


def _settings(file: Path) -> dict[str, Any]:
    """What can be read of a model's settings without unpickling; nothing of a damaged file, which loading it reports."""
    try:
        with zipfile.ZipFile(file) as archive:
            data = json.loads(archive.read("data"))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _shapes(statistics: Path, model: Path) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shapes of the observations that both are for, if both are known: Dict observations have none."""
    space = _settings(model).get("observation_space")
    shape = space.get("_shape") if isinstance(space, dict) else None
    own = load_statistics(statistics).observation_space.shape
    return (own, tuple(shape)) if own and isinstance(shape, list) else None


def _fits(statistics: Path, model: Path) -> bool:
    """Whether statistics are of observations shaped as the model's; a model of images may have the channels first."""
    shapes = _shapes(statistics, model)
    return shapes is None or sorted(shapes[0]) == sorted(shapes[1])


def _check_shape(statistics: Path, model: Path) -> None:
    if not _fits(statistics, model):
        own, seen = _shapes(statistics, model)  # type: ignore[misc]
        raise ValueError(
            f"{statistics} has statistics of observations of shape {own}, and {model} observes {seen}. Name the file that was "
            f"saved with this agent, or --vecnormalize {NONE}."
        )


def describe(file: Path, vecnormalize: Path | None) -> str:
    """
    Whether an agent's observations were normalised, as the end of a sentence.

    :param file: The model
    :param vecnormalize: VecNormalize's file, if one was used
    """
    if vecnormalize is not None and load_statistics(vecnormalize).norm_obs:
        return f"observations normalised with {vecnormalize}"
    known = vecnormalize is not None or is_shared(file) or (file.parent / STUDY_RUN).is_file()
    unsaid = not known and was_normalized(file) is None
    return "observations not normalised" + (" (the file does not say whether they were in training)" if unsaid else "")


def _has_statistics(path: Path) -> bool:
    """
    Reads only the beginning of a pickle or the names in an archive, since replay buffers, of either kind, are large.
    """
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                return {"options.npy", "returns.mean.npy"} <= set(archive.namelist())
        if path.suffix == ".pkl":
            with path.open("rb") as stream:
                return PICKLED_CLASS in stream.read(BEGINNING)
    except (OSError, zipfile.BadZipFile):
        pass
    return False


def _belongs(path: Path, model: Path) -> bool:
    """Whether a file is named after a model: ``agent.pkl``, ``agent_vecnormalize.pkl``, or as SB3's checkpoints are."""
    words = path.stem.replace("vec_norm", "vecnorm").split("_")
    return "_".join(word for word in words if word not in ("vecnorm", "vecnormalize")) == model.stem
