"""The exported C on this machine: compiled, run, timed."""

import os
import shlex
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sb3_span.deploy.c_header import action_type, observation_type, size
from sb3_span.deploy.policy import DeterministicPolicy, Observation

C = Path(__file__).parent / "c"
# -std=c99 also keeps gcc from fusing multiplications and additions (clang has a pragma): the same bits on every processor.
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic")
DTYPES = {"float": np.float32, "int32_t": np.int32}


@dataclass(frozen=True)
class Output:
    """
    :param actions: Shape (B, *action_space.shape)
    :param ticks: Clock ticks for one action, the median of all rounds; 0 without timing
    :param stack: Bytes of stack; 0 if not measured
    """

    actions: np.ndarray
    ticks: float
    stack: int


class CompiledPolicy:
    """
    An exported policy, compiled for this machine inside the ``with``: observations to actions.

    :param policy: The policy that was exported
    :param files: ``policy.h`` and ``policy.c``
    :param rounds: How often to time all actions; 0 for never
    """

    def __init__(self, policy: DeterministicPolicy, files: dict[str, str], rounds: int = 0) -> None:
        self._policy = policy
        self._files = files
        self._compiler = [*find_compiler(), *FLAGS, "-O2", *definitions(policy, rounds)]

    def __enter__(self) -> "CompiledPolicy":
        self._folder = tempfile.TemporaryDirectory(prefix="sb3_span_")
        folder = Path(self._folder.name)
        write_harness(folder, self._files)
        run([*self._compiler, "policy.c", "harness.c", "-o", "act", "-lm"], folder)
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def __call__(self, observation: Observation) -> np.ndarray:
        return self.act(observation).actions

    def act(self, observation: Observation) -> Output:
        folder = Path(self._folder.name)
        return run_harness([str(folder / "act")], folder, self._policy, observation)


def write_harness(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
    shutil.copy(C / "harness.c", folder)


def definitions(policy: DeterministicPolicy, rounds: int) -> list[str]:
    """The macros that ``harness.c`` needs."""
    observation, action = observation_type(policy.observation_space), action_type(policy.action_space)
    return [f"-DOBSERVATION={observation}", f"-DACTION={action}", f"-DROUNDS={rounds}"]


def run_harness(command: list[str], folder: Path, policy: DeterministicPolicy, observation: Observation) -> Output:
    """
    :param command: Runs the compiled harness
    :param folder: Where it reads observations and writes actions
    :param policy: The policy in it
    :param observation: A batch
    """
    observations = np.asarray(observation).astype(DTYPES[observation_type(policy.observation_space)])
    assert observations.size == len(observations) * size(policy.observation_space)
    observations.tofile(folder / "observations")
    lines = run(command, folder).splitlines()
    assert int(lines[0]) == len(observations)
    actions = np.fromfile(folder / "actions", DTYPES[action_type(policy.action_space)])
    ticks = [int(ticks) / len(observations) for ticks in lines[1].split()] or [0]
    return Output(actions.reshape(-1, *policy.action_space.shape), statistics.median(ticks), int(lines[2]))  # type: ignore[misc]


def run(command: list[str], folder: Path) -> str:
    """
    :return: The command's output
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(command)} failed with status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def find_compiler() -> list[str]:
    """The compiler named in CC, as usual; otherwise gcc or clang."""
    if named := shlex.split(os.environ.get("CC", "")):
        if not shutil.which(named[0]):
            raise ValueError(f"The environment variable CC is {shlex.join(named)!r}, and {named[0]!r} was not found.")
        return named
    for name in ("gcc", "clang", "cc"):
        if shutil.which(name):
            return [name]
    raise ValueError(
        "No C compiler was found, and without one the exported C cannot be checked against predict. Install gcc or clang, "
        "or set the environment variable CC."
    )
