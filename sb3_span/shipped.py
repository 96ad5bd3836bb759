"""
The files that come with the package: hyperparameters, studies, trained agents.

In a clone they are folders next to the package; a wheel contains copies, made when it is built (setup.py).
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
SHIPPED = _PACKAGE / "shipped_files" if (_PACKAGE / "shipped_files").is_dir() else _PACKAGE.parent

HYPERPARAMS = SHIPPED / "hyperparams"
STUDIES = SHIPPED / "zoo_configs"
AGENTS = SHIPPED / "examples" / "agents"


def find_hyperparams(name: str, folder: Path) -> Path:
    """
    :param name: A Zoo file, or the name of one that comes with the package: ``span``
    :param folder: The folder that its path is relative to
    :return: The file; if the package has none of this name, the path in the folder, whether it exists or not
    """
    candidates = (folder / name, HYPERPARAMS / name, HYPERPARAMS / f"{name}.yml")
    return next((path for path in candidates if path.is_file()), folder / name)


def find_study(name: str | Path) -> Path:
    """
    :param name: A study's file, or the name of one that comes with the package: ``smoke``, ``ablation/slope``
    :return: The file
    """
    given = Path(name)
    for path in (given, STUDIES / given, STUDIES / f"{given}.yml", SHIPPED / given):
        if path.is_file():
            return path
    names = ", ".join(sorted(str(path.relative_to(STUDIES).with_suffix("")) for path in STUDIES.glob("*.yml")))
    raise ValueError(
        f"There is no study {str(name)!r}. Name a file, or one of the package's studies: {names}, and those in {STUDIES}."
    )
