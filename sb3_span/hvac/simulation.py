"""
A simulated year, seen from the process that controls it.

EnergyPlus runs in a separate process for each year. So it can be ended at any moment and in any state, does not crash this
process, and leaves neither threads nor memory behind. Several can run at once, which
EnergyPlus's Python interface cannot do within one process.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from sb3_span.hvac.energyplus import EnergyPlus

YEAR = Path(__file__).with_name("year.py")
LOG = "process.log"
# A step takes a millisecond, and warming up to the first one a few seconds.
STALLED_SECONDS = 120.0
SHOWN_LINES = 20


class SimulationError(RuntimeError):
    """EnergyPlus has failed or stalled; the message quotes its ``.err`` file."""


class Simulation:
    """
    :param energyplus: The EnergyPlus to run
    :param arguments: Arguments of Sinergym's environment
    :param seed: Seed of the weather, where it is random
    :param folder: Folder to keep the working files in; None for a temporary one
    :param stalled_seconds: How long EnergyPlus's answer may take
    """

    def __init__(
        self,
        energyplus: EnergyPlus,
        arguments: dict[str, Any],
        seed: int,
        folder: Path | None = None,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self._stalled_seconds = stalled_seconds
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="sb3-span-hvac-", dir=folder))
        energyplus.write_dictionary(self.folder)
        ours, theirs = Pipe()
        with (self.folder / LOG).open("wb") as log, theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", str(YEAR), str(theirs.fileno())],
                cwd=self.folder,
                env=_environment(energyplus, self.folder),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # never written to: it closes whenever this process ends
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the process that controls it
            )
        self._pipe = ours
        # Even if it is not closed, at the latest when the interpreter ends.
        self._end = weakref.finalize(self, _end, process, ours, self.folder if folder is None else None)
        self._send((arguments, seed))
        self.first: tuple[np.ndarray, dict[str, Any]] = self._receive()

    def step(self, set_points: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """
        :param set_points: In the units of the building
        :return: The result of Sinergym's ``step``
        """
        self._send(set_points)
        return self._receive()

    def close(self) -> None:
        self._end()

    def _send(self, message: Any) -> None:
        # A process that has ended is noticed when its answer is missing.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._pipe.send(message)

    def _receive(self) -> Any:
        try:
            if not self._pipe.poll(self._stalled_seconds):
                raise self._error(f"gave no answer for {self._stalled_seconds:g} seconds")
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._error("has ended before the year has") from None
        except BaseException:
            self.close()  # a late answer would be mistaken for that of the next step
            raise

    def _error(self, what: str) -> SimulationError:
        # The first that is not empty: the file is until EnergyPlus closes it, the log has its messages immediately.
        files = [*self.folder.glob("**/eplusout.err"), self.folder / LOG]
        said = next(filter(None, map(_what_matters, files)), "nothing")
        self.close()
        return SimulationError(f"EnergyPlus {what}. It has said:\n{said}")


def _end(process: subprocess.Popen, pipe: Connection, folder: Path | None) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
    pipe.close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(energyplus: EnergyPlus, folder: Path) -> dict[str, str]:
    python_path = [str(energyplus.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "EPLUS_PATH": str(folder), "PYTHONPATH": os.pathsep.join(python_path)}


def _what_matters(file: Path) -> str:
    """From the first severe error on; without one, the last lines."""
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    severe = [i for i, line in enumerate(lines) if "** Severe" in line or "**  Fatal" in line]
    first = severe[0] if severe else max(0, len(lines) - SHOWN_LINES)
    return "\n".join(line.rstrip() for line in lines[first : first + SHOWN_LINES])
