"""Final scores of a study's methods, compared: returns, normalised scores, and the cells of ablation grids."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from sb3_span.report.load import Run, Study
from sb3_span.report.statistics import MIN_SEEDS, SIGNIFICANCE, TAUS, compare, iqm_interval, performance_profile, verdict
from sb3_span.scores.references import area_under_curve, domains, expert_scores, normalise, paper
from sb3_span.study.paths import short_names

AGGREGATE = "aggregate"


def final_returns(study: Study) -> pd.DataFrame:
    """Welch's t and Cohen's d of the first method against each other, on the returns of finished runs."""
    first = study.methods[0]
    rows = []
    for env in study.envs:
        for other in study.others:
            ours, theirs = study.finals(env, first), study.finals(env, other)
            test = compare(ours, theirs)
            row: dict[str, Any] = {"env": env, "first": first, "other": other}
            for side, returns in (("first", ours), ("other", theirs)):
                row[f"{side}_seeds"] = len(returns)
                row[f"{side}_mean"] = returns.mean() if len(returns) else np.nan
                row[f"{side}_std"] = returns.std(ddof=1) if len(returns) > 1 else np.nan
            budgets = study.budgets(env, first, other)
            row |= {"steps": min(budgets, default=np.nan), "max_steps": max(budgets, default=np.nan)}
            row |= {"t": test.t, "p": test.p, "cohen_d": test.d}
            difference = row["first_mean"] - row["other_mean"]
            row["verdict"] = _verdict(study, [env], other, len(ours), len(theirs), difference, test.p < SIGNIFICANCE)
            rows.append(row)
    columns = {"span_mean": "first_mean", "span_std": "first_std", "mlp_mean": "other_mean", "mlp_std": "other_std"}
    table = paper("significance").rename(columns=columns).set_index("env").add_prefix("paper_").reset_index()
    return pd.DataFrame(rows, columns=None if rows else ["env", "first", "other"]).merge(
        table.assign(first="span", other="mlp"), how="left", on=["env", "first", "other"]
    )


def normalised(study: Study, envs: list[str], method: str) -> np.ndarray:
    """
    Final scores as a matrix for the stratified bootstrap, in which every environment counts the same.

    :return: Normalised scores of as many seeds as every environment has finished, shape (seeds, environments)
    """
    scores = [normalise(env, study.finals(env, method)) for env in envs]
    n = min(map(len, scores), default=0)
    return np.stack([column[:n] for column in scores], axis=1) if n else np.empty((0, len(envs)))


def scored_environments(study: Study) -> list[str]:
    """
    The environments of aggregates: with an expert score, and finished runs of every method that has any at all. An environment
    with too few seeds for a comparison would reduce the others to as many: it is left out where others have enough.
    """
    methods = [method for method in study.methods if any(study.finished(env, method) for env in study.envs)]
    seeds = {env: min((len(study.finished(env, method)) for method in methods), default=0) for env in study.envs}
    scored = [env for env in study.envs if env in expert_scores() and seeds[env]]
    enough = [env for env in scored if seeds[env] >= MIN_SEEDS]
    return enough if len(enough) > 1 else scored


def iqm(study: Study) -> pd.DataFrame:
    """The interquartile mean of normalised final scores, per environment and over all of them."""
    groups = {env: [env] for env in study.envs if env in expert_scores()}
    together = scored_environments(study)
    if len(together) > 1:
        groups[AGGREGATE] = together
    names = ("iqm", "low", "high")
    rows = [row | dict(zip(names, iqm_interval(scores), strict=True)) for row, scores in _by_method(study, groups)]
    columns = ["env", "method", "seeds", "environments", "steps", "max_steps", "iqm", "low", "high"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["verdict"] = [_iqm_verdict(study, groups[row.env], frame, row) for row in frame.itertuples()]
    return frame.merge(_paper_iqm(), how="left", on=["env", "method"])


def areas(study: Study) -> pd.DataFrame:
    """
    The normalised area under the learning curve of each finished run, in the environments with an expert score. The first
    method is compared with each other by Welch's t. The aggregate is the mean over environments; it is not tested.
    """
    rows: list[dict[str, Any]] = []
    for env in (env for env in study.envs if env in expert_scores()):
        first = np.empty(0)
        for method in study.methods:
            own = np.array([area_under_curve(env, run.means) for run in study.finished(env, method)])
            if len(own):
                row = _scored(study, env, [env], method, len(own)) | {"score": own.mean()}
                row["std"] = own.std(ddof=1) if len(own) > 1 else np.nan
                if method == study.methods[0]:
                    first = own
                elif len(first):
                    row["p"] = compare(first, own).p
                    difference, certain = first.mean() - own.mean(), row["p"] < SIGNIFICANCE
                    row["verdict"] = _verdict(study, [env], method, len(first), len(own), difference, certain)
                rows.append(row)
    together = scored_environments(study)
    for method in study.methods if len(together) > 1 else []:
        own_rows = [row for row in rows if row["method"] == method and row["env"] in together]
        if own_rows:
            row = _scored(study, AGGREGATE, together, method, min(row["seeds"] for row in own_rows))
            rows.append(row | {"score": np.mean([row["score"] for row in own_rows])})
    columns = ["env", "method", "seeds", "environments", "steps", "max_steps", "score", "std", "p", "verdict"]
    return pd.DataFrame(rows, columns=columns).fillna({"verdict": ""})


def profiles(study: Study) -> pd.DataFrame:
    """The share of runs at or above a normalised score, per environment and per domain, of finished runs."""
    groups = {env: [env] for env in study.envs if env in expert_scores()}
    together = scored_environments(study)
    for domain, envs in domains().items():
        members = [env for env in together if env in envs]
        if len(members) > 1:
            groups[domain] = members
    frames = []
    for row, scores in _by_method(study, groups):
        share, low, high = performance_profile(scores)
        frames.append(pd.DataFrame({**row, "tau": TAUS, "share": share, "low": low, "high": high}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["env", "method"])


def _by_method(study: Study, groups: dict[str, list[str]]) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """The normalised scores of every method in every group of environments, where it has any, and their sources."""
    for group, envs in groups.items():
        for method in study.methods:
            scores = normalised(study, envs, method)
            if len(scores):
                yield _scored(study, group, envs, method, len(scores)), scores


def _scored(study: Study, group: str, envs: list[str], method: str, n_seeds: int) -> dict[str, Any]:
    budgets = {run.budget for env in envs for run in study.finished(env, method)}
    row = {"env": group, "method": method, "seeds": n_seeds, "environments": len(envs)}
    return {**row, "steps": min(budgets), "max_steps": max(budgets)}


def ablations(study: Study) -> pd.DataFrame:
    """
    Final returns in the cells of a grid, one row per option and value; the base setting is a value of every option.

    :return: The columns ``returns`` (a list) and quartiles, of finished runs. For cells that differ in several options at
        once, the options are joined by a plus
    """
    cells: dict[tuple[str, str, str, str, bool], list[Run]] = defaultdict(list)
    for run in study.runs:
        if run.finished:
            for option, value, is_base in _options(run):
                cells[run.env, run.method, option, value, is_base].append(run)
    saw = paper("ablation_grids").rename(columns={"parameter": "option", "what_the_paper_saw": "paper_saw"})
    rows: list[dict[str, Any]] = []
    for (env, method, option, value, is_base), runs in cells.items():
        returns = [run.final for run in runs]
        row = {"env": env, "method": method, "option": option, "value": value, "base": is_base, "seeds": len(runs)}
        row |= {"steps": max(run.budget for run in runs), "parameters": runs[0].settings.get("n_parameters")}
        quartiles = np.percentile(returns, [0, 25, 50, 75, 100])
        row |= dict(zip(("min", "quartile_1", "median", "quartile_3", "max"), quartiles, strict=True))
        rows.append(row | {"returns": returns})
    options = list(dict.fromkeys(row["option"] for row in rows))
    rows.sort(
        key=lambda row: (
            study.envs.index(row["env"]),
            study.methods.index(row["method"]),
            options.index(row["option"]),
            _by_number(row["value"]),
        )
    )
    frame = pd.DataFrame(rows, columns=None if rows else ["env", "method", "option", "value"])
    return frame.merge(saw[["env", "option", "paper_saw"]], how="left", on=["env", "option"])


def _options(run: Run) -> Iterator[tuple[str, str, bool]]:
    """The options whose effect a run shows: those of its cell, or all of the grid's in the base setting."""
    names = short_names([*run.base, *run.cell])
    if run.cell:
        yield " + ".join(names[option] for option in run.cell), ", ".join(map(str, run.cell.values())), False
    else:
        for option, value in run.base.items():
            yield names[option], str(value), True


def _by_number(value: str) -> tuple[int, float, str]:
    """Numbers in order, then other values."""
    try:
        return 0, float(value), ""
    except ValueError:
        return 1, 0.0, value


def _verdict(study: Study, envs: list[str], other: str, *findings: Any) -> str:
    """
    The verdict on the first method against another: none if they were trained for different numbers of steps.

    :param findings: See :func:`sb3_span.report.statistics.verdict`
    """
    if any(len(study.budgets(env, study.methods[0], other)) > 1 for env in envs):
        return "different budgets"
    return verdict(*findings)


def _iqm_verdict(study: Study, envs: list[str], frame: pd.DataFrame, row: Any) -> str:
    first = study.methods[0]
    ours = frame[(frame.env == row.env) & (frame.method == first)]
    if row.method == first or ours.empty:
        return ""
    mine = ours.iloc[0]
    apart = mine.low > row.high or mine.high < row.low
    return _verdict(study, envs, row.method, mine.seeds, row.seeds, mine.iqm - row.iqm, apart)


def _paper_iqm() -> pd.DataFrame:
    table = paper("iqm")
    frames = []
    for method in ("span", "mlp"):
        columns = {f"{method}_iqm": "paper_iqm", f"{method}_lo": "paper_low", f"{method}_hi": "paper_high"}
        frames.append(table[["env", *columns]].rename(columns=columns).assign(method=method))
    return pd.concat(frames)
