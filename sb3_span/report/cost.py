"""What a method costs: steps per second, minutes to a threshold, and the expected cost of one run that succeeds."""

import math

import numpy as np
import pandas as pd

from sb3_span.report.load import Study
from sb3_span.report.measures import behind, with_paper
from sb3_span.scores.references import paper


def expected_cost(minutes: float, success_rate: float) -> float:
    """
    The minutes per success, including failed runs: infinite if nothing succeeds.

    :param minutes: Minutes to the threshold, median over the seeds that reached it
    :param success_rate: The share of seeds that reached it
    """
    return math.inf if success_rate == 0 else minutes / success_rate


def ratio(numerator: float, denominator: float) -> float:
    """Rounded to two digits, as in the paper; NaN where there is none: infinite over infinite, or over zero."""
    if denominator == 0 or math.isinf(denominator):
        return math.nan
    return round(numerator / denominator, 2)


def throughput(study: Study) -> pd.DataFrame:
    """
    Environment steps per second of training, and the hours of all runs, without and with evaluation.

    The median is over finished runs, if there are any: an off-policy run begins with random steps, which train nothing and
    are several times as fast.
    """
    rows = []
    for env in study.envs:
        rates: dict[str, float] = {}
        for method in study.methods:
            started = [run for run in study.select(env, method) if run.final_seconds > 0]
            runs = [run for run in started if run.finished] or started
            rates[method] = float(np.median([run.steps[-1] / run.final_seconds for run in runs])) if runs else np.nan
            row = {
                **behind(study, env, method, runs),
                "steps_per_second": rates[method],
                "hours": sum(run.final_seconds for run in started) / 3600,
                "hours_with_evaluation": sum(run.final_seconds + run.eval_seconds[-1] for run in started) / 3600,
            }
            # The paper's direction: how much slower the first method is.
            rows.append({**row, "sps_ratio": ratio(rates[method], rates[study.methods[0]])})
    return pd.DataFrame(rows).merge(_paper_throughput(), how="left", on=["env", "method"])


def costs(thresholds_met: pd.DataFrame) -> pd.DataFrame:
    """
    Minutes to threshold and expected cost, with the paper's.

    :param thresholds_met: See :func:`sb3_span.report.measures.by_threshold`
    """
    frame = thresholds_met.drop(columns=["median_steps", "lowest_median", "lowest_worst"])
    pairs = zip(frame["minutes"], frame["success_rate"], strict=True)
    frame["expected_cost"] = [expected_cost(minutes, success) for minutes, success in pairs]
    return frame.merge(_paper_costs(), how="left", on=["env", "method", "threshold_pct"])


def cost_ratios(study: Study, cost: pd.DataFrame) -> pd.DataFrame:
    """
    How much more often the first method succeeds than each other, and how much more the other costs.

    :param cost: See :func:`costs`
    """
    first = study.methods[0]
    key = ["env", "threshold_pct"]
    sides = ["seeds", "success_rate", "expected_cost"]
    frames = []
    for other in study.others:
        left, right = (cost[cost.method == method][[*key, "steps", *sides]] for method in (first, other))
        frame = left.merge(right, on=key, suffixes=("_first", "_other"))
        budgets = frame[["steps_first", "steps_other"]]
        frame = frame.drop(columns=budgets.columns)
        frame.insert(1, "first", first)
        frame.insert(2, "other", other)
        frame.insert(4, "steps", budgets.min(axis=1))
        frame.insert(5, "max_steps", budgets.max(axis=1))
        for name, above, below in [
            ("success_ratio", frame["success_rate_first"], frame["success_rate_other"]),
            ("cost_ratio", frame["expected_cost_other"], frame["expected_cost_first"]),
        ]:
            frame[name] = [ratio(a, b) for a, b in zip(above, below, strict=True)]
        columns = {"success_ratio": "paper_success_ratio", "cost_ratio": "paper_cost_ratio"}
        if (first, other) == ("span", "mlp"):
            frame = with_paper(frame, "cost_by_threshold", key, columns)
        else:
            frame = frame.assign(**dict.fromkeys(columns.values(), np.nan))
        frames.append(frame)
    return pd.concat(frames).sort_values(
        "env", key=lambda column: column.map(study.envs.index), kind="stable", ignore_index=True
    )


def _paper_throughput() -> pd.DataFrame:
    table = paper("compute")
    span = table[["env"]].assign(method="span", paper_steps_per_second=table["span_sps"], paper_sps_ratio=1.0)
    mlp = table[["env"]].assign(method="mlp", paper_steps_per_second=table["mlp_sps"], paper_sps_ratio=table["sps_ratio"])
    return pd.concat([span, mlp])


def _paper_costs() -> pd.DataFrame:
    table = paper("cost_by_threshold")
    frames = [
        table[["env", "threshold_pct"]].assign(
            method=method,
            paper_minutes=table[f"{method}_minutes"],
            paper_expected_cost=table[f"{method}_expected_cost"],
        )
        for method in ("span", "mlp")
    ]
    return pd.concat(frames)
