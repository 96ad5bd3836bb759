"""Tables of a study made by hand (see the fixture), against what can be counted on fingers."""

import math

import numpy as np
import pytest

from sb3_span.report import cost, measures, scores
from sb3_span.report.load import load_study
from tests.report.studies import rising, write_run


def pick(frame, **values):
    """The one row that has these values."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


@pytest.fixture(scope="module")
def study(study_folder):
    return load_study(study_folder)


@pytest.fixture(scope="module")
def met(study):
    return measures.by_threshold(study, measures.arrivals(study))


def test_sample_efficiency(met):
    frame = measures.sample_efficiency(met)
    span = pick(frame, env="CartPole-v1", method="span", threshold_pct=100)
    # Five evaluations in a row: seeds arrive at 25k, 30k, ..., 50k.
    assert (span.median_steps, span.success_rate, span.seeds, span.steps) == (37500, 1.0, 6, 50000)
    assert (span.paper_median_steps, span.paper_success_rate) == (201000, 0.95)
    mlp = pick(frame, env="CartPole-v1", method="mlp", threshold_pct=100)
    assert (mlp.median_steps, mlp.success_rate) == (35000, 0.5)
    # 25 % is 125, which the seeds at 130 meet from the start.
    mlp = pick(frame, env="CartPole-v1", method="mlp", threshold_pct=25)
    assert (mlp.threshold, mlp.median_steps, mlp.success_rate) == (125, 30000, 1.0)


def test_sample_efficiency_with_a_negative_expert_score(met):
    rows = met[(met.env == "Acrobot-v1") & (met.method == "mlp")]
    assert rows["threshold"].round(1).tolist() == [-400, -200, -133.3, -105.3, -100]
    assert rows["success_rate"].tolist() == [0] * 5
    assert rows["median_steps"].isna().all()
    span = pick(met, env="Acrobot-v1", method="span", threshold_pct=100)
    assert (span.success_rate, span.median_steps) == (1.0, 30000)


def test_collapse_after_arrival(met):
    mlp = pick(measures.after_arrival(met), env="CartPole-v1", method="mlp", threshold_pct=100)
    assert (mlp.lowest_median, mlp.lowest_worst) == (500, 100)
    span = pick(measures.after_arrival(met), env="CartPole-v1", method="span", threshold_pct=100)
    assert (span.lowest_median, span.lowest_worst) == (500, 500)


def test_a_run_that_stopped_having_returns_has_kept_nothing(tmp_path):
    for seed in range(3):
        record = [500.0] * 5 + [math.nan if seed == 0 else 490.0]
        write_run(tmp_path, "CartPole-v1", "span", seed, record)
    study = load_study(tmp_path)
    row = pick(
        measures.after_arrival(measures.by_threshold(study, measures.arrivals(study))), method="span", threshold_pct=100
    )
    assert (row.lowest_median, row.lowest_worst) == (490, -math.inf)


def test_anytime(study):
    frame = measures.anytime(study)
    early = pick(frame, env="CartPole-v1", method="span", budget_pct=10)
    assert early.mean_return == pytest.approx(100)  # one of six at 500, the others at 20
    assert early.std_return == pytest.approx(np.std([500, 20, 20, 20, 20, 20], ddof=1))
    assert (early.paper_mean_return, early.paper_std_return) == (247, 141)
    assert pick(frame, env="CartPole-v1", method="span", budget_pct=50).mean_return == pytest.approx((5 * 500 + 20) / 6)
    assert pick(frame, env="CartPole-v1", method="span", budget_pct=100).mean_return == 500


def test_equal_time(study):
    """SPAN's steps take twice as long here: when the MLP is done, SPAN is half way."""
    frame = measures.equal_time(study)
    span = pick(frame, env="CartPole-v1", method="span", time_pct=100)
    assert span.minutes == pytest.approx(500 / 60)
    assert span.mean_return == pytest.approx((5 * 500 + 20) / 6)
    mlp = pick(frame, env="CartPole-v1", method="mlp", time_pct=100)
    assert mlp.mean_return == pytest.approx(np.mean([500, 500, 100, 130, 130, 130]))


def test_equal_time_keeps_runs_whose_returns_are_no_numbers(tmp_path):
    """As the returns at shares of the budget do: without them a method would look better the more of its runs diverge."""
    for seed in range(3):
        record = [100.0, math.nan if seed == 0 else 400.0]
        write_run(tmp_path, "CartPole-v1", "span", seed, record)
        write_run(tmp_path, "CartPole-v1", "mlp", seed, [20.0, 30.0])
    frame = measures.equal_time(load_study(tmp_path))
    end = pick(frame, method="span", time_pct=100)
    assert end.seeds == 3 and math.isnan(end.mean_return)
    half = pick(frame, method="span", time_pct=50)
    assert (half.seeds, half.mean_return) == (3, 100)
    assert pick(frame, method="span", time_pct=10).seeds == 0  # no evaluation yet


def test_throughput(study):
    frame = cost.throughput(study)
    span = pick(frame, env="CartPole-v1", method="span")
    mlp = pick(frame, env="CartPole-v1", method="mlp")
    assert (span.steps_per_second, mlp.steps_per_second) == (pytest.approx(50), pytest.approx(100))
    assert (mlp.sps_ratio, mlp.paper_sps_ratio) == (2.0, 1.41)
    assert (span.hours, mlp.hours) == (pytest.approx(6000 / 3600), pytest.approx(3000 / 3600))  # six runs of each
    assert span.hours_with_evaluation == pytest.approx((6000 + 6 * 10) / 3600)  # ten evaluations of a second


def test_hours_with_evaluation_only_where_all_are_known(folder):
    write_run(folder, "CartPole-v1", "span", 6, [20], eval_seconds=math.nan)
    frame = cost.throughput(load_study(folder))
    span = pick(frame, env="CartPole-v1", method="span")
    assert span.hours > 0 and math.isnan(span.hours_with_evaluation)
    assert pick(frame, env="CartPole-v1", method="mlp").hours_with_evaluation > 0


def test_throughput_is_that_of_finished_runs(folder):
    """Runs under way may be at their first steps, which train nothing; while none is finished there is nothing else."""
    for seed in range(6, 14):
        write_run(folder, "CartPole-v1", "span", seed, [20], steps=50000, seconds_per_step=0.001)
    write_run(folder, "LunarLander-v3", "span", 0, [20], steps=50000, seconds_per_step=0.001)
    frame = cost.throughput(load_study(folder))
    span = pick(frame, env="CartPole-v1", method="span")
    assert (span.steps_per_second, span.seeds) == (pytest.approx(50), 6)
    assert span.hours == pytest.approx((6000 + 8 * 5) / 3600)
    assert pick(frame, env="LunarLander-v3", method="span").steps_per_second == pytest.approx(1000)


def test_costs(study, met):
    frame = cost.costs(met)
    span = pick(frame, env="CartPole-v1", method="span", threshold_pct=100)
    mlp = pick(frame, env="CartPole-v1", method="mlp", threshold_pct=100)
    assert (span.minutes, span.expected_cost) == (pytest.approx(37500 * 0.02 / 60), pytest.approx(12.5))
    assert (mlp.minutes, mlp.expected_cost) == (pytest.approx(35000 * 0.01 / 60), pytest.approx(35 / 6 / 0.5))
    assert (span.paper_expected_cost, mlp.paper_expected_cost) == (14.4, 19.3)
    ratios = cost.cost_ratios(study, frame)
    row = pick(ratios, env="CartPole-v1", threshold_pct=100)
    assert (row.success_ratio, row.cost_ratio) == (2.0, 0.93)  # 11.67 / 12.5
    assert (row.paper_success_ratio, row.paper_cost_ratio) == (1.27, 1.34)
    never = pick(ratios, env="Acrobot-v1", threshold_pct=100)
    assert never.cost_ratio == math.inf and math.isnan(never.success_ratio)


def test_final_returns(study):
    frame = scores.final_returns(study)
    acrobot = pick(frame, env="Acrobot-v1")
    assert (acrobot.first_mean, acrobot.other_mean) == (-92.5, -452.5)
    assert (acrobot.first_seeds, acrobot.other_seeds, acrobot.verdict) == (6, 6, "better")
    assert acrobot.paper_t == 2.322


def test_methods_with_different_budgets_are_not_compared(tmp_path):
    """As from hyperparameter files with an n_timesteps each. The steps are those of both."""
    for seed in range(5):
        write_run(tmp_path, "CartPole-v1", "span", seed, [500] * 20)
        write_run(tmp_path, "CartPole-v1", "mlp", seed, [20 + seed] * 10)
        for method, score in (("span", -100), ("mlp", -400)):
            write_run(tmp_path, "Acrobot-v1", method, seed, [score + seed] * 10)
    study = load_study(tmp_path)
    tables = [scores.final_returns(study).rename(columns={"other": "method"}), scores.iqm(study), scores.areas(study)]
    for frame in tables:
        assert pick(frame, env="CartPole-v1", method="mlp").verdict == "different budgets"
        assert pick(frame, env="Acrobot-v1", method="mlp").verdict == "better"
    assert pick(tables[1], env="aggregate", method="mlp").verdict == "different budgets"
    ratios = cost.cost_ratios(study, cost.costs(measures.by_threshold(study, measures.arrivals(study))))
    for frame in (tables[0], ratios[ratios.threshold_pct == 100]):
        row = pick(frame, env="CartPole-v1")
        assert (row.steps, row.max_steps) == (50000, 100000)


def test_interquartile_means(study):
    frame = scores.iqm(study)
    assert pick(frame, env="CartPole-v1", method="span").iqm == 1.0
    # The middle four of six: 100 and one 500 are cut off.
    mlp = pick(frame, env="CartPole-v1", method="mlp")
    assert mlp.iqm == pytest.approx((np.mean([130, 130, 130, 500]) - 22.197) / (500 - 22.197))
    total = pick(frame, env="aggregate", method="span")
    assert (total.seeds, total.environments, total.paper_iqm) == (6, 2, 1.014)


def test_areas_under_the_learning_curve(study, folder):
    frame = scores.areas(study)
    # SPAN's seed s is at 20, which is below random, in s of ten evaluations.
    span, mlp = (pick(frame, env="CartPole-v1", method=method) for method in ("span", "mlp"))
    assert (span.score, span["std"]) == (pytest.approx(0.75), pytest.approx(np.std([1, 0.9, 0.8, 0.7, 0.6, 0.5], ddof=1)))
    assert (mlp.verdict, span.verdict, mlp.seeds) == ("inside the noise", "", 6)
    acrobot = pick(frame, env="Acrobot-v1", method="mlp")
    assert acrobot.verdict == "better" and acrobot.p < 1e-6
    total = pick(frame, env="aggregate", method="span")
    assert total.score == pytest.approx((0.75 + pick(frame, env="Acrobot-v1", method="span").score) / 2)
    # A method that the first cannot be compared with yet is shown all the same.
    write_run(folder, "LunarLander-v3", "mlp", 0, [200.0] * 10)
    alone = pick(scores.areas(load_study(folder)), env="LunarLander-v3")
    assert (alone.method, alone.verdict) == ("mlp", "") and math.isnan(alone.p)


def test_unfinished_runs_count_only_where_they_got(folder):
    write_run(folder, "CartPole-v1", "span", 6, [20, 20, 20, 20, 20, 20], steps=50000)
    study = load_study(folder)
    frame = measures.anytime(study)
    assert pick(frame, env="CartPole-v1", method="span", budget_pct=50).seeds == 7
    assert pick(frame, env="CartPole-v1", method="span", budget_pct=75).seeds == 6
    met = measures.by_threshold(study, measures.arrivals(study))
    assert pick(met, env="CartPole-v1", method="span", threshold_pct=100).success_rate == 1.0
    assert pick(scores.final_returns(study), env="CartPole-v1").first_seeds == 6


def test_the_aggregate_weighs_environments_equally(folder):
    for seed in range(6, 9):
        write_run(folder, "CartPole-v1", "span", seed, [500] * 10)
    frame = scores.iqm(load_study(folder))
    assert pick(frame, env="CartPole-v1", method="span").seeds == 9
    assert pick(frame, env="aggregate", method="span").seeds == 6


def test_aggregates_wait_for_an_environment_until_all_methods_are_there(folder):
    for seed in range(5):
        write_run(folder, "InvertedPendulum-v5", "span", seed, [1000] * 10)
    study = load_study(folder)
    assert scores.scored_environments(study) == ["Acrobot-v1", "CartPole-v1"]


def test_an_environment_with_few_seeds_does_not_bring_the_others_down_to_them(folder):
    for method in ("span", "mlp"):
        write_run(folder, "InvertedPendulum-v5", method, 0, [1000] * 10)
    frame = scores.iqm(load_study(folder))
    assert pick(frame, env="InvertedPendulum-v5", method="span").seeds == 1
    total = pick(frame, env="aggregate", method="span")
    assert (total.seeds, total.environments) == (6, 2)


def test_further_methods_are_compared_with_the_first(folder):
    for seed in range(4):
        write_run(folder, "CartPole-v1", "mlp-large", seed, [490] * 10)
    frame = scores.final_returns(load_study(folder))
    assert frame.loc[frame.env == "CartPole-v1", "other"].tolist() == ["mlp", "mlp-large"]
    assert pick(frame, env="CartPole-v1", other="mlp-large").verdict == "too few seeds"
    missing = pick(frame, env="Acrobot-v1", other="mlp-large")
    assert (missing.other_seeds, missing.verdict) == (0, "too few seeds")
    # Aggregates are over the environments in which every method has a finished run: here only one, so there is none.
    assert "aggregate" not in set(scores.iqm(load_study(folder))["env"])


def test_ablations_vary_one_option_around_the_base(tmp_path):
    base = {"span_arch.nmodes": 3, "span_arch.nelems": 2}
    for seed in range(5):
        write_run(tmp_path, "CartPole-v1", "span", seed, [400 + seed], base=base)
        write_run(tmp_path, "CartPole-v1", "span", seed, [100 + seed], base=base, cell={"span_arch.nmodes": 1})
        write_run(tmp_path, "CartPole-v1", "span", seed, [500], base=base, cell={"span_arch.nmodes": 11}, n_parameters=300)
        write_run(tmp_path, "CartPole-v1", "span", seed, [300], base=base, cell={"span_arch.nelems": 4})
        both = {"span_arch.nmodes": 1, "span_arch.nelems": 4}
        write_run(tmp_path, "CartPole-v1", "span", seed, rising(0, 50, 1, 0), base=base, cell=both)
    frame = scores.ablations(load_study(tmp_path))
    nmodes = frame[frame.option == "nmodes"]
    assert nmodes["value"].tolist() == ["1", "3", "11"]  # as numbers, the base among them
    assert nmodes["base"].tolist() == [False, True, False]
    assert nmodes["median"].tolist() == [102, 402, 500]
    assert nmodes["seeds"].tolist() == [5, 5, 5]
    assert nmodes["paper_saw"].unique().tolist() == ["flat at 500"]
    assert frame.loc[frame.option == "nelems", "value"].tolist() == ["2", "4"]
    assert pick(frame, option="nmodes + nelems").value == "1, 4"
    # The tables of methods have the base setting only.
    assert pick(measures.anytime(load_study(tmp_path)), method="span", budget_pct=100).mean_return == 402
