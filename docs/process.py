"""
The tables and pictures of docs/process.md, from the records:

    python docs/process.py results/process
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from sb3_span.plants.process_plants import PLANTS, Plant
from sb3_span.report.load import load_study
from sb3_span.report.statistics import compare

IMAGES = Path(__file__).parent / "images"
NAMES = {
    "nmpc": "NMPC",
    "pid": "PID, tuned",
    "span": "SPAN",
    "mlp": "MLP of SPAN's size",
    "mlp-64": "MLP, 64 and 64",
    "fixed": "fixed inputs",
}
COLORS = {"nmpc": "#2a9d5c", "pid": "#8b949e", "span": "#1b6ca8", "mlp": "#c8553d", "mlp-64": "#e0a458"}
AGENTS = ("span", "mlp", "mlp-64")


def by_seed(episodes: pd.DataFrame) -> pd.DataFrame:
    """
    :return: Means over the episodes, a row for each plant, method and seed; of the agents only seeds that all methods have
    """
    agents = episodes[episodes.method.isin(AGENTS)]
    n_methods = agents.groupby(["env", "seed"]).method.nunique()
    incomplete = n_methods.index[n_methods < len(AGENTS)]
    episodes = episodes[~(episodes.method.isin(AGENTS) & episodes.set_index(["env", "seed"]).index.isin(incomplete))]
    return episodes.groupby(["env", "method", "seed"], sort=False).mean().drop(columns="episode")


def show(values: np.ndarray, digits: int, scale: float = 1.0) -> str:
    text = f"{scale * values.mean():.{digits}f}"
    return text if len(values) == 1 else f"{text}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{scale * values.std(ddof=1):.{digits}f}"


def table(means: pd.DataFrame, env: str, parameters: dict[str, int], n_steps: int) -> list[str]:
    """One row for each method; return and gap are those of the mean over episodes, ± over seeds."""
    best = means.loc[(env, "nmpc", 0), "return"]
    lines = [
        f"| {env} | parameters | return | gap to NMPC | ISE | error at rest | violations | moves |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method, name in NAMES.items():
        own = means.loc[(env, method)]
        returns = own["return"].to_numpy()
        cells = [
            name,
            f"{parameters[method]:,}" if method in parameters else "",
            show(returns, 2),
            "" if method == "nmpc" else show(best - returns, 2),
            show(own["ise"].to_numpy(), 2),
            f"{show(own['offset'].to_numpy(), 1, 100)} %",
            f"{show(own['violations'].to_numpy(), 1, 100 / n_steps)} %",
            show(own["moves"].to_numpy(), 2),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    of_seeds = {method: means.loc[(env, method), "return"].to_numpy() for method in AGENTS}
    n_seeds = len(of_seeds["span"])
    if n_seeds < 5:
        return [*lines, "", f"Seeds of each agent: {n_seeds}, too few to compare them."]
    tests = [f"{NAMES[method]} p = {compare(of_seeds['span'], of_seeds[method]).p:.2g}" for method in AGENTS[1:]]
    return [*lines, "", f"SPAN's return against: {'; '.join(tests)} (Welch's t-test over {n_seeds} seeds, not corrected)."]


def write_tables(folder: Path) -> None:
    means = by_seed(pd.read_csv(folder / "episodes.csv"))
    study = load_study(folder)
    n_steps = 100
    text = ["<!-- Written by docs/process.py. -->"]
    for env in PLANTS:
        parameters = {method: study.finished(env, method)[0].settings["n_parameters"] for method in AGENTS}
        text += ["", *table(means, env, parameters, n_steps)]
    (folder / "tables.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


def draw_plant(axes: np.ndarray, rows: pd.DataFrame, plant: Plant) -> None:
    """Controlled values with their set points above, inputs below."""
    for ax, each in zip(axes, (*plant.set_points, *plant.inputs), strict=True):
        of_methods = rows[rows.quantity == each.name]
        for method, values in of_methods.groupby("method"):
            if method in ("nmpc", "pid", "span", "mlp"):
                style = {"drawstyle": "steps-pre"} if each in plant.inputs else {}
                ax.plot(
                    values.time,
                    values.value,
                    color=COLORS[method],
                    linewidth=2 if method == "span" else 1.3,
                    zorder=3 if method == "span" else 2,
                    label=NAMES[method],
                    **style,
                )
        wanted = rows[(rows.quantity == f"{each.name} set point") & (rows.method == "nmpc")]
        if len(wanted):
            ax.plot(
                wanted.time, wanted.value, color="black", linewidth=1, linestyle=":", drawstyle="steps-pre", label="set point"
            )
        if (
            each.name in plant.upper_limits
            and rows[rows.quantity == each.name].value.max() > 0.97 * plant.upper_limits[each.name]
        ):
            ax.axhline(plant.upper_limits[each.name], color="#b00020", linewidth=0.8, label="limit")
        ax.set_ylabel(f"{each.name}, {each.unit}", fontsize=8)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(plant.env_id, fontsize=10)
    axes[-1].set_xlabel(plant.time_unit, fontsize=8)


def draw_trajectories(folder: Path, path: Path) -> None:
    rows = pd.read_csv(folder / "trajectories.csv.gz")
    figure = plt.figure(figsize=(12, 6.4), layout="constrained")
    for part, plant in zip(figure.subfigures(1, len(PLANTS)), PLANTS.values(), strict=True):
        n_panels = len(plant.set_points) + len(plant.inputs)
        draw_plant(part.subplots(n_panels, 1, sharex=True), rows[rows.env == plant.env_id], plant)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, loc="outside upper center", ncols=len(labels))
    figure.savefig(path, dpi=150)


def draw_curves(folder: Path, path: Path) -> None:
    """Learning curves: every seed, their mean, and the references' returns on the episodes of the table."""
    study, means = load_study(folder), by_seed(pd.read_csv(folder / "episodes.csv"))
    figure, axes = plt.subplots(1, len(PLANTS), figsize=(12, 3.4), layout="constrained")
    for ax, env in zip(axes, PLANTS, strict=True):
        for method in ("nmpc", "pid"):
            level = -means.loc[(env, method, 0), "return"]
            ax.axhline(level, color=COLORS[method], linewidth=1.3, linestyle="--", label=NAMES[method])
        for method in reversed(AGENTS):
            seeds = means.loc[(env, method)].index
            runs = [run for run in study.finished(env, method) if run.settings["seed"] in seeds]
            for run in runs:
                ax.plot(run.steps / 1000, -run.means, color=COLORS[method], linewidth=0.7, alpha=0.35)
            mean = -sum(run.means for run in runs) / len(runs)
            ax.plot(runs[0].steps / 1000, mean, color=COLORS[method], linewidth=2.2, label=NAMES[method])
        ax.set_title(f"{env}, {len(runs)} seeds", fontsize=10)
        ax.set_xlabel("thousand steps")
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("cost: minus the return")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, loc="outside upper center", ncols=len(labels))
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    records = Path(sys.argv[1])
    write_tables(records)
    draw_trajectories(records, IMAGES / "process_trajectories.png")
    draw_curves(records, IMAGES / "process_curves.png")
