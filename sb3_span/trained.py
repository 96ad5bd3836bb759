"""
What training leaves on disk: where a model's environment and the statistics of its observations are.

Loading a ``vecnormalize.pkl`` unpickles, which can run any code: only for files that you trust.
"""

import json
import pickle
from pathlib import Path

from gymnasium import spaces
from stable_baselines3.common.vec_env import VecNormalize

MODEL, NORMALIZATION, STUDY_RUN = "model.zip", "vecnormalize.pkl", "run.json"


def load_vecnormalize(file: Path) -> VecNormalize:
    """
    :param file: What ``VecNormalize.save`` wrote
    """
    try:
        with file.open("rb") as stream:
            loaded = pickle.load(stream)
    except FileNotFoundError:
        raise ValueError(f"There is no {file}.") from None
    except Exception as error:
        raise ValueError(f"{file} is not what VecNormalize.save has written, or it is damaged: {error!r}.") from error
    if not isinstance(loaded, VecNormalize):
        raise ValueError(f"{file} holds a {type(loaded).__name__}; give the file that VecNormalize.save has written.")
    if isinstance(loaded.observation_space, spaces.Dict) and loaded.norm_obs and loaded.norm_obs_keys is None:
        loaded.norm_obs_keys = list(loaded.obs_rms)
    return loaded


def find_model(path: Path) -> Path:
    """
    :param path: A model's zip, or a folder of the Zoo or of a study's run
    :return: The zip
    """
    if not path.is_dir():
        return path
    if (path / MODEL).is_file():
        return path / MODEL
    # The Zoo numbers its folders: logs/sac/Hopper-v5_1 has Hopper-v5.zip, and perhaps best_model.zip and checkpoints.
    final = path / f"{path.name.rsplit('_', 1)[0]}.zip"
    if final.is_file():
        return final
    zips = sorted(path.glob("*.zip"))
    if len(zips) == 1:
        return zips[0]
    runs = sorted(run.parent.name for run in path.glob(f"runs/*/{STUDY_RUN}"))
    if runs:
        raise ValueError(f"{path} is a whole study; name one of its runs, for instance {path / 'runs' / runs[0]}.")
    found = f"several models ({', '.join(file.name for file in zips)})" if zips else "no model"
    raise ValueError(f"{path} has {found}. Name the zip that model.save has written, or the folder of one run.")


def find_vecnormalize(file: Path) -> Path | None:
    """
    :param file: A model's zip
    :return: VecNormalize's file: beside the model in a study's run, in a subfolder with the environment's name in the Zoo
    """
    env_id = find_env_id(file)
    places = [file.parent / env_id / NORMALIZATION] if env_id else []
    return next((place for place in [*places, file.parent / NORMALIZATION] if place.is_file()), None)


def find_env_id(file: Path) -> str | None:
    """
    :param file: A model's zip
    :return: Its environment, as the study's run or the Zoo's folder has it
    """
    settings = file.parent / STUDY_RUN
    if settings.is_file():
        try:
            run = json.loads(settings.read_text())
            # Gymnasium imports the package in front of the colon, which registers the environment.
            return ":".join([*run.get("gym_packages", [])[:1], str(run["env"])])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{settings} is not a run's settings ({error!r}).") from error
    # The Zoo keeps the settings in <folder>/<env>/config.yml.
    configs = sorted(file.parent.glob("*/config.yml"))
    return configs[0].parent.name if len(configs) == 1 else None
