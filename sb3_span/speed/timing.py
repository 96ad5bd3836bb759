"""Fair timing on a noisy machine: contenders take turns in one process, and only ratios within a round count."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass
class Timing:
    """
    Seconds of one contender, one entry a round.

    :param name: The contender
    :param seconds: For each round the seconds of one call (or of one environment step)
    """

    name: str
    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def ratios(self, other: "Timing") -> list[float]:
        """This contender's time over the other's, round by round, sorted."""
        return sorted(mine / theirs for mine, theirs in zip(self.seconds, other.seconds, strict=True))

    def quartiles(self, other: "Timing") -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile of the ratios."""
        lower, middle, upper = statistics.quantiles(self.ratios(other), n=4, method="inclusive")
        return lower, middle, upper


def take_turns(
    contenders: Mapping[str, Callable[[], object]], rounds: int, calls: int = 1, units: int = 1
) -> dict[str, Timing]:
    """
    :param contenders: What to time, by name
    :param rounds: How often each one has its turn; every other round goes backwards through the list
    :param calls: Calls in a turn
    :param units: What a call's time is divided by: its environment steps, or 1
    :return: The timings by name
    """
    timings = {name: Timing(name, []) for name in contenders}
    for call in contenders.values():
        call()
    gc.collect()
    for round_ in range(rounds):
        names = list(contenders) if round_ % 2 == 0 else list(contenders)[::-1]
        for name in names:
            call = contenders[name]
            start = time.perf_counter()
            for _ in range(calls):
                call()
            timings[name].seconds.append((time.perf_counter() - start) / calls / units)
    return timings
