"""An exported policy in a loop with a simulation: on this machine, or on an emulated Cortex-M4."""

import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.c_header import action_type, observation_type, size
from sb3_span.deploy.compiled import DTYPES, FLAGS, C, definitions, find_compiler, run
from sb3_span.deploy.device import CORTEX_M4F, EMULATOR, GCC, INSTRUCTIONS_PER_TICK, MACHINE, missing_tools
from sb3_span.deploy.policy import DeterministicPolicy


class PolicyInTheLoop:
    """
    A policy's C code, running inside the ``with``: one observation to one action, as a controller gets them.

    ``instructions`` has what each action took on the device; it is empty on this machine.

    :param policy: The policy; it is exported, compiled and started
    :param on_device: Whether it runs on an emulated Cortex-M4F instead of this machine
    """

    def __init__(self, policy: DeterministicPolicy, on_device: bool = False) -> None:
        if on_device and (missing := missing_tools()):
            raise ValueError(f"The emulated device needs tools that are not installed: {missing}.")
        self._policy, self._on_device = policy, on_device
        self._observation = DTYPES[observation_type(policy.observation_space)]
        action = DTYPES[action_type(policy.action_space)]
        self._answer = np.dtype([("action", action, (size(policy.action_space),)), ("status", np.int32), ("ticks", np.int32)])
        self.instructions: list[int] = []

    def __enter__(self) -> "PolicyInTheLoop":
        self._temporary = tempfile.TemporaryDirectory(prefix="sb3_span_")
        folder = Path(self._temporary.name)
        try:
            command = self._compile(folder)
            for name in ("observations", "actions"):
                os.mkfifo(folder / name)
            # Open for both directions: opening waits for nobody, should the program not start.
            pipes = [os.open(folder / name, os.O_RDWR) for name in ("observations", "actions")]
            self._to, self._from = pipes
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        except BaseException:
            self._temporary.cleanup()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
        os.close(self._to)
        os.close(self._from)
        self._temporary.cleanup()

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """
        :param observation: One, in the environment's units
        :return: Its action
        """
        data = np.ascontiguousarray(observation, self._observation)
        assert data.size == size(self._policy.observation_space)
        os.write(self._to, data.tobytes())
        answer = np.frombuffer(self._read(), self._answer)[0]
        if answer["status"] != 0:
            raise ValueError(f"policy_act returned {answer['status']} for the observation {observation}: it is not a number.")
        if self._on_device:
            self.instructions.append(int(answer["ticks"]) * INSTRUCTIONS_PER_TICK)
        return answer["action"].reshape(self._policy.action_space.shape)

    def _read(self) -> bytes:
        data = b""
        while len(data) < self._answer.itemsize:
            ready, _, _ = select.select([self._from], [], [], 1.0)
            if ready:
                data += os.read(self._from, self._answer.itemsize - len(data))
            elif self._process.poll() is not None:
                assert self._process.stderr is not None
                problem = self._process.stderr.read().decode()
                raise ValueError(f"The controller ended with status {self._process.returncode}: {problem}")
        return data

    def _compile(self, folder: Path) -> list[str]:
        """
        :return: The command that runs the controller
        """
        for name, text in write_c(self._policy, "").items():
            (folder / name).write_text(text)
        shutil.copy(C / "loop.c", folder)
        # _POSIX_C_SOURCE: open, read and write are not of C99.
        options = [*FLAGS, "-D_POSIX_C_SOURCE=200809L", *definitions(self._policy, rounds=0), "policy.c", "loop.c"]
        if not self._on_device:
            run([*find_compiler(), *options, "-O2", "-o", "loop", "-lm"], folder)
            return [str(folder / "loop")]
        shutil.copy(C / "cortex_m4.ld", folder)
        device = [*CORTEX_M4F, "-T", "cortex_m4.ld", "--specs=rdimon.specs", "-lm", "-o", "loop.elf"]
        run([GCC, *options, *device], folder)
        return [EMULATOR, *MACHINE.split(), "-kernel", "loop.elf"]
