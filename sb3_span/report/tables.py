"""The tidy tables for readers: one row per method, our figure and the paper's in one cell."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from sb3_span.report.formats import (
    NOTHING,
    count,
    fixed,
    interval,
    label,
    mean_std,
    number,
    p_value,
    percent,
    seeds,
    short_number,
    steps_and_success,
    steps_range,
)


@dataclass(frozen=True)
class Cell:
    """
    :param text: Our figure
    :param paper: The paper's, empty where it has none
    """

    text: str
    paper: str = ""


@dataclass(frozen=True)
class Table:
    """
    :param name: The name of the CSV file with the same figures in full
    :param frame: That file's content
    :param columns: The heading of each column
    :param rows: Rows of cells
    :param note: How to read it
    """

    name: str
    title: str
    frame: pd.DataFrame = field(repr=False)
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""

    @property
    def has_paper(self) -> bool:
        return any(cell.paper for row in self.rows for cell in row)

    def csv(self) -> str:
        return self.frame.to_csv(index=False, float_format="%.10g", lineterminator="\n")


def overview(frame: pd.DataFrame) -> Table:
    rows = [
        [
            *_about(row),
            Cell(str(row.algo or NOTHING).upper()),
            Cell(count(row.parameters), count(row.paper_parameters)),
            Cell(seeds(row.seeds, row.planned), count(row.paper_seeds)),
            Cell(short_number(row.steps), short_number(row.paper_steps) if pd.notna(row.paper_steps) else ""),
        ]
        for row in frame.itertuples()
    ]
    columns = ["environment", "method", "algorithm", "parameters", "finished seeds", "steps"]
    return Table("overview", "What was run", frame, columns, rows)


def sample_efficiency(frame: pd.DataFrame) -> Table:
    def cell(row: Any) -> Cell:
        return Cell(
            steps_and_success(row.median_steps, row.success_rate),
            steps_and_success(row.paper_median_steps, row.paper_success_rate, ""),
        )

    note = "Median steps over the seeds that met the threshold, and in brackets the share of seeds that did."
    return _wide("sample_efficiency", "Steps to threshold", frame, "threshold_pct", cell, note)


def after_arrival(frame: pd.DataFrame) -> Table:
    def cell(row: Any) -> Cell:
        if np.isnan(row.lowest_median):
            return Cell(NOTHING)
        return Cell(f"{number(row.lowest_median, '-∞')} (worst {number(row.lowest_worst, '-∞')})")

    note = (
        "The lowest evaluation of a run since it met the threshold: the median over the seeds that met it, and the worst of "
        "them. A run far below the threshold has lost the task again; one whose returns are no longer finite counts as -∞."
    )
    return _wide("after_arrival", "Lowest return after the threshold", frame, "threshold_pct", cell, note)


def anytime(frame: pd.DataFrame) -> Table:
    note = (
        "Mean ± standard deviation over the seeds that got so far: the first evaluation at or after each share of the steps."
    )
    return _wide("anytime", "Returns at shares of the budget", frame, "budget_pct", _returns(frame), note)


def equal_time(frame: pd.DataFrame) -> Table:
    minutes = frame[frame.time_pct == 100].set_index("env")["minutes"].to_dict()
    note = (
        "Mean ± standard deviation over the finished seeds, each with its last evaluation within that time. 100 % is the "
        "shortest of the methods' median training times: "
        + ", ".join(f"{env} {number(value)} min" for env, value in minutes.items())
        + ". A run that ends earlier keeps its last evaluation."
    )
    return _wide("equal_time", "Returns at equal training time", frame, "time_pct", _returns(frame), note)


def minutes(frame: pd.DataFrame) -> Table:
    def cell(row: Any) -> Cell:
        return Cell(number(row.minutes), fixed(row.paper_minutes) if pd.notna(row.paper_expected_cost) else "")

    note = "Median minutes of training, evaluation not counted, over the seeds that met the threshold."
    return _wide("minutes", "Minutes to threshold", frame.drop(columns=["expected_cost"]), "threshold_pct", cell, note)


def expected_cost(frame: pd.DataFrame) -> Table:
    def cell(row: Any) -> Cell:
        cost = number(row.expected_cost, "∞" if row.expected_cost == np.inf else NOTHING)
        return Cell(cost, fixed(row.paper_expected_cost, nothing=""))

    note = "Minutes to threshold divided by the share of seeds that met it: what one success costs, failures included."
    return _wide("expected_cost", "Expected cost in minutes", frame, "threshold_pct", cell, note)


def cost_ratios(frame: pd.DataFrame) -> Table:
    def cell(row: Any) -> Cell:
        return Cell(fixed(row.cost_ratio, 2), fixed(row.paper_cost_ratio, 2, ""))

    first = label(frame["first"].iloc[0])
    note = f"Above 1: a success of {first} costs less. Infinite where {first} met the threshold and the other never did."
    counts = [f"{row.seeds_first} and {row.seeds_other}" for row in frame.itertuples()]
    pairs = [f"{label(row.other)} / {label(row.first)}" for row in frame.itertuples()]
    shown = frame.assign(method=pairs, counts=counts)
    table = _wide("cost_ratios", "Ratio of expected costs", shown, "threshold_pct", cell, note)
    return replace(table, frame=frame, columns=["environment", "ratio of", *table.columns[2:]])


def throughput(frame: pd.DataFrame, first: str) -> Table:
    rows = [
        [
            *_about(row),
            Cell(number(row.steps_per_second), number(row.paper_steps_per_second, "")),
            Cell(fixed(row.sps_ratio, 2), fixed(row.paper_sps_ratio, 2, "")),
            Cell(number(row.hours)),
            Cell(number(row.hours_with_evaluation)),
            Cell(seeds(row.seeds, row.planned)),
            Cell(short_number(row.steps)),
        ]
        for row in frame.itertuples()
    ]
    hours = ["hours of training", "hours with evaluation"]
    columns = ["environment", "method", "steps per second", f"relative to {label(first)}", *hours, "seeds", "steps"]
    note = (
        "Steps per second of training, evaluation not counted: the median over finished runs, or over those under way while "
        "none is finished. The hours are those of all runs, one core each; with evaluation where every record has its time."
    )
    return Table("throughput", "Throughput", frame, columns, rows, note)


def final_returns(frame: pd.DataFrame) -> Table:
    rows = [
        [
            Cell(row.env),
            Cell(f"{label(row.first)} against {label(row.other)}"),
            Cell(row.verdict),
            Cell(mean_std(row.first_mean, row.first_std), mean_std(row.paper_first_mean, row.paper_first_std, "")),
            Cell(mean_std(row.other_mean, row.other_std), mean_std(row.paper_other_mean, row.paper_other_std, "")),
            Cell(fixed(row.t, 2), fixed(row.paper_t, 2, "")),
            Cell(p_value(row.p), str(row.paper_p) if pd.notna(row.paper_p) else ""),
            Cell(fixed(row.cohen_d, 2), fixed(row.paper_cohen_d, 2, "")),
            Cell(f"{row.first_seeds} and {row.other_seeds}"),
            Cell(steps_range(row.steps, row.max_steps)),
        ]
        for row in frame.itertuples()
    ]
    columns = [
        "environment",
        "methods",
        "verdict on the first",
        "first",
        "second",
        "Welch's t",
        "p",
        "Cohen's d",
        "seeds",
        "steps",
    ]
    note = (
        "Mean ± standard deviation of the last evaluation over finished seeds. The verdict needs p < 0.05 and at least 5 "
        "seeds of both; p is not corrected for the number of comparisons."
    )
    return Table("final_returns", "Final returns", frame, columns, rows, note)


def iqm(frame: pd.DataFrame, first: str) -> Table:
    def cell(row: Any) -> Cell:
        return Cell(interval(row.iqm, row.low, row.high), interval(row.paper_iqm, row.paper_low, row.paper_high))

    note = (
        "Interquartile mean of normalised final scores, 0 for a random policy and 1 for the expert, and its 95 % interval "
        "from a bootstrap stratified by environment. The verdict needs intervals that do not overlap and at least 5 seeds of "
        "both. The aggregate counts as many seeds of every environment, and leaves out those with fewer than 5 if others have "
        "5."
    )
    return Table("iqm", "Interquartile means", frame, *_by_method(frame, first, "IQM", cell), note)


def areas(frame: pd.DataFrame, first: str) -> Table:
    def cell(row: Any) -> Cell:
        return Cell(fixed(row.score, 3) + (f" ± {row.std:.3f}" if pd.notna(row.std) else ""))

    note = (
        "The normalised area under the learning curve (AUC) is the mean of all evaluations of a run, 0 for a random policy "
        "and anything below it, 1 for the expert: learning early counts, and so does staying there. Mean ± standard deviation "
        "over finished seeds, Welch's t-test as above; the aggregate is the mean of the same environments as that of the "
        "interquartile means."
    )
    return Table("auc", "Area under the learning curve", frame, *_by_method(frame, first, "AUC", cell), note)


def _by_method(
    frame: pd.DataFrame, first: str, heading: str, cell: Callable[[Any], Cell]
) -> tuple[list[str], list[list[Cell]]]:
    """
    One score for each environment and method; a verdict, and p where there is a test, where methods are compared.

    :param cell: From a row of the frame to the score
    :return: Columns and rows
    """
    compared, tested = frame["verdict"].any(), "p" in frame
    verdict = [f"verdict on {label(first)}", *(["p"] if tested else [])] if compared else []
    rows = []
    for row in frame.itertuples():
        shown = [Cell(row.verdict), *([Cell(p_value(row.p))] if tested else [])] if compared else []
        rows.append([*_about(row), cell(row), *shown, Cell(str(row.seeds)), Cell(steps_range(row.steps, row.max_steps))])
    return ["environment", "method", heading, *verdict, "seeds", "steps"], rows


def profiles(frame: pd.DataFrame) -> Table:
    shown = [0.25, 0.5, 0.75, 0.95, 1.0]
    rows = []
    for (group, method), lines in frame.groupby(["env", "method"], sort=False):
        shares = [lines.loc[np.isclose(lines["tau"], tau), "share"].iloc[0] for tau in shown]
        head = lines.iloc[0]
        rows.append(
            [
                Cell(str(group)),
                Cell(label(str(method))),
                *(Cell(percent(share)) for share in shares),
                Cell(str(head.seeds)),
                Cell(steps_range(head.steps, head.max_steps)),
            ]
        )
    columns = ["environment", "method", *(f"score {tau:g}" for tau in shown), "seeds", "steps"]
    note = "The share of runs at or above a normalised score. A domain has this number of seeds of each of its environments."
    return Table("profiles", "Runs at or above a score", frame, columns, rows, note)


def ablations(frame: pd.DataFrame) -> Table:
    # The paper's remark is on all values of an option: once is enough.
    remarks = frame["paper_saw"].mask(frame.duplicated(["env", "method", "option"])).fillna("")
    rows = [
        [
            *_about(row),
            Cell(row.option, remark),
            Cell(f"{row.value} (base)" if row.base else str(row.value)),
            Cell(number(row.median)),
            Cell(f"{number(row.quartile_1)} to {number(row.quartile_3)}"),
            Cell(f"{number(row.min)} to {number(row.max)}"),
            Cell(count(row.parameters)),
            Cell(str(row.seeds)),
            Cell(short_number(row.steps)),
        ]
        for row, remark in zip(frame.itertuples(), remarks, strict=True)
    ]
    columns = ["environment", "method", "option", "value", "median", "quartiles", "range", "parameters", "seeds", "steps"]
    note = "Final returns of finished runs. What the paper saw is about all values of an option."
    return Table("ablations", "Ablations", frame.drop(columns="returns"), columns, rows, note)


def _wide(
    name: str,
    title: str,
    frame: pd.DataFrame,
    across: str,
    cell: Callable[[Any], Cell],
    note: str,
) -> Table:
    """
    One row for each environment and method, one column for each percentage.

    :param across: The column with the percentages
    :param cell: From a row of the frame to what is shown
    """
    percents = list(dict.fromkeys(frame[across]))
    rows = []
    for _, group in frame.groupby(["env", "method"], sort=False):
        by_percent = {getattr(row, across): row for row in group.itertuples()}
        head = max(by_percent.values(), key=lambda row: getattr(row, "seeds", 0))
        n_seeds = head.counts if "counts" in frame else seeds(head.seeds, head.planned)
        cells = [cell(by_percent[percent]) for percent in percents]
        steps = steps_range(head.steps, getattr(head, "max_steps", head.steps))
        rows.append([*_about(head), *cells, Cell(n_seeds), Cell(steps)])
    columns = ["environment", "method", *(f"{percent} %" for percent in percents), "seeds", "steps"]
    return Table(name, title, frame, columns, rows, note)


def _about(row: Any) -> list[Cell]:
    return [Cell(row.env), Cell(label(row.method))]


def _returns(frame: pd.DataFrame) -> Callable[[Any], Cell]:
    most = frame.groupby(["env", "method"])["seeds"].max().to_dict()
    has_paper = "paper_mean_return" in frame

    def cell(row: Any) -> Cell:
        fewer = f" (n = {row.seeds})" if 0 < row.seeds < most[row.env, row.method] else ""
        paper = mean_std(row.paper_mean_return, row.paper_std_return, "") if has_paper else ""
        return Cell(mean_std(row.mean_return, row.std_return) + fewer, paper)

    return cell
