"""Files that are written completely or not at all, and never over others unasked."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def default_output(path: Path) -> Path:
    """
    :param path: Where a command writes if the user names no other place
    :return: The path, if nothing is there: only what the user names is replaced
    """
    if path.exists():
        raise ValueError(f"There is a {path} already. Name another output, or this one to replace it: --output {path}")
    return path


def write_text(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(text)


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """
    A file that is written completely or, whatever happens, not at all.

    :param path: The file to write
    :return: A temporary file to write to, which replaces it at the end
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        temporary.chmod(0o644)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
