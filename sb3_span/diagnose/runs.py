"""Several runs in one picture: what the critics expect and the returns, over the steps."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from sb3_span.atomic_files import default_output
from sb3_span.inspection.figure import COLORS, save_figure

STEP, VALUE, RETURN, ENT_COEF = "time/total_timesteps", "diagnose/value", "diagnose/return", "diagnose/ent_coef"
LINEAR = 100.0  # the axis of values is linear below this magnitude, logarithmic beyond it


def read_run(path: Path) -> dict[str, np.ndarray]:
    """
    :param path: A ``progress.csv`` of SB3's logger, or its folder
    :return: Steps, expected values, returns and, where there is one, entropy coefficients; each of shape (diagnoses,)
    """
    path = path / "progress.csv" if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"There is no {path}. Give a progress.csv, which SB3 writes with configure(folder, ['csv']).")
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get(VALUE)]
    if not rows:
        raise ValueError(f"{path} has no column {VALUE!r}: train with DiagnosticsCallback, and a logger that writes CSV.")
    names = [name for name in (STEP, VALUE, RETURN, ENT_COEF) if rows[0].get(name)]
    return {name: np.array([float(row[name]) for row in rows]) for name in names}


def draw_runs(runs: Sequence[tuple[str, Path]], title: str) -> Figure:
    """
    :param runs: Labels and files; runs of one label, such as seeds, have one colour
    :param title: The picture's title
    :return: Above, what the critics expect (solid) and the returns (dashed); below, the entropy coefficient
    """
    read = [(label, read_run(path)) for label, path in runs]
    labels = list(dict.fromkeys(label for label, _ in read))
    has_entropy = any(ENT_COEF in run for _, run in read)
    figure = Figure(figsize=(10, 7 if has_entropy else 4.8), layout="constrained")
    figure.suptitle(title, fontsize=15, fontweight="bold")
    axes = figure.subplots(
        2 if has_entropy else 1, 1, sharex=True, squeeze=False, height_ratios=[2, 1] if has_entropy else None
    )
    top = axes[0, 0]
    for label, run in read:
        color = COLORS[labels.index(label) % len(COLORS)]
        top.plot(run[STEP], run[VALUE], color=color, linewidth=2.2)
        top.plot(run[STEP], run[RETURN], color=color, linewidth=1.6, linestyle=(0, (3, 2)))
        if has_entropy and ENT_COEF in run:
            axes[1, 0].plot(run[STEP], run[ENT_COEF], color=color, linewidth=2.2)
    _finish_values(top, labels, read)
    if has_entropy:
        axes[1, 0].set(yscale="log", ylabel="entropy coefficient")
        axes[1, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[-1, 0].set_xlabel("steps")
    axes[-1, 0].xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    for ax in axes[:, 0]:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.92")
    return figure


def _finish_values(ax: Axes, labels: list[str], read: list[tuple[str, dict[str, np.ndarray]]]) -> None:
    largest = max(float(np.nanmax(np.abs(run[name]))) for _, run in read for name in (VALUE, RETURN))
    if math.isfinite(largest) and largest > 10 * LINEAR:
        ax.set_yscale("symlog", linthresh=LINEAR)
        # Whole powers of ten: there is no room for numbers between them.
        powers = [LINEAR * 10**power for power in range(int(math.log10(largest / LINEAR)) + 1)]
        below = min(float(np.nanmin(run[name])) for _, run in read for name in (VALUE, RETURN))
        ax.set_yticks([*(-power for power in reversed(powers) if -power >= below), 0, *powers])
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.axhline(0, color="0.75", linewidth=0.8)
    ax.set_ylabel("discounted sum of rewards to come")
    colors = [COLORS[i % len(COLORS)] for i in range(len(labels))]
    handles = [*(ax.plot([], [], color=color, linewidth=6)[0] for color in colors)]
    handles += [ax.plot([], [], color="0.3", linewidth=2.2)[0], ax.plot([], [], color="0.3", linestyle=(0, (3, 2)))[0]]
    names = [*labels, "what the critics expect", "the actual return"]
    ax.legend(handles, names, frameon=False, fontsize=10, loc="best", ncols=2)


def compare_runs(runs: Sequence[str], output: Path | None, title: str | None = None) -> None:
    """
    :param runs: Each ``label=file``, the file a ``progress.csv`` or its folder
    :param output: The picture, PNG or PDF or SVG; None for a new runs.png
    :param title: The picture's title; None for the default
    """
    pairs = []
    for run in runs:
        label, sign, path = run.partition("=")
        if not (label and sign and path):
            raise ValueError(f"--runs has {run!r}; write label=file, for instance 'plain modes=logs/plain/progress.csv'.")
        pairs.append((label, Path(path)))
    output = output or default_output(Path("runs.png"))
    save_figure(draw_runs(pairs, title or "What the critics expect, and the returns"), output)
    print(f"Written to {output}")
