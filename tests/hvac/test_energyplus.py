"""Finding EnergyPlus: what is missing is said in one sentence, and nothing of it is needed before it is used."""

import json
import sys

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled

import sb3_span.hvac
from sb3_span.hvac import energyplus, find_energyplus, make_env
from sb3_span.hvac.buildings import SITES, find_site
from tests.hvac.sites import needs_energyplus


@pytest.fixture
def new_enough(monkeypatch):
    monkeypatch.setattr(energyplus, "OLDEST_PYTHON", (3, 11))
    monkeypatch.delenv("EPLUS_PATH", raising=False)


@pytest.fixture
def with_sinergym(new_enough, monkeypatch):
    monkeypatch.setattr(energyplus, "_has", lambda package: True)


def make_installation(folder, version="25.1.0"):
    (folder / "pyenergyplus").mkdir(parents=True)
    (folder / "Energy+.idd").write_text(f"!IDD_Version {version}\n!IDD_BUILD 1234\n")
    return folder


def make_building(folder, version="25.1"):
    path = folder / "building.epJSON"
    path.write_text(json.dumps({"Version": {"Version 1": {"version_identifier": version}}}))
    return path


def test_environments_are_registered_without_energyplus():
    assert {"SPANDataCenter-v0", "SPANDataCenterHotStochastic-v0", "SPANFiveZone-v0"} <= set(gym.registry)
    assert "sinergym" not in vars(sb3_span.hvac)


def test_older_python(monkeypatch):
    monkeypatch.setattr(energyplus, "OLDEST_PYTHON", (sys.version_info[0], sys.version_info[1] + 1))
    with pytest.raises(DependencyNotInstalled, match=r"need Python 3\.\d+ or newer, because Sinergym does, and this is 3"):
        make_env()


def test_missing_extra(new_enough, monkeypatch):
    monkeypatch.setattr(energyplus, "_has", lambda package: package != "sinergym")
    with pytest.raises(DependencyNotInstalled, match=r"Sinergym, which is not installed: pip install .*\[hvac,zoo\]"):
        find_energyplus()


def test_missing_energyplus(with_sinergym, monkeypatch):
    monkeypatch.setattr(energyplus.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled, match=r"EnergyPlus, which is not installed: pip .*, or set EPLUS_PATH"):
        find_energyplus()


def test_a_full_installation_wins(with_sinergym, monkeypatch, tmp_path):
    monkeypatch.setenv("EPLUS_PATH", str(make_installation(tmp_path)))
    found = find_energyplus()
    assert (found.folder, found.idd, found.version) == (tmp_path, tmp_path / "Energy+.idd", "25.1.0")
    found.check_fits(make_building(tmp_path))


def test_a_folder_that_is_no_installation(with_sinergym, monkeypatch, tmp_path):
    monkeypatch.setenv("EPLUS_PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"EPLUS_PATH is .*, which has no Energy\+.idd"):
        find_energyplus()


@pytest.mark.parametrize("version", ["24.2.0", "25.10.0"])
def test_a_version_that_does_not_fit(version, with_sinergym, monkeypatch, tmp_path):
    monkeypatch.setenv("EPLUS_PATH", str(make_installation(tmp_path, version)))
    with pytest.raises(DependencyNotInstalled, match=f"is written for EnergyPlus 25.1, .* has version {version}"):
        find_energyplus().check_fits(make_building(tmp_path))


@needs_energyplus
def test_the_extra_has_all_that_is_needed(monkeypatch):
    monkeypatch.delenv("EPLUS_PATH", raising=False)
    found = find_energyplus()
    assert (found.folder / "pyenergyplus" / "api.py").is_file()
    assert found.idd.is_file()


@needs_energyplus
def test_every_site_is_one_of_sinergym_s(monkeypatch):
    import sinergym

    assert {site.sinergym_id for site in SITES.values()} <= set(sinergym.ids())
    for site in SITES.values():
        assert make_env(site.sinergym_id).unwrapped.site is site
        expected = 8760 * (6 if "DataCenter" in site.env_id else 4)
        assert make_env(site.env_id).unwrapped.n_steps == expected


def test_unknown_site():
    with pytest.raises(ValueError, match=r"no simulated building 'Eplus-shop.*'; choose one of SPANDataCenter-v0"):
        find_site("Eplus-shop-hot-continuous-v1")


@needs_energyplus
@pytest.mark.parametrize("days", [{"first_day": "7/1"}, {"first_day": "02-30"}, {"first_day": "07-02", "last_day": "07-01"}])
def test_days_that_are_none(days):
    with pytest.raises(ValueError, match="first_day"):
        make_env(**days)
