"""Offline runs: normalised scores by task and data set, in the form of the paper's table and with its figures next to ours."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as Grid

from sb3_span.report.formats import count, fixed, label, seeds, steps_range
from sb3_span.report.load import Run, Study, load_study
from sb3_span.report.measures import behind
from sb3_span.report.tables import Cell, Table
from sb3_span.scores.references import paper

# Columns that are not wrapped in a narrow terminal: those up to the scores of two methods.
SCORE_COLUMNS = 4


def scores(study: Study) -> pd.DataFrame:
    """
    :return: One row for each data set and method with finished offline runs: the mean and the standard deviation over seeds of
        the normalised score (0 for a random policy, 100 for an expert; NaN where no reference is known) and of the return
    """
    rows = []
    for env in study.envs:
        for method in study.methods:
            runs = [run for run in study.finished(env, method) if "evaluation_env" in run.settings]
            if not runs:
                continue
            normalised, returns = np.array([_score(run) for run in runs]), np.array([run.final for run in runs])
            rows.append(
                {
                    **behind(study, env, method, runs),
                    "task": _task(runs[0].settings["evaluation_env"]),
                    "dataset": env.rsplit("/", 1)[-1].rsplit("-v", 1)[0],
                    "episodes": runs[0].settings["n_eval_episodes"],
                    "parameters": runs[0].settings.get("n_parameters"),
                    "score": normalised.mean(),
                    "score_std": _std(normalised),
                    "mean_return": returns.mean(),
                    "std_return": _std(returns),
                }
            )
    frame = pd.DataFrame(rows)
    return frame.merge(_paper_scores(), how="left", on=["task", "dataset", "method"]) if rows else frame


def table(frame: pd.DataFrame) -> Table:
    """
    :param frame: The result of ``scores``
    """
    methods = list(dict.fromkeys(frame["method"]))
    rows = []
    for env, group in frame.groupby("env", sort=False):
        by_method = {row.method: row for row in group.itertuples()}
        cells = [_cell(by_method[method]) if method in by_method else Cell("") for method in methods]
        sizes = " / ".join(count(by_method[method].parameters) if method in by_method else "" for method in methods)
        n_seeds = " / ".join(seeds(row.seeds, row.planned) for row in by_method.values())
        head = next(iter(by_method.values()))
        about = [Cell(head.task), Cell(str(env))]
        steps = steps_range(group["steps"].min(), group["steps"].max())
        rows.append([*about, *cells, Cell(sizes), Cell(n_seeds), Cell(steps), Cell(str(head.episodes))])
    columns = ["task", "data set", *map(label, methods), "parameters", "seeds", "steps", "episodes"]
    note = (
        "Mean and deviation over seeds of the normalised score: 0 for a random policy, 100 for an expert; a seed's is "
        "that of its last evaluation. The paper's figures are for the data sets D4RL/.../...-v2 and 5 seeds."
    )
    return Table("offline_scores", "Offline scores", frame, columns, rows, note)


def print_offline_table(folder: Path) -> None:
    """
    :param folder: The folder of a study with offline runs
    """
    frame = scores(load_study(folder))
    if frame.empty:
        raise ValueError(f"{folder} has no finished offline runs yet. Start them with: sb3-span offline train")
    shown = table(frame)
    grid = Grid(title=shown.title, caption=shown.note)
    for number, column in enumerate(shown.columns):
        grid.add_column(column, no_wrap=number < SCORE_COLUMNS)
    for row in shown.rows:
        grid.add_row(*(f"{cell.text}\n[dim]paper {cell.paper}[/]" if cell.paper else cell.text for cell in row))
    Console().print(grid)


def _score(run: Run) -> float:
    low, high = run.settings.get("reference_scores") or (np.nan, np.nan)
    return 100 * (run.final - low) / (high - low)


def _std(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else np.nan


def _task(env_id: str) -> str:
    """AdroitHandDoor-v1 is the paper's door."""
    match = re.fullmatch(r"AdroitHand(\w+)-v\d+", env_id)
    return match[1].lower() if match else env_id


def _cell(row) -> Cell:
    text = _mean_std(row.score, row.score_std)
    return Cell(text or f"return {_mean_std(row.mean_return, row.std_return)}", _mean_std(row.paper_score, row.paper_std))


def _mean_std(mean: float, std: float) -> str:
    """One decimal, as in the paper's table."""
    return fixed(mean, nothing="") + ("" if np.isnan(mean) or np.isnan(std) else f" ± {fixed(std)}")


def _paper_scores() -> pd.DataFrame:
    frames = [
        paper("offline_scores")[["task", "dataset", f"{method}_score", f"{method}_std"]]
        .set_axis(["task", "dataset", "paper_score", "paper_std"], axis=1)
        .assign(method=method)
        for method in ("span", "mlp")
    ]
    return pd.concat(frames)
