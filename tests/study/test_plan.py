"""From a study's file to its runs."""

import csv
import re
from pathlib import Path

import pytest
import yaml

from sb3_span.study.plan import read_plan

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "zoo_configs"
STUDY = {
    "environments": {"CartPole-v1": {"algo": "ppo", "steps": 1000}},
    "methods": {name: {"hyperparams": str(ROOT / "hyperparams" / f"{name}.yml")} for name in ("span", "mlp")},
    "seeds": 2,
}
SPAN_ONLY = {**STUDY, "methods": {"span": STUDY["methods"]["span"]}, "seeds": 1}


def test_the_examples_of_the_documentation(tmp_path):
    """Studies that a reader copies can be read, without a clone too."""
    study, search = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "studies.md").read_text(), flags=re.DOTALL)
    path = tmp_path / "study.yml"
    path.write_text(study)
    assert {run.env for run in read_plan(path).runs} == {"CartPole-v1", "Hopper-v5"}
    entries = yaml.safe_load(study)
    del entries["grid"], entries["design"], entries["methods"]["mlp-large"]
    path.write_text(yaml.safe_dump({**entries, **yaml.safe_load(search)}))
    assert set(read_plan(path).search) == {"span", "mlp"}


@pytest.fixture
def read(tmp_path):
    def read_study(study):
        path = tmp_path / "study.yml"
        path.write_text(yaml.safe_dump(study, sort_keys=False))
        return read_plan(path)

    return read_study


def test_runs_of_a_study(read):
    plan = read(STUDY)
    assert plan.name == "study"
    assert [run.key for run in plan.runs] == [
        "CartPole-v1__span__seed0",
        "CartPole-v1__mlp__seed0",
        "CartPole-v1__span__seed1",
        "CartPole-v1__mlp__seed1",
    ]
    run = plan.runs[0]
    assert (run.algo, run.steps, run.eval_freq, run.n_eval_episodes) == ("ppo", 1000, 5000, 30)
    assert run.hyperparams["policy"] == "sb3_span.SPANActorCriticPolicy"
    assert run.hyperparams["n_timesteps"] == 1000
    assert len({run.digest for run in plan.runs}) == 4


def test_hyperparameters_of_the_package_by_name(read, tmp_path):
    """As without a clone; a file beside the study comes first."""
    named = {**STUDY, "methods": {"span": {"hyperparams": "span"}, "mlp": {"hyperparams": "mlp.yml"}}}
    assert read(named).runs == read(STUDY).runs
    (tmp_path / "mlp.yml").write_text("CartPole-v1: {policy: MlpPolicy, gamma: 0.5}")
    assert [run.hyperparams.get("gamma") for run in read(named).runs if run.method == "mlp"] == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"No such file.*one of the package's: .*span-tuned"):
        read({**STUDY, "methods": {"span": {"hyperparams": "spam"}}})


def test_the_budget_of_the_hyperparameter_file_is_the_default(read):
    plan = read({**STUDY, "environments": {"LunarLander-v3": {"algo": "ppo"}}})
    assert {run.steps for run in plan.runs} == {1_000_000}


def test_the_budget_may_be_written_as_in_the_zoo(read):
    method = {"hyperparams": {"CartPole-v1": {"policy": "MlpPolicy", "n_timesteps": 1e5}}}
    plan = read({**SPAN_ONLY, "methods": {"mlp": method}, "environments": {"CartPole-v1": {"algo": "ppo"}}})
    assert plan.runs[0].steps == 100_000


def test_seeds_of_one_environment(read):
    environments = {"CartPole-v1": {"algo": "ppo"}, "Acrobot-v1": {"algo": "ppo", "seeds": [7]}}
    plan = read({**SPAN_ONLY, "environments": environments, "seeds": 3})
    assert [(run.env, run.seed) for run in plan.runs] == [*(("CartPole-v1", seed) for seed in range(3)), ("Acrobot-v1", 7)]


def test_overrides_of_methods_and_environments(read):
    method = {**STUDY["methods"]["span"], "overrides": {"learning_rate": 0.01, "span_arch.nmodes": 5}}
    environment = {"algo": "ppo", "overrides": {"n_epochs": 7}}
    plan = read({**SPAN_ONLY, "methods": {"fast": method}, "environments": {"CartPole-v1": environment}})
    hyperparams = plan.runs[0].hyperparams
    assert hyperparams["learning_rate"] == 0.01 and hyperparams["n_epochs"] == 7
    assert hyperparams["policy_kwargs"]["span_arch"] == {"basis": "bspline", "nmodes": 5, "nelems": 2, "degree": 1}


def test_one_factor_at_a_time(read):
    plan = read({**SPAN_ONLY, "grid": {"span_arch.nmodes": [1, 3], "span_arch.degree": [1, 2, 3]}})
    # The base setting, 1 mode of degree 1, is in both grids and run once.
    assert [run.cell for run in plan.runs] == [
        {},
        {"span_arch.nmodes": 3},
        {"span_arch.degree": 2},
        {"span_arch.degree": 3},
    ]
    assert plan.runs[1].key == "CartPole-v1__span__nmodes=3__seed0"
    assert plan.runs[1].base == {"span_arch.nmodes": 1, "span_arch.degree": 1}
    arch = plan.runs[1].hyperparams["policy_kwargs"]["span_arch"]
    assert (arch["nmodes"], arch["degree"]) == (3, 1)


def test_options_with_the_same_last_word(read):
    arch = {"pi": {"nmodes": 2}, "vf": {"nmodes": 2}}
    methods = {"span": {**SPAN_ONLY["methods"]["span"], "overrides": {"policy_kwargs.span_arch": arch}}}
    plan = read(
        {**SPAN_ONLY, "methods": methods, "grid": {"span_arch.pi.nmodes": [3], "span_arch.vf.nmodes": [3], "n_epochs": [9]}}
    )
    names = ["", "pi.nmodes=3__", "vf.nmodes=3__", "n_epochs=9__"]
    assert [run.key for run in plan.runs] == [f"CartPole-v1__span__{name}seed0" for name in names]


def test_full_grid(read):
    plan = read({**SPAN_ONLY, "grid": {"span_arch.nmodes": [1, 3], "learning_rate": [0.001, 0.01]}, "design": "full"})
    settings = {
        (run.hyperparams["policy_kwargs"]["span_arch"]["nmodes"], run.hyperparams["learning_rate"]) for run in plan.runs
    }
    assert settings == {(1, 0.001), (1, 0.01), (3, 0.001), (3, 0.01)}


def test_the_resolved_study_stands_alone(read, tmp_path):
    environments = {"CartPole-v1": {"algo": "ppo", "steps": 1000, "overrides": {"n_epochs": 7}}}
    plan = read({**STUDY, "environments": environments})
    alone = tmp_path / "elsewhere" / "other.yml"
    alone.parent.mkdir()
    alone.write_text(yaml.safe_dump(plan.resolved, sort_keys=False))
    again = read_plan(alone)
    assert again.name == plan.name and again.runs == plan.runs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 3}, "unknown key 'seed'"),
        ({"seeds": "many"}, "seeds is 'many'"),
        ({"seeds": 0}, "seeds is 0"),
        ({"environments": {"CartPole-v7": {"algo": "ppo"}}}, "has no entry for 'CartPole-v7'"),
        ({"environments": {"CartPole-v1": {"algo": "dreamer"}}}, "algo is 'dreamer'; allowed are"),
        ({"environments": {"CartPole-v1": {}}}, "lacks the key 'algo'"),
        (
            {"environments": {"CartPole-v1": {"algo": "ppo", "stpes": 3}}},
            "CartPole-v1 has an unknown key 'stpes'",
        ),
        ({"environments": {"CartPole-v1": {"algo": "ppo", "steps": -3}}}, "environments.CartPole-v1.steps is -3"),
        ({"environments": {"Pendulum-v1": {"algo": "ppo"}}}, "has no entry for 'Pendulum-v1'; it has .*CartPole-v1"),
        ({"methods": {"span": {"hyperparams": "gone.yml"}}}, "gone.yml.*No such file"),
        ({"methods": {"span": {"hyperparameters": "a"}}}, "unknown key 'hyperparameters'"),
        ({"evaluation": {"every": 0}}, "evaluation.every is 0"),
        ({"grid": {"span_arch.nmodes": [1, 3]}}, "method 'mlp' for CartPole-v1 have no 'span_arch' to vary"),
        ({"grid": {"span_arch.nmodes": 3}}, "a list of values is needed"),
        ({"design": "latin"}, "design is 'latin'"),
        ({"name": None}, "name is None; a word is needed"),
        ({"environments": {}}, "environments is empty"),
        ({"methods": {}}, "methods is empty"),
        ({"methods": {64: {}}}, "methods has the key 64; a word is needed. Put it in quotes"),
        ({"grid": {3: [1]}}, "grid has the key 3; a word is needed"),
        ({"seeds": [0, False]}, r"seeds is \[0, False\]"),
        ({"gym_packages": [5]}, r"gym_packages is \[5\]"),
        ({"grid": {"n_epochs": [1]}, "search": {"span": {"n_epochs": [1, 2]}}}, "remove 'grid' or 'search'"),
        ({"search": {"sapn": {"n_epochs": [1, 2]}}}, r"search has an unknown key 'sapn'; allowed are \['mlp', 'span'\]"),
        ({"search": {"span": {"n_epochs": 3}}}, "search.span.n_epochs is 3; a list of choices is needed, or a range"),
        ({"search": {"span": {"gamma": {"low": 1, "high": 0}}}}, "search.span.gamma goes from 1 to 0; two numbers"),
        ({"search": {"span": {"gamma": {"low": 0, "high": 1, "log": True}}}}, "it must begin above 0"),
        ({"search": {"span": {"gamma": {"low": 0, "high": 1, "step": 3}}}}, "a list of choices is needed, or a range"),
        ({"environments": {"CartPole-v1": {"algo": "ppo", "steps": None}}}, "steps is None; a whole number"),
        ({"environments": {"CartPole-v1": "ppo"}}, "environments.CartPole-v1 is 'ppo'; a mapping is needed"),
        ({"environments": ["CartPole-v1"]}, r"environments is \['CartPole-v1'\]; a mapping is needed"),
        ({"methods": {"span": {"hyperparams": 3}}}, "methods.span.hyperparams is 3; the name of a file is needed"),
        ({"keep_models": "no"}, "keep_models is 'no'; allowed are true and false"),
        ({5: 3}, "the study has the key 5; a word is needed. Put it in quotes"),
        ({"methods": {"s" * 300: STUDY["methods"]["span"]}}, "has a name of 320 bytes, and its folder can have 255"),
        ({"gym_packages": None}, "gym_packages is None"),
        ({"environments": {"CartPole-v1": {"algo": "ars"}}}, "algo is 'ars'"),
        ({"seeds": [0, 1, 0]}, "2 runs have the name 'CartPole-v1__span__seed0'"),
        ({"methods": {"span": {"hyperparams": {"CartPole-v1": None}}}}, "CartPole-v1 is None; a mapping is needed"),
        ({"methods": {"span": {"hyperparams": {}}}}, "has no entry for 'CartPole-v1'"),
    ],
)
def test_mistakes_name_file_and_key(read, change, message):
    with pytest.raises(ValueError, match=message) as error:
        read({**STUDY, **change})
    assert "study.yml" in str(error.value)


def test_a_file_that_is_missing_or_not_yaml(tmp_path, read):
    with pytest.raises(ValueError, match=r"gone.yml: No such file"):
        read_plan(tmp_path / "gone.yml")
    (tmp_path / "bad.yml").write_text("a: [1, 2")
    with pytest.raises(ValueError, match="is not YAML"):
        read_plan(tmp_path / "bad.yml")
    with pytest.raises(ValueError, match=r"methods.span.hyperparams .*bad.yml.* is not YAML"):
        read({**STUDY, "methods": {"span": {"hyperparams": str(tmp_path / "bad.yml")}}})


def bomb(levels, first, line):
    return "\n".join([first, *(line.format(n=n, last=n - 1) for n in range(1, levels))])


@pytest.mark.parametrize(
    "text",
    [
        bomb(9, "l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1]", "l{n}: &l{n} [" + ", ".join(["*l{last}"] * 9) + "]"),
        bomb(9, "l0: &l0 {a: 1, b: 2}", "l{n}: &l{n} {{<<: [" + ", ".join(["*l{last}"] * 9) + "]}}"),
        "a: &a [*a]",
        "a: " + "[" * 5000 + "]" * 5000,
    ],
    ids=["aliases", "merged", "itself", "deep"],
)
def test_files_that_unfold_without_end(tmp_path, read, text):
    """In a study's file and in one that it names: refused before they are unfolded."""
    path = tmp_path / "bomb.yml"
    path.write_text(text)
    message = r"bomb.yml\)? .*(aliases .* written out it has|nested too deeply)"
    with pytest.raises(ValueError, match=message):
        read_plan(path)
    with pytest.raises(ValueError, match=message):
        read({**STUDY, "methods": {"span": {"hyperparams": str(path)}}})


def test_aliases_that_are_of_use(tmp_path):
    text = yaml.safe_dump({**SPAN_ONLY, "methods": {}}, sort_keys=False).replace("methods: {}", "")
    text += "methods:\n  a: {hyperparams: {CartPole-v1: &base {policy: MlpPolicy, gamma: 0.9}}}\n"
    text += "  b: {hyperparams: {CartPole-v1: {<<: *base, gamma: 0.8}}}\n"
    (tmp_path / "study.yml").write_text(text)
    runs = read_plan(tmp_path / "study.yml").runs
    assert [(run.hyperparams["policy"], run.hyperparams["gamma"]) for run in runs] == [("MlpPolicy", 0.9), ("MlpPolicy", 0.8)]


def test_a_study_may_grow_but_not_change(read, tmp_path):
    old = read(STUDY)
    read({**STUDY, "seeds": 5}).check_extends(old, tmp_path)
    with pytest.raises(ValueError, match=r"CartPole-v1__span__seed1'.*no longer has"):
        read({**STUDY, "seeds": 1}).check_extends(old, tmp_path)
    faster = {**STUDY["methods"], "mlp": {**STUDY["methods"]["mlp"], "overrides": {"learning_rate": 0.1}}}
    with pytest.raises(ValueError, match=r"hyperparams.learning_rate of the run 'CartPole-v1__mlp__seed0' is 0.1.*0.0003"):
        read({**STUDY, "methods": faster}).check_extends(old, tmp_path)


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yml")), ids=lambda path: str(path.relative_to(CONFIGS)))
def test_shipped_studies_can_be_read(path):
    assert read_plan(path).runs


def test_the_papers_study():
    plan = read_plan(CONFIGS / "paper.yml")
    assert len(plan.runs) == 7 * 2 * 20
    budgets = {run.env: run.steps for run in plan.runs}
    assert budgets.pop("CartPole-v1") == budgets.pop("Acrobot-v1") == 500_000
    assert set(budgets.values()) == {1_000_000}


def test_the_papers_ablations():
    grids = ROOT / "sb3_span/scores/data/paper/ablation_grids.csv"
    expected = {}
    with grids.open() as file:
        for row in csv.DictReader(file):
            values = [int(value) for value in row["values"].split()]
            expected.setdefault(row["env"], {})[f"span_arch.{row['parameter']}"] = values
    assert len(expected) == 7
    for env, grid in expected.items():
        plan = read_plan(CONFIGS / "ablation" / f"{env}.yml")
        assert plan.resolved["grid"] == grid
        assert {run.env for run in plan.runs} == {env} and {run.seed for run in plan.runs} == set(range(5))


def test_a_study_of_data_sets(read):
    """Runs are named by data set; hyperparameters are those of its environment."""
    plan = read_plan(CONFIGS / "offline.yml")
    assert len(plan.runs) == 12 * 2 * 5
    run = plan.runs[1]
    assert (run.env, run.algo, run.method, run.steps, run.n_eval_episodes) == (
        "D4RL/door/expert-v2",
        "iql",
        "mlp",
        20_000,
        100,
    )
    assert run.key == "D4RL-door-expert-v2__mlp__seed0"
    assert run.hyperparams["policy_kwargs"]["net_arch"] == {"pi": [36, 36], "qf": [64, 64], "vf": [45, 45]}
    assert read(plan.resolved).runs == plan.runs  # the study's own copy of it stands alone


def test_an_offline_algorithm_needs_a_data_set(read):
    environments = {"CartPole": {"algo": "iql"}}
    with pytest.raises(ValueError, match="CartPole: iql learns from a data set of Minari, such as D4RL/door/expert-v2"):
        read({**STUDY, "environments": environments})
