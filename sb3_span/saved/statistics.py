"""
The statistics of VecNormalize as arrays, in an ``npz`` file that is read without unpickling.

``VecNormalize.save`` pickles. Such files, from earlier versions, from SB3 or from the RL Zoo, are read here too without
executing them: a restricted unpickler extracts the numbers, and every other name in a pickle remains a name.
"""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.atomic_files import written_whole
from sb3_span.saved.plain_spaces import KINDS, space_from_data, space_to_data

NORMALIZATION, PICKLED_NORMALIZATION = "vecnormalize.npz", "vecnormalize.pkl"
OPTIONS = ("norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon", "training", "norm_obs_keys")
# What NumPy's arrays and numbers are rebuilt with; the modules' names differ between versions.
REBUILT = {
    "_reconstruct": np.zeros(1).__reduce__()[0],
    "_frombuffer": np.zeros(1).__reduce_ex__(5)[0],
    "scalar": np.float64(0).__reduce__()[0],
    "ndarray": np.ndarray,
    "dtype": np.dtype,
}


def save_statistics(vecnormalize: VecNormalize, path: Path | str) -> None:
    options, arrays = statistics_to_data(vecnormalize)
    with written_whole(Path(path)) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, options=np.array(json.dumps(options)), **arrays)


def load_statistics(path: Path | str) -> VecNormalize:
    """
    :param path: What :func:`save_statistics`, ``save_shared`` or ``VecNormalize.save`` wrote
    :return: For ``normalize_obs``, and for ``set_venv`` with environments
    """
    path = Path(path)
    if path.suffix == ".safetensors":  # an agent's file, which contains them
        from sb3_span.saved.shared_file import load_shared  # which imports this module

        statistics = load_shared(path).vecnormalize
        if statistics is None:
            raise ValueError(f"{path} has no statistics of VecNormalize.")
        return statistics
    try:
        with path.open("rb") as file:
            if zipfile.is_zipfile(file):
                file.seek(0)
                with np.load(file, allow_pickle=False) as saved:
                    arrays = {name: saved[name] for name in saved.files}
                return statistics_from_data(json.loads(str(arrays.pop("options"))), arrays)
            file.seek(0)
            loaded = _NothingIsExecuted(file).load()
    except FileNotFoundError:
        raise ValueError(f"There is no {path}.") from None
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(f"{path} is not what VecNormalize.save has written, or it is damaged: {error!r}.") from error
    if not isinstance(loaded, _Inert) or loaded.named != "VecNormalize":
        named = loaded.named if isinstance(loaded, _Inert) else type(loaded).__name__
        raise ValueError(f"{path} holds a {named}; give the file that VecNormalize.save has written.")
    try:
        return _from_pickled(loaded.state)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is not what VecNormalize.save has written, or it is damaged: {error!r}.") from error


def find_statistics(folder: Path) -> Path | None:
    """The file of statistics in a folder, pickled or not."""
    return next((folder / name for name in (NORMALIZATION, PICKLED_NORMALIZATION) if (folder / name).is_file()), None)


def statistics_to_data(vecnormalize: VecNormalize) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """
    :return: The options, which JSON can hold, and the arrays
    """
    options = {name: getattr(vecnormalize, name) for name in OPTIONS}
    options["observation_space"] = space_to_data(vecnormalize.observation_space)
    parts = {"returns": vecnormalize.ret_rms}
    if vecnormalize.norm_obs:
        by_key = vecnormalize.obs_rms if isinstance(vecnormalize.obs_rms, dict) else {"": vecnormalize.obs_rms}
        options["keys"] = list(by_key) if isinstance(vecnormalize.obs_rms, dict) else None
        parts |= {f"observations{number}": part for number, part in enumerate(by_key.values())}
    arrays = {
        f"{name}.{number}": np.asarray(getattr(part, number), dtype=np.float64)
        for name, part in parts.items()
        for number in ("mean", "var", "count")
    }
    return options, arrays


def statistics_from_data(options: dict[str, Any], arrays: dict[str, np.ndarray]) -> VecNormalize:
    """The inverse of :func:`statistics_to_data`."""

    def part(name: str) -> RunningMeanStd:
        found = RunningMeanStd(shape=arrays[f"{name}.mean"].shape)
        found.mean, found.var = arrays[f"{name}.mean"], arrays[f"{name}.var"]
        found.count = float(arrays[f"{name}.count"])
        return found

    space = space_from_data(options["observation_space"])
    state = {name: options[name] for name in OPTIONS} | {"observation_space": space, "ret_rms": part("returns")}
    if options["norm_obs"]:
        keys = options["keys"]
        by_key = {key: part(f"observations{number}") for number, key in enumerate(keys or [""])}
        state["obs_rms"] = by_key[""] if keys is None else by_key
    return _make(state)


def _make(state: dict[str, Any]) -> VecNormalize:
    if isinstance(state["observation_space"], spaces.Dict) and state["norm_obs"] and state.get("norm_obs_keys") is None:
        state["norm_obs_keys"] = list(state["obs_rms"])
    made: VecNormalize = VecNormalize.__new__(VecNormalize)
    made.__setstate__({**state, "old_reward": np.array([])})
    return made


class _Inert:
    """Stands for an object in a pickle: it stores the state that it is given, and does nothing else."""

    named = ""
    state: Any = None

    def __new__(cls, *_: Any, **__: Any) -> "_Inert":
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def ignore(self, *_: Any) -> None:
        pass

    __setitem__ = append = extend = add = ignore


class _NothingIsExecuted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "gymnasium" and name in KINDS:
            return getattr(spaces, name)
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module.split(".")[0] == "numpy" and name in REBUILT:
            return REBUILT[name]
        return type("_Inert", (_Inert,), {"named": name})


def _from_pickled(state: dict[str, Any]) -> VecNormalize:
    def part(inert: _Inert) -> RunningMeanStd:
        found = RunningMeanStd(shape=np.shape(inert.state["mean"]))
        found.mean, found.var, found.count = (inert.state[name] for name in ("mean", "var", "count"))
        return found

    own = {name: state.get(name) for name in OPTIONS}
    # Rebuilt, since the random generator of the space in the file was not read.
    own |= {"observation_space": space_from_data(space_to_data(state["observation_space"])), "ret_rms": part(state["ret_rms"])}
    if own["norm_obs"]:
        found = state["obs_rms"]
        own["obs_rms"] = {key: part(each) for key, each in found.items()} if isinstance(found, dict) else part(found)
    return _make(own)
