"""A model's zip, from whatever a user names: the file, the folder of a run, an agent that comes with the package."""

from pathlib import Path

from sb3_span.saved.names import MODEL, STUDY_RUN
from sb3_span.saved.shared_file import ENDING
from sb3_span.shipped import AGENTS

ENDINGS = (".zip", ENDING)


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
    final = path / f"{path.resolve().name.rsplit('_', 1)[0]}.zip"
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


def find_agent(name: str) -> Path:
    """
    :param name: A file, the folder of a study's run or of the RL Zoo, or the short name of an agent that comes with the
        package, such as ``cartpole``
    :return: The file
    """
    path = Path(name)
    files = [file for ending in ENDINGS for file in sorted(AGENTS.glob(f"*{ending}"))]
    agents = {file.stem.rpartition("-v")[0].lower(): file for file in files}
    try:
        if path.exists():
            return find_model(path)
        for ending in ENDINGS:  # SB3 adds it too
            if (whole := path.with_name(f"{path.name}{ending}")).is_file():
                return whole
    except ValueError:
        if name.lower() not in agents:  # a folder of that name, such as one with exported code, does not hide the agent
            raise
    if name.lower() in agents:
        return agents[name.lower()]
    raise ValueError(
        f"{name!r} is neither a file nor the name of an agent: choose one of {list(agents)}, or name a file that model.save "
        "wrote."
    )


def label_of(name: str, file: Path) -> str:
    """
    The name for files that are made from a model.

    :param name: The name that the user gave
    :param file: The model's zip that was found
    :return: The name of the model, or of its run's folder
    """
    return Path(name).resolve().name if Path(name).is_dir() else file.stem
