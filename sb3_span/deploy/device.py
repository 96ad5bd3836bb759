"""The exported C on a small device: cross-compiled for a Cortex-M4F, and run on an emulated one."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sb3_span.deploy.compiled import FLAGS, C, definitions, run, run_harness, write_harness
from sb3_span.deploy.policy import DeterministicPolicy, Observation

GCC, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
CORTEX_M4F = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-Os")
# With -icount shift=0 every instruction takes one nanosecond of the emulated clock, so counts are exact and repeatable.
MACHINE = "-M mps2-an386 -nographic -monitor none -serial none -semihosting-config enable=on,target=native -icount shift=0"
INSTRUCTIONS_PER_TICK = 40  # of the emulated SysTick, 25 MHz


@dataclass(frozen=True)
class DeviceRun:
    """
    :param actions: Shape (B, *action_space.shape)
    :param flash: Bytes of code and constants, with everything linked to them
    :param ram: Bytes of static memory and of stack
    :param instructions: For one action, the mean over the observations
    """

    actions: np.ndarray
    flash: int
    ram: int
    instructions: float


def missing_tools() -> str | None:
    """
    :return: None when everything is installed, otherwise what to install
    """
    missing = [tool for tool in (GCC, "arm-none-eabi-size", EMULATOR) if not shutil.which(tool)]
    if not missing:
        return None
    return (
        f"{' and '.join(missing)} not found; on Debian: "
        "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
    )


def run_on_device(policy: DeterministicPolicy, files: dict[str, str], observation: Observation) -> DeviceRun:
    """
    :param policy: The policy that was exported
    :param files: ``policy.h`` and ``policy.c``
    :param observation: A batch; about a thousand, all of which must fit into 4 MB
    """
    if missing := missing_tools():
        raise ValueError(f"The emulated device needs tools that are not installed: {missing}.")
    with tempfile.TemporaryDirectory(prefix="sb3_span_") as name:
        folder = Path(name)
        write_harness(folder, files)
        shutil.copy(C / "cortex_m4.ld", folder)
        compiler = [GCC, *FLAGS, *CORTEX_M4F]
        program = ["policy.c", "harness.c", "-T", "cortex_m4.ld", "--specs=rdimon.specs", "-lm", "-o", "act.elf"]
        run([*compiler, *definitions(policy, rounds=1), *program], folder)
        output = run_harness([EMULATOR, *MACHINE.split(), "-kernel", "act.elf"], folder, policy, observation)
        # Once more without the harness: what a device has to store for the policy.
        alone = ["-ffunction-sections", "-fdata-sections", "-nostartfiles", "-Wl,--gc-sections,-e,policy_act"]
        run([*compiler, *alone, "policy.c", "-lm", "-o", "policy.elf"], folder)
        text, data, bss = map(int, run(["arm-none-eabi-size", "policy.elf"], folder).splitlines()[1].split()[:3])
    return DeviceRun(output.actions, text + data, data + bss + output.stack, output.ticks * INSTRUCTIONS_PER_TICK)
