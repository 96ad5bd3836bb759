"""How a study's methods learn: tidy tables over environments, methods and points of training."""

from typing import Any

import numpy as np
import pandas as pd

from sb3_span.report.load import Run, Study
from sb3_span.scores.references import paper, thresholds
from sb3_span.scores.thresholds import sustained_at

BUDGET_PERCENTS = (10, 25, 50, 75, 95, 100)


def behind(study: Study, env: str, method: str, runs: list[Run]) -> dict[str, Any]:
    """The first columns of every table: what a row is about, and its numbers of seeds and steps."""
    return {
        "env": env,
        "method": method,
        "seeds": len(runs),
        "planned": study.planned[env, method],
        "steps": max(study.budgets(env, method), default=np.nan),
    }


def with_paper(frame: pd.DataFrame, table: str, on: list[str], columns: dict[str, str]) -> pd.DataFrame:
    """
    Add the paper's figures to ours.

    :param table: The name of the paper's table
    :param on: The columns that both have and that must agree
    :param columns: The paper's columns to add, and their names here
    """
    return frame.merge(paper(table)[[*on, *columns]].rename(columns=columns), how="left", on=on)


def overview(study: Study) -> pd.DataFrame:
    """Our runs and the paper's."""
    networks = paper("networks_online").melt("env", ["span_params", "mlp_params"], "method", "paper_parameters")
    networks["method"] = networks["method"].str.removesuffix("_params")
    rows = []
    for env in study.envs:
        for method in study.methods:
            runs = study.select(env, method)
            settings = runs[0].settings if runs else {}
            row = behind(study, env, method, study.finished(env, method))
            rows.append(
                {**row, "started": len(runs), "algo": settings.get("algo"), "parameters": settings.get("n_parameters")}
            )
    settings = {"train_steps": "paper_steps", "train_seeds": "paper_seeds"}
    return with_paper(pd.DataFrame(rows), "settings", ["env"], settings).merge(networks, how="left", on=["env", "method"])


def arrivals(study: Study) -> pd.DataFrame:
    """
    When each finished run reached each threshold, and its lowest evaluation from then on.

    Only finished runs: an unfinished one may still reach a threshold.

    :return: One row for each environment, method, seed and threshold; NaN where it was not reached
    """
    rows = []
    for env in study.envs:
        for percent, score in thresholds(env).items():
            for run in (run for method in study.methods for run in study.finished(env, method)):
                row = {"env": env, "method": run.method, "seed": run.seed, "threshold_pct": percent, "threshold": score}
                met = sustained_at(run.means.tolist(), score)
                if met is not None:
                    # An agent whose returns are not finite has lost everything.
                    lowest = np.where(np.isnan(run.means[met:]), -np.inf, run.means[met:]).min()
                    row |= {"step": run.steps[met], "minutes": run.seconds[met] / 60, "lowest": lowest}
                rows.append(row)
    columns = ["env", "method", "seed", "threshold_pct", "threshold", "step", "minutes", "lowest"]
    return pd.DataFrame(rows, columns=columns)


def by_threshold(study: Study, arrived: pd.DataFrame) -> pd.DataFrame:
    """
    Success rates, and medians over the seeds that succeeded.

    :param arrived: See :func:`arrivals`
    """
    rows = []
    for env in study.envs:
        for method in study.methods:
            runs = study.finished(env, method)
            for percent, score in thresholds(env).items():
                own = arrived[(arrived.env == env) & (arrived.method == method) & (arrived.threshold_pct == percent)]
                met = own.dropna(subset="step")
                rows.append(
                    {
                        **behind(study, env, method, runs),
                        "threshold_pct": percent,
                        "threshold": score,
                        "success_rate": len(met) / len(own) if len(own) else np.nan,
                        "median_steps": met["step"].median(),
                        "minutes": met["minutes"].median(),
                        "lowest_median": met["lowest"].median(),
                        "lowest_worst": met["lowest"].min(),
                    }
                )
    return pd.DataFrame(rows)


def sample_efficiency(thresholds_met: pd.DataFrame) -> pd.DataFrame:
    """
    Steps to threshold, with the paper's.

    :param thresholds_met: See :func:`by_threshold`
    """
    frame = thresholds_met.drop(columns=["minutes", "lowest_median", "lowest_worst"])
    paper_columns = {"success_rate": "paper_success_rate", "median_steps": "paper_median_steps"}
    return with_paper(frame, "sample_efficiency", ["env", "method", "threshold_pct"], paper_columns)


def after_arrival(thresholds_met: pd.DataFrame) -> pd.DataFrame:
    """
    Whether a threshold was kept: the lowest evaluation since it was reached.

    :param thresholds_met: See :func:`by_threshold`
    """
    return thresholds_met.drop(columns=["minutes", "median_steps"])


def anytime(study: Study) -> pd.DataFrame:
    """Returns at shares of the budget, of all runs that got that far: the first evaluation at or after each."""
    rows = []
    for env in study.envs:
        for method in study.methods:
            for percent in BUDGET_PERCENTS:
                got_there = [run for run in study.select(env, method) if run.steps[-1] >= percent * run.budget / 100]
                returns = [run.means[np.searchsorted(run.steps, percent * run.budget / 100)] for run in got_there]
                rows.append({**behind(study, env, method, got_there), "budget_pct": percent, **_mean_std(returns)})
    paper_columns = {"mean_return": "paper_mean_return", "std_return": "paper_std_return"}
    return with_paper(pd.DataFrame(rows), "anytime", ["env", "method", "budget_pct"], paper_columns)


def equal_time(study: Study) -> pd.DataFrame:
    """
    Returns along the training time of the quicker method, of finished runs.

    The time is the smallest of the methods' medians. A run that ended earlier keeps its last evaluation.

    :return: Rows for the environments where two methods have finished runs; the paper has no such table
    """
    rows = []
    for env in study.envs:
        finished = {method: runs for method in study.methods if (runs := study.finished(env, method))}
        if len(finished) < 2:
            continue
        seconds = min(np.median([run.final_seconds for run in runs]) for runs in finished.values())
        for method, runs in finished.items():
            for percent in BUDGET_PERCENTS:
                limit = percent * seconds / 100
                returns = [return_at(run, limit) for run in runs if run.seconds[0] <= limit]
                row = {**behind(study, env, method, runs), "seeds": len(returns), "time_pct": percent}
                rows.append({**row, "minutes": percent * seconds / 6000, **_mean_std(returns)})
    return pd.DataFrame(rows)


def return_at(run: Run, seconds: float) -> float:
    """The last evaluation within a number of seconds of training; NaN before the first."""
    i = np.searchsorted(run.seconds, seconds, side="right") - 1
    return float(run.means[i]) if i >= 0 else np.nan


def _mean_std(returns: list[Any]) -> dict[str, float]:
    return {
        "mean_return": float(np.mean(returns)) if returns else np.nan,
        "std_return": float(np.std(returns, ddof=1)) if len(returns) > 1 else np.nan,
    }
