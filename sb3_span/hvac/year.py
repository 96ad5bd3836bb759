"""
One episode of Sinergym in a separate process: ``simulation.py`` starts this file as a script, nothing imports it.

It runs in its working folder, where Sinergym and EnergyPlus write their files. It reads the arguments of Sinergym's
environment and a seed from a pipe, answers with the first observation, and answers every action with the result of Sinergym's
``step``. It ends with the year, when EnergyPlus fails, or when the process that started it has ended.
"""

import logging
import os
import sys
import threading
from multiprocessing.connection import Connection
from queue import Empty, Queue
from typing import Any

LOGGERS = ("ENVIRONMENT", "MODEL", "SIMULATOR", "REWARD", "COMMON", "Printer")


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.modules["stable_baselines3"] = None  # type: ignore[assignment]  # Sinergym would import it, and torch, for nothing
    with Connection(int(sys.argv[1])) as pipe:
        arguments, seed = pipe.recv()
        env = _make_env(arguments)
        pipe.send(env.reset(seed=seed))
        truncated = False
        while not truncated:
            answer = env.step(pipe.recv())
            truncated = answer[3]
            pipe.send(answer)
    os._exit(0)  # EnergyPlus is done, and needs nothing at the interpreter's end


def _make_env(arguments: dict[str, Any]) -> Any:
    from sinergym.envs import EplusEnv

    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    env = EplusEnv(**arguments)
    simulator = env.energyplus_simulator
    simulator._progress_update = lambda percent: None  # a bar for every year
    env.obs_queue = simulator.obs_queue = _Patient(simulator)
    env.info_queue = simulator.info_queue = _Patient(simulator)

    # Sinergym waits for a simulation that has failed before its first step, and invents an observation for one that fails
    # soon after. The other side of the pipe handles the end of this process.
    run = simulator.api.runtime.run_energyplus

    def run_or_end(state: Any, arguments: list[str]) -> int:
        # Its .err file has these too, but not before it is closed: a crash would lose them.
        simulator.api.functional.callback_error(state, lambda level, message: _log(message))
        simulator.api.runtime.callback_message(state, _log)
        code = run(state, arguments)
        return code if code == 0 else os._exit(code)

    simulator.api.runtime.run_energyplus = run_or_end
    return env


def _log(message: bytes) -> None:
    print(message.decode(errors="replace"), flush=True)


class _Patient(Queue):
    """
    EnergyPlus's observations. Sinergym waits two seconds and treats any longer step as the end of the year; here the year ends
    when EnergyPlus has ended. How long is too long is up to the other side of the pipe.
    """

    def __init__(self, simulator: Any) -> None:
        super().__init__(maxsize=1)
        self._simulator = simulator

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        while not self._simulator.simulation_complete:
            try:
                return super().get(timeout=0.1)
            except Empty:
                pass
        return super().get(block=False)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # until the process at the other end has closed it, or has ended
    os._exit(1)


if __name__ == "__main__":
    main()
