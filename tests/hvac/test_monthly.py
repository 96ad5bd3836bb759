"""Monthly statistics on a year that is made by hand."""

import pandas as pd
import pytest

from sb3_span.hvac.buildings import DATA_CENTER, FIVE_ZONE
from sb3_span.hvac.monthly import monthly, savings

EAST, WEST = DATA_CENTER.zones


def make_year(rows):
    """
    :param rows: Of each step: month, temperatures of both zones, power
    """
    year = pd.DataFrame(rows, columns=["month", EAST, WEST, "power"])
    return year.assign(day=1, hour=0, outdoor_temperature=0.0, reward=0.0)


def test_violations_and_power_by_month():
    months = monthly(
        make_year(
            [
                (1, 20, 20, 1000),
                (1, 28, 20, 3000),  # one zone above, the mean within
                (1, 17, 28, 2000),  # one above and one below: one step outside, the mean within
                (1, 27, 18, 2000),  # at the edges, which are within
                (7, 30, 26, 5000),  # the mean above as well
                (7, 17, 17.5, 7000),  # both below
            ]
        ),
        DATA_CENTER,
    ).set_index("month")
    assert list(months.index) == ["1", "7", "year"]
    assert list(months["steps"]) == [4, 2, 6]
    assert list(months["above"]) == [0.5, 0.5, 0.5]
    assert list(months["below"]) == pytest.approx([0.25, 0.5, 1 / 3])
    assert list(months["outside"]) == pytest.approx([0.5, 1, 2 / 3])
    assert list(months["mean_outside"]) == pytest.approx([0, 1, 1 / 3])
    assert list(months["power"]) == pytest.approx([2000, 6000, 20000 / 6])


def test_seasons():
    year = pd.DataFrame({"month": [5, 6, 9, 10], "air_temperature": [25.0, 25.0, 22.0, 22.0], "power": 0.0})
    months = monthly(year, FIVE_ZONE).set_index("month")
    assert list(months.loc[["5", "6", "9", "10"], "above"]) == [1, 0, 0, 0]
    assert list(months.loc[["5", "6", "9", "10"], "below"]) == [0, 0, 1, 0]


def test_savings_are_relative_to_the_other():
    saved = savings(pd.Series([90.0, 110.0]), pd.Series([100.0, 100.0]))
    assert list(saved) == pytest.approx([10.0, -10.0])
