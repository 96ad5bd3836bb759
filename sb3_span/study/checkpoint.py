"""
Where a killed run continues: the agent with its optimizers, the replay buffer, the statistics of VecNormalize.

Continuing from one unpickles nothing: the agent is built from the run's settings, and its parameters, counters and transitions
are arrays and numbers. A replay buffer that holds objects is the exception, and needs the user's consent.

A replay buffer is hundreds of megabytes, what was added since the last checkpoint only a few. Only that is written, to a
separate file: a checkpoint is cheap enough for one at every evaluation.
"""

import itertools
import json
import operator
import os
import pickle
import shutil
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_wrapper

from sb3_span.atomic_files import written_whole
from sb3_span.saved.statistics import NORMALIZATION, find_statistics, load_statistics, save_statistics

# Names of folders that are incomplete: not yet written, or being deleted.
HIDDEN = ".checkpoint-"
AGENT, STATE, REPLAY, PICKLED_REPLAY = "agent.zip", "state.json", "replay_buffer.npz", "replay_buffer.pkl"
# An agent's counters while it learns; everything else that is no parameter is in the run's settings.
COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "_current_progress_remaining")
# Errors from reading a truncated zip, JSON, pickle or NumPy file; SB3 asserts.
DAMAGED = (OSError, ValueError, KeyError, EOFError, RuntimeError, AssertionError, zipfile.BadZipFile, pickle.UnpicklingError)
ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class NotTrusted(ValueError):
    """Something would run code that the user has not trusted."""


class Checkpoints:
    """
    The checkpoints of one run; the last one is kept.

    :param folder: The run's folder
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replay = folder / "replay"

    def latest(self) -> Path | None:
        return max(self._folder.glob("checkpoint-*"), default=None)

    def save(self, model: BaseAlgorithm, **state: Any) -> None:
        """
        :param model: The agent, inside ``learn``
        :param state: Further state to restore: plain data
        """
        # SB3 calls back before it stores the step. That step, and an unfinished on-policy rollout, are not saved: they are
        # repeated, and must not count twice.
        unsaved = 1 + (model.rollout_buffer.pos if isinstance(model, OnPolicyAlgorithm) else 0)
        done = model.num_timesteps - unsaved * model.n_envs
        old, new = self.latest(), self._folder / f"checkpoint-{model.num_timesteps:012d}"
        if new == old:
            return  # resumed and saved again before anything was learned
        temporary = Path(tempfile.mkdtemp(dir=self._folder, prefix=HIDDEN))
        try:
            reached, model.num_timesteps = model.num_timesteps, done
            try:
                model.save(temporary / AGENT)
            finally:
                model.num_timesteps = reached
            normalization = model.get_vec_normalize_env()
            if normalization is not None:
                save_statistics(normalization, temporary / NORMALIZATION)
            if isinstance(model, OffPolicyAlgorithm):
                if _is_plain(model.replay_buffer):
                    self._save_replay(model, _rows(old, model), done // model.n_envs)
                else:
                    _save_whole(model, temporary)
            (temporary / STATE).write_text(json.dumps({**state, "num_timesteps": done}))
            for path in temporary.iterdir():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
            temporary.rename(new)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        # Files that only the old checkpoint needs are deleted once the new one exists.
        for path in self._folder.glob("checkpoint-*"):
            if path != new:
                # Renamed first: its number may be higher, and it is deleted file by file.
                hidden = Path(tempfile.mkdtemp(dir=self._folder, prefix=HIDDEN))
                path.rename(hidden / path.name)
                shutil.rmtree(hidden)
        if isinstance(model, OffPolicyAlgorithm) and _is_plain(model.replay_buffer):
            self._drop_overwritten(done // model.n_envs - model.replay_buffer.buffer_size)  # type: ignore[union-attr]

    def load(self, model: BaseAlgorithm, trust: bool = False) -> dict[str, Any] | None:
        """
        :param model: The agent as built at the start of a run, with its environments; it becomes the one that was saved
        :param trust: Whether a pickled replay buffer may be read, which can run any code
        :return: The state that was saved with it; None if nothing was
        """
        folder = self.latest()
        if folder is None:
            return None
        env = model.get_env()
        assert env is not None
        try:
            state = json.loads((folder / STATE).read_text())
            _restore(model, folder / AGENT)
            _load_normalization(env, folder)
            if isinstance(model, OffPolicyAlgorithm):
                if _is_plain(model.replay_buffer):
                    self._load_replay(model)
                else:
                    _load_whole(model, folder, trust)
        except NotTrusted:
            raise
        except DAMAGED as error:
            raise ValueError(
                f"The checkpoint {folder} is damaged ({error}). Restore it, or delete it to start this run over, "
                "and retry the study."
            ) from error
        return state

    def clear(self) -> None:
        for path in [*self._folder.glob("checkpoint-*"), *self._folder.glob(f"{HIDDEN}*"), self._replay]:
            if path.is_file():  # that of an offline run
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)

    def _save_replay(self, model: OffPolicyAlgorithm, saved: int, added: int) -> None:
        """
        :param saved: Rows that earlier checkpoints have
        :param added: Rows that were ever added to the buffer
        """
        buffer = model.replay_buffer
        assert buffer is not None
        for path in _chunks(self._replay):
            if int(path.stem) >= saved:  # left behind by a worker that was killed before its checkpoint was complete
                path.unlink()
        first = max(saved, added - buffer.buffer_size)
        if first < added:
            places = np.arange(first, added) % buffer.buffer_size
            with written_whole(self._replay / f"{first:012d}.npz") as path, path.open("wb") as file:
                np.savez(file, allow_pickle=False, **{name: array[places] for name, array in _arrays(buffer).items()})

    def _drop_overwritten(self, oldest: int) -> None:
        """
        :param oldest: The first row still in the buffer
        """
        for path, following in itertools.pairwise(_chunks(self._replay)):
            if int(following.stem) <= oldest:
                path.unlink()

    def _load_replay(self, model: OffPolicyAlgorithm) -> None:
        buffer = model.replay_buffer
        assert buffer is not None
        added = model.num_timesteps // model.n_envs
        arrays = _arrays(buffer)
        reached = max(0, added - buffer.buffer_size)
        for path in _chunks(self._replay):
            first = int(path.stem)
            if first >= added:
                break
            with path.open("rb") as file, np.load(file) as chunk:
                n_rows = min(len(chunk["rewards"]), added - first)
                if first > reached:
                    break
                places = np.arange(first, first + n_rows) % buffer.buffer_size
                for name, array in arrays.items():
                    array[places] = chunk[name][:n_rows]
            reached = first + n_rows
        if reached < added:
            raise ValueError(f"{self._replay} has the transitions up to {reached}, the agent has seen {added}")
        buffer.pos, buffer.full = added % buffer.buffer_size, added >= buffer.buffer_size


def _is_plain(buffer: ReplayBuffer | None) -> bool:
    return type(buffer) in (ReplayBuffer, DictReplayBuffer) and not buffer.optimize_memory_usage  # type: ignore[union-attr]


def _arrays(buffer: ReplayBuffer) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name in ARRAYS:
        array = getattr(buffer, name)
        arrays |= {f"{name}.{key}": part for key, part in array.items()} if isinstance(array, dict) else {name: array}
    return arrays


def _chunks(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.npz"))


def _rows(checkpoint: Path | None, model: OffPolicyAlgorithm) -> int:
    if checkpoint is None:
        return 0
    return json.loads((checkpoint / STATE).read_text())["num_timesteps"] // model.n_envs


def _restore(model: BaseAlgorithm, file: Path) -> None:
    """Restore an agent's parameters, optimizers and counters. What SB3 has pickled into the file is not read."""
    _, parameters, variables = load_from_zip_file(file, load_data=False, device=model.device)
    model.set_parameters(parameters, exact_match=True, device=model.device)
    for name, tensor in (variables or {}).items():
        if tensor is not None:
            operator.attrgetter(name)(model).data = tensor.data
    with zipfile.ZipFile(file) as archive:
        saved = json.loads(archive.read("data"))
    for name in COUNTERS:
        if hasattr(model, name):
            setattr(model, name, type(getattr(model, name))(saved[name]))
    if model.use_sde:
        model.policy.reset_noise()  # type: ignore[operator]


def _save_whole(model: OffPolicyAlgorithm, folder: Path) -> None:
    """A buffer that is not filled row by row."""
    buffer = model.replay_buffer
    if getattr(buffer, "copy_info_dict", False):  # the environment's objects
        model.save_replay_buffer(folder / PICKLED_REPLAY)
    else:
        with (folder / REPLAY).open("wb") as file:
            np.savez(file, allow_pickle=False, pos=buffer.pos, full=buffer.full, **_every_array(buffer))  # type: ignore[union-attr]


def _load_whole(model: OffPolicyAlgorithm, folder: Path, trust: bool) -> None:
    if (folder / PICKLED_REPLAY).exists():
        if not trust:
            raise NotTrusted(
                f"{folder / PICKLED_REPLAY} is a pickle, and reading one can run any code. If you trust it, because you have "
                "trained the run, continue with --trust; otherwise delete the checkpoint to start this run over."
            )
        model.load_replay_buffer(folder / PICKLED_REPLAY)
        return
    buffer = model.replay_buffer
    assert buffer is not None
    with (folder / REPLAY).open("rb") as file, np.load(file, allow_pickle=False) as saved:
        for name, array in _every_array(buffer).items():
            array[...] = saved[name]
        buffer.pos, buffer.full = int(saved["pos"]), bool(saved["full"])
    if isinstance(buffer, HerReplayBuffer):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last episode starts over, so it ends here
            buffer.truncate_last_trajectory()


def _every_array(buffer: Any) -> dict[str, np.ndarray]:
    parts = {
        f"{name}.{key}" if key else name: part
        for name, value in vars(buffer).items()
        for key, part in (value.items() if isinstance(value, dict) else [("", value)])
    }
    return {name: part for name, part in parts.items() if isinstance(part, np.ndarray) and part.dtype != object}


def _load_normalization(env: VecEnv, folder: Path) -> None:
    normalization = unwrap_vec_wrapper(env, VecNormalize)
    if normalization is not None:
        saved = load_statistics(find_statistics(folder) or folder / NORMALIZATION)
        if normalization.norm_obs:  # without it there are no statistics
            normalization.obs_rms = saved.obs_rms
        normalization.ret_rms = saved.ret_rms
