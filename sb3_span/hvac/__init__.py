"""Simulated buildings, on EnergyPlus through Sinergym: the paper's data centre, other climates, an office."""

from sb3_span.hvac.energyplus import find_energyplus
from sb3_span.hvac.env import BuildingEnv, make_env, register
from sb3_span.hvac.simulation import SimulationError

__all__ = ["BuildingEnv", "SimulationError", "find_energyplus", "make_env"]

register()
