"""What comes with the package is found by its name, from any folder."""

import pytest

from sb3_span.cli import main
from sb3_span.shipped import AGENTS, HYPERPARAMS, STUDIES, find_study


def test_studies_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    smoke = STUDIES / "smoke.yml"
    assert find_study("smoke") == find_study("smoke.yml") == find_study("zoo_configs/smoke.yml") == smoke
    assert find_study("ablation/slope").is_file()
    (tmp_path / "smoke.yml").touch()
    assert str(find_study("smoke.yml")) == "smoke.yml"  # a path comes first
    with pytest.raises(ValueError, match=r"There is no study 'smok'. Name a file, or one of .*: evidence, .*smoke"):
        find_study("smok")


def test_folders_are_there():
    assert (HYPERPARAMS / "span.yml").is_file() and (AGENTS / "CartPole-v1.safetensors").is_file()


def test_a_study_without_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yml").write_text(
        "environments: {CartPole-v1: {algo: ppo, steps: 1024}}\n"
        "methods: {span: {hyperparams: {CartPole-v1: {policy: sb3_span.SPANActorCriticPolicy, n_steps: 512}}}}\n"
        "seeds: 1\nevaluation: {every: 1024, episodes: 2}\n"
    )
    main(["study", "run", "tiny.yml"])
    assert (tmp_path / "studies" / "tiny" / "runs" / "CartPole-v1__span__seed0" / "model.zip").is_file()
    assert "Records: studies/tiny. For tables and figures: sb3-span report studies/tiny" in capsys.readouterr().out
    main(["study", "status"])  # there is one study only
    assert "CartPole-v1" in capsys.readouterr().out
    (tmp_path / "studies" / "other").mkdir()
    (tmp_path / "studies" / "other" / "study.yml").touch()
    with pytest.raises(SystemExit, match=r"Which study\? studies has other, tiny. .*--folder studies/other"):
        main(["study", "status"])


def test_no_command_shows_the_commands(capsys):
    main([])
    assert "watch an agent at work" in capsys.readouterr().out


def test_help_has_defaults_and_the_version(capsys):
    with pytest.raises(SystemExit):
        main(["watch", "--help"])
    assert "(default: 20)" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("sb3_span 0.")
