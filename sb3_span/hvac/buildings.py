"""The buildings: Sinergym's, with the paper's reward where there is one, under our own ids."""

from dataclasses import dataclass
from typing import Any

POWER = "HVAC_electricity_demand_rate"
OUTDOOR = "outdoor_temperature"
CLIMATES = ("mixed", "hot", "cool")


@dataclass(frozen=True)
class Building:
    """
    :param name: The part of the environments' ids: ``SPANDataCenter`` of ``SPANDataCenter-v0``
    :param sinergym_name: The same for Sinergym: ``datacenter_cw`` of ``Eplus-datacenter_cw-mixed-continuous-v1``
    :param zones: Observed temperatures that should be within the comfort range
    :param winter: The comfort range in degrees Celsius
    :param summer: The same from June to September
    :param lambda_energy: Weight of a watt in the reward
    :param fixed: The set points of the building's file, of its working hours where it has some
    """

    name: str
    sinergym_name: str
    zones: tuple[str, ...]
    winter: tuple[float, float]
    summer: tuple[float, float]
    lambda_energy: float
    fixed: tuple[float, float]

    @property
    def reward(self) -> dict[str, Any]:
        """Arguments of Sinergym's ``LinearReward``."""
        return {
            "temperature_variables": list(self.zones),
            "energy_variables": [POWER],
            "range_comfort_winter": self.winter,
            "range_comfort_summer": self.summer,
            "energy_weight": 0.5,
            "lambda_energy": self.lambda_energy,
            "lambda_temperature": 1.0,
        }

    def comfort(self, month: int) -> tuple[float, float]:
        """
        :param month: From 1 to 12
        :return: The lowest and the highest comfortable temperature
        """
        return self.summer if 6 <= month <= 9 else self.winter


# Half of Sinergym's weight on energy, and both zones instead of the western one: the paper's.
DATA_CENTER = Building(
    name="SPANDataCenter",
    sinergym_name="datacenter_cw",
    zones=("east_zone_air_temperature", "west_zone_air_temperature"),
    winter=(18.0, 27.0),
    summer=(18.0, 27.0),
    lambda_energy=5e-5,
    fixed=(23.0, 7.0),
)
# An office, with Sinergym's own reward.
FIVE_ZONE = Building(
    name="SPANFiveZone",
    sinergym_name="5zone",
    zones=("air_temperature",),
    winter=(20.0, 23.5),
    summer=(23.0, 26.0),
    lambda_energy=1e-4,
    fixed=(21.1, 23.9),
)


@dataclass(frozen=True)
class Site:
    """
    A building in a climate: an environment.

    :param stochastic: Whether every year has different weather, drawn around that of the file
    """

    building: Building
    climate: str = "mixed"
    stochastic: bool = False

    @property
    def env_id(self) -> str:
        climate = "" if self.climate == "mixed" else self.climate.title()
        return f"{self.building.name}{climate}{'Stochastic' if self.stochastic else ''}-v0"

    @property
    def sinergym_id(self) -> str:
        stochastic = "-stochastic" if self.stochastic else ""
        return f"Eplus-{self.building.sinergym_name}-{self.climate}-continuous{stochastic}-v1"


SITES = {
    site.env_id: site
    for site in (
        Site(building, climate, stochastic)
        for building in (DATA_CENTER, FIVE_ZONE)
        for stochastic in (False, True)
        for climate in CLIMATES
    )
}
DEFAULT = Site(DATA_CENTER).env_id


def find_site(env_id: str) -> Site:
    """
    :param env_id: One of our ids, or Sinergym's for the same building and climate
    """
    for site in SITES.values():
        if env_id in (site.env_id, site.sinergym_id):
            return site
    known = ", ".join(SITES)
    raise ValueError(f"There is no simulated building {env_id!r}; choose one of {known}, or Sinergym's id of one of them.")
