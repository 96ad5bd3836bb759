"""The benchmark as a picture."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

BLUE, PALE, RED, ROSE, GREY = "#1b6ca8", "#9cc3e0", "#c8553d", "#e5b3a8", "0.55"


def draw(results: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """
    :param results: The rows of each measurement
    :param path: Where the picture goes
    """
    figure, (training, critics, growth) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    _draw_training(training, results["training"])
    _draw_critics(critics, [row for row in results["critics"] if row["batch"] == 128])
    _draw_growth(growth, results["growth"])
    for axes in (training, critics, growth):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_training(axes: plt.Axes, rows: list[dict[str, Any]]) -> None:
    rows = rows[::-1]
    places = np.arange(len(rows))
    bars = (
        ("", PALE, 0.27, "SPAN, SB3's algorithm"),
        ("native_", BLUE, 0.0, "SPAN, sb3_span's"),
        ("native_mlp_", ROSE, -0.27, "MLP, sb3_span's"),
    )
    for prefix, color, shift, label in bars:
        middle, lower, upper = (np.array([row[f"{prefix}ratio{end}"] for row in rows]) for end in ("", "_lower", "_upper"))
        error = dict(ecolor="0.3", capsize=2, linewidth=1)
        axes.barh(
            places + shift, middle, 0.27, xerr=[middle - lower, upper - middle], color=color, error_kw=error, label=label
        )
    alone = np.array([row["env_us"] / row["mlp_us"] for row in rows])
    axes.barh(places, alone, 0.81, facecolor="none", edgecolor="0.2", hatch="////", linewidth=0, label="of it the environment")
    axes.axvline(1, color=RED, linewidth=2, label="MLP, SB3's algorithm")
    axes.set(xlim=(0, 1.25), xlabel="relative to the MLP of the same size in SB3's algorithm")
    axes.set_yticks(places, [row["environment"] for row in rows])
    axes.set_title("Time of a training step", pad=34)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.45, 0.99))


def _draw_critics(axes: plt.Axes, rows: list[dict[str, Any]]) -> None:
    rows = sorted(rows, key=lambda row: -row["ratio"])
    colors = [BLUE if "SPAN" in row["network"] else RED if row["network"] == "MLP" else GREY for row in rows]
    axes.barh([row["network"] for row in rows], [row["ratio"] for row in rows], color=colors)
    for i, row in enumerate(rows):
        axes.text(row["ratio"], i, f" {row['ratio']:.2f}", va="center", fontsize=9)
    axes.set(xlabel="relative to SB3's two MLP critics", xlim=(0, 1.15 * rows[0]["ratio"]))
    axes.set_title("Hopper's critics, batch 128,\nforward and backward")


def _draw_growth(axes: plt.Axes, rows: list[dict[str, Any]]) -> None:
    for what in dict.fromkeys(row["grows"] for row in rows):
        own = [row for row in rows if row["grows"] == what]
        factor = np.array([row["value"] / own[0]["value"] for row in own])
        axes.loglog(factor, [row["us"] / own[0]["us"] for row in own], marker="o", markersize=4, label=what)
    axes.loglog([1, 200], [1, 200], color="0.7", linewidth=1, linestyle=":", label="linear")
    axes.set(xlabel="size, relative to the smallest", ylabel="time, relative to the smallest")
    axes.set_title("Growth of SPAN's time")
    axes.legend(frameon=False, fontsize=8)
