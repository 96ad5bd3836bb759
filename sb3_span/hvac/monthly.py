"""A year in twelve months: how often it was too warm or too cold, and the power."""

import pandas as pd

from sb3_span.hvac.buildings import Building

WHOLE_YEAR = "year"


def monthly(year: pd.DataFrame, building: Building) -> pd.DataFrame:
    """
    Shares of steps outside the comfort range, and mean power.

    A step is outside when any of the zones is; ``mean_outside`` is about the mean of the zones.

    :param year: See :func:`sb3_span.hvac.years.simulate`
    :param building: Its building
    :return: A row for every month that the year has and one for all of them, named in ``month`` ("1" to "12", "year"):
        ``steps``, ``above``, ``below``, ``outside``, ``mean_outside`` (shares from 0 to 1), ``power`` (watts)
    """
    ranges = pd.DataFrame([building.comfort(month) for month in year["month"]], columns=["low", "high"], index=year.index)
    zones = year[list(building.zones)]
    mean = zones.mean(axis=1)
    steps = pd.DataFrame(
        {
            "above": zones.gt(ranges["high"], axis=0).any(axis=1),
            "below": zones.lt(ranges["low"], axis=0).any(axis=1),
            "mean_outside": (mean > ranges["high"]) | (mean < ranges["low"]),
            "power": year["power"],
        }
    )
    steps.insert(2, "outside", steps["above"] | steps["below"])
    groups = [(str(month), rows) for month, rows in steps.groupby(year["month"])]
    return pd.DataFrame(
        [{"month": name, "steps": len(rows), **rows.mean()} for name, rows in [*groups, (WHOLE_YEAR, steps)]],
    )


def savings(power: pd.Series, reference: pd.Series) -> pd.Series:
    """
    :param power: Mean power by month
    :param reference: That of the other method
    :return: The savings in per cent of the reference; negative where more is used
    """
    return 100.0 * (reference - power) / reference
