"""What a measurement was made on, to be recorded with every number that depends on it."""

import contextlib
import os
import platform
from importlib import metadata
from pathlib import Path

from sb3_span.nn import kernel_info

PACKAGES = (
    "sb3_span",
    "stable_baselines3",
    "sb3_contrib",
    "rl_zoo3",
    "d3rlpy",
    "torch",
    "gymnasium",
    "gymnasium_robotics",
    "mujoco",
    "numpy",
)


def machine() -> dict[str, str | int | None]:
    """
    :return: The processor, its cores, the kernel that evaluates SPAN networks, and the instructions that it uses
    """
    info = kernel_info()
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "instructions": info.get("instructions", "-"),
        "kernel": info["kernel"],
    }


def versions() -> dict[str, str]:
    """
    :return: The versions of Python and of the packages that a result may depend on
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere what Python says
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
