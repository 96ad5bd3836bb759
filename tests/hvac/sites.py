"""What the tests of the simulated buildings have in common."""

import importlib.util
import os
from pathlib import Path

import pytest

needs_energyplus = pytest.mark.skipif(
    importlib.util.find_spec("sinergym") is None,
    reason="Sinergym and EnergyPlus are not installed here; make test-hvac runs these in an environment that has them",
)
# A year that is over in seconds.
ONE_DAY = {"first_day": "07-01", "last_day": "07-01"}
N_STEPS = 24 * 6


def simulations() -> list[int]:
    """The processes of EnergyPlus that this process has started and that are alive."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().split(b"\0")
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if int(parent) == os.getpid() and state != "Z" and any(part.endswith(b"hvac/year.py") for part in command):
            found.append(int(path.name))
    return found


def processes_with(environment: str, command: str) -> list[Path]:
    """The processes that have this in their environment and that in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if environment in (path / "environ").read_text() and command in (path / "cmdline").read_text():
                found.append(path)
        except (OSError, UnicodeDecodeError):  # it has just ended, or is somebody else's
            continue
    return found
