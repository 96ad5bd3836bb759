"""The benchmark as pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

BLUE, PALE, RED, ROSE, SAND, GREY, DARK = "#1b6ca8", "#9cc3e0", "#c8553d", "#e5b3a8", "#d9b44a", "0.55", "0.25"
Rows = list[dict[str, Any]]
# The contenders from top to bottom: their columns, how their ratio's column begins, color and name.
CONTENDERS = (
    ("mlp", None, RED, "SB3, MLP"),
    ("span", "", ROSE, "SB3, SPAN"),
    ("sbx", "sbx_", SAND, "SBX (JAX), MLP"),
    ("rltools", "rltools_", GREY, "RLtools (C++), MLP"),
    ("native_mlp", "native_mlp_", PALE, "sb3_span, MLP"),
    ("native_span", "native_", BLUE, "sb3_span, SPAN"),
)
SHARE = "the environment's share"


def draw(results: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    """
    :param results: The rows of each measurement
    :param folder: For ``speed.png``, steps of training, and ``networks.png``, the networks alone, as far as there are rows
    """
    if "training" in results:
        _draw_training(results["training"], folder / "speed.png")
    if {"critics", "growth"} <= set(results):
        figure, (critics, growth) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        _draw_critics(critics, [row for row in results["critics"] if row["batch"] == 128])
        _draw_growth(growth, results["growth"])
        _save(figure, folder / "networks.png")


def _save(figure: plt.Figure, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_training(rows: Rows, path: Path) -> None:
    """A group of bars for each environment, one for each contender, with the environment's own share at its beginning."""
    groups = [[row for row in rows if row["algorithm"] == name] for name in ("PPO", "SAC")]
    groups = [group for group in groups if group]
    figure, panels = plt.subplots(1, len(groups), figsize=(6 * len(groups), 6.2), layout="constrained", squeeze=False)
    handles = {}
    for axes, group in zip(panels[0], groups, strict=True):
        _draw_bars(axes, group, [one for one in CONTENDERS if any(row.get(f"{one[0]}_us") for row in group)])
        axes.set_title(group[0]["algorithm"], fontsize=14, fontweight="bold", loc="left")
        handles.update({label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)})
    names = [label for *_, label in CONTENDERS if label in handles] + [label for label in handles if label == SHARE]
    figure.legend([handles[name] for name in names], names, loc="outside upper center", ncols=4, frameon=False, fontsize=11)
    figure.supxlabel("time of a training step, relative to SB3 with the MLP of the same size", fontsize=12)
    _save(figure, path)


def _draw_bars(axes: plt.Axes, rows: Rows, shown: Sequence[tuple[str, str | None, str, str]]) -> None:
    height = 0.8 / len(shown)
    places = np.arange(len(rows))[::-1]
    for i, (name, prefix, color, label) in enumerate(shown):
        at = places + height * ((len(shown) - 1) / 2 - i)
        ratios = np.array([1.0 if prefix is None else row.get(f"{prefix}ratio") or np.nan for row in rows])
        axes.barh(at, ratios, 0.92 * height, color=color, label=label)
        for row, y, ratio in zip(rows, at, ratios, strict=True):
            us = row.get(f"{name}_us")
            if us:
                text = f" {us:,.0f} µs" if prefix is None else f" {ratio:.2f}"
                axes.text(
                    ratio, y, text, va="center", fontsize=10, color=DARK, fontweight="bold" if color == BLUE else "normal"
                )
    alone = [(row["env_us"] or 0.0) / row["mlp_us"] if "env_us" in row else 0.0 for row in rows]
    if any(alone):
        for i in range(len(shown)):
            at = places + height * ((len(shown) - 1) / 2 - i)
            axes.barh(at, alone, 0.92 * height, color=DARK, label=SHARE if i == 0 else None)
    axes.set_yticks(places, [row["environment"] for row in rows], fontsize=12)
    longest = [row.get(f"{prefix}ratio") or 0.0 for row in rows for _, prefix, _, _ in shown if prefix is not None]
    most = max(1.0, *longest)
    axes.set(xlim=(0, 1.22 * most))
    axes.tick_params(axis="y", length=0)


def _draw_critics(axes: plt.Axes, rows: Rows) -> None:
    rows = sorted(rows, key=lambda row: -row["ratio"])
    colors = [BLUE if "SPAN" in row["network"] else RED if row["network"] == "MLP" else GREY for row in rows]
    axes.barh([row["network"] for row in rows], [row["ratio"] for row in rows], color=colors)
    for i, row in enumerate(rows):
        axes.text(row["ratio"], i, f" {row['ratio']:.2f}", va="center", fontsize=9)
    axes.set(xlabel="relative to SB3's two MLP critics", xlim=(0, 1.15 * rows[0]["ratio"]))
    axes.set_title("Hopper's critics, batch 128,\nforward and backward")


def _draw_growth(axes: plt.Axes, rows: Rows) -> None:
    for what in dict.fromkeys(row["grows"] for row in rows):
        own = [row for row in rows if row["grows"] == what]
        factor = np.array([row["value"] / own[0]["value"] for row in own])
        axes.loglog(factor, [row["us"] / own[0]["us"] for row in own], marker="o", markersize=4, label=what)
    axes.loglog([1, 200], [1, 200], color="0.7", linewidth=1, linestyle=":", label="linear")
    axes.set(xlabel="size, relative to the smallest", ylabel="time, relative to the smallest")
    axes.set_title("Growth of SPAN's time")
    axes.legend(frameon=False, fontsize=8)
