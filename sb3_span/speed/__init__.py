"""How long SPAN takes, relative to the MLP that it replaces: ``sb3-span speed``."""

from sb3_span.speed.command import measure_speed

__all__ = ["measure_speed"]
