"""
Where EnergyPlus is, and whether it can simulate the buildings.

It is the full installation that ``EPLUS_PATH`` names, or otherwise the one that the extra ``hvac`` installs. That one lacks
the IDD file, EnergyPlus's dictionary, with which Sinergym reads the weather's design days. ``eppy`` has those of older
versions, in which design days look the same.
"""

import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gymnasium.error import DependencyNotInstalled

IDD = "Energy+.idd"
WHEEL = "pyenergyplus-lbnl"
INSTALL = "pip install 'sb3_span[hvac,zoo]'"
OLDEST_PYTHON = (3, 12)
# What the weather's design days are written with.
DICTIONARY = ("Version", "Site:Location", "SizingPeriod:DesignDay", "RunPeriodControl:DaylightSavingTime")


@dataclass(frozen=True)
class EnergyPlus:
    """
    :param folder: The folder with the package ``pyenergyplus``
    :param idd: EnergyPlus's dictionary
    :param version: Such as "25.1"
    """

    folder: Path
    idd: Path
    version: str

    def write_dictionary(self, folder: Path) -> None:
        """
        Write the IDD file that Sinergym looks for: only what design days need, because reading all of it takes seconds.

        :param folder: Folder for the file
        """
        lines, group, is_kept = [], "", True  # what comes before the first group belongs to the file
        for line in self.idd.read_text(errors="replace").splitlines():
            if line.startswith("\\group"):
                group, is_kept = line, False
            elif line[:1] not in ("", " ", "\t", "!", "\\"):  # the first line of an object; its fields are indented
                is_kept = line.split(",")[0].strip() in DICTIONARY
                lines += [group] if is_kept else []
            lines += [line] if is_kept else []
        (folder / IDD).write_text("\n".join(lines) + "\n")

    def check_fits(self, building: Path) -> None:
        """
        :param building: A building's epJSON file, which names the version that it was written for
        """
        (entry,) = json.loads(building.read_text())["Version"].values()
        wanted = entry["version_identifier"]
        if not f"{self.version}.".startswith(f"{wanted}."):
            raise DependencyNotInstalled(
                f"{building.name} is written for EnergyPlus {wanted}, and {self.folder} has version {self.version}: "
                f"set EPLUS_PATH to an installation of {wanted}, or unset it and install {WHEEL} {wanted} ({INSTALL})."
            )


def find_energyplus() -> EnergyPlus:
    """The EnergyPlus to simulate with; without one, or without Sinergym, an error that says what to install."""
    if sys.version_info < OLDEST_PYTHON:
        wanted, found = ".".join(map(str, OLDEST_PYTHON)), sys.version.split()[0]
        raise DependencyNotInstalled(
            f"Simulated buildings need Python {wanted} or newer, because Sinergym does, and this is {found}: "
            f"make an environment with a newer one and there {INSTALL}."
        )
    if not _has("sinergym"):
        raise DependencyNotInstalled(f"Simulated buildings need Sinergym, which is not installed: {INSTALL}.")
    if os.environ.get("EPLUS_PATH"):
        return _installed_in(Path(os.environ["EPLUS_PATH"]))
    spec = importlib.util.find_spec("pyenergyplus")
    if spec is None or spec.origin is None or not _has("eppy"):
        raise DependencyNotInstalled(
            f"Simulated buildings need EnergyPlus, which is not installed: {INSTALL}, or set EPLUS_PATH to an installation."
        )
    try:
        version = metadata.version(WHEEL)
    except metadata.PackageNotFoundError:
        raise DependencyNotInstalled(
            f"{spec.origin} is not of the package {WHEEL}: {INSTALL}, or set EPLUS_PATH to its EnergyPlus installation."
        ) from None
    return EnergyPlus(Path(spec.origin).parents[1], _idd_of_eppy(), version)


def _installed_in(folder: Path) -> EnergyPlus:
    for needed in (IDD, "pyenergyplus"):
        if not (folder / needed).exists():
            raise ValueError(
                f"EPLUS_PATH is {str(folder)!r}, which has no {needed}. Set it to the folder of a full EnergyPlus "
                "installation, or unset it to use the one that the extra 'hvac' installs."
            )
    with (folder / IDD).open(errors="replace") as file:
        version = file.readline().split()[-1]  # !IDD_Version 25.1.0
    return EnergyPlus(folder, folder / IDD, version)


def _idd_of_eppy() -> Path:
    spec = importlib.util.find_spec("eppy")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "resources" / "iddfiles" / "Energy+V9_2_0.idd"


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
