"""The references do what their descriptions say, within what the building allows."""

import itertools

import pytest

from sb3_span.hvac.buildings import DATA_CENTER
from sb3_span.hvac.controllers import data_center_rule, load_controller, office_rule


def readings(outdoor, warmest):
    east, west = DATA_CENTER.zones
    return {"outdoor_temperature": outdoor, east: warmest, west: warmest - 1.0}


def test_data_center_rule():
    (mild, mild_water), (hot, hot_water) = (data_center_rule(readings(outdoor, 25.0)) for outdoor in (5.0, 32.0))
    assert mild < hot < 27.0  # warmer halls when cooling costs something
    assert mild_water > hot_water
    margins = [data_center_rule(readings(32.0, warmest))[0] for warmest in (26.0, 26.6, 27.0, 28.0)]
    assert margins[0] == hot and margins == sorted(margins, reverse=True)
    for outdoor, warmest in itertools.product((-15.0, 15.0, 40.0), (18.0, 27.5)):
        halls, water = data_center_rule(readings(outdoor, warmest))
        assert 20.0 <= halls <= 30.0 and 5.0 <= water <= 10.0


def test_office_rule():
    assert office_rule({"month": 1, "hour": 10}) == (20.0, 23.5)
    assert office_rule({"month": 7, "hour": 10}) == (23.0, 26.0)
    heating, cooling = office_rule({"month": 7, "hour": 2})
    assert heating < 23.0 and cooling > 26.0


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"has no model\. Name the zip"):
        load_controller(tmp_path)
    with pytest.raises(ValueError, match="There is no model"):
        load_controller(tmp_path / "model.zip")
