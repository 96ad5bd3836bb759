"""Draw the documentation's pictures from the package's own code and the records in results: make figures."""

import math
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import torch as th
from matplotlib.artist import Artist

from sb3_span import SPAN
from sb3_span.nn.basis import basis_values, bspline_basis, kernel_basis
from sb3_span.report.load import load_study
from sb3_span.scores.references import random_scores, thresholds
from sb3_span.study.folder import read_stored
from sb3_span.study.records import Record

IMAGES = Path(__file__).parent / "images"
RESULTS = Path(__file__).parents[1] / "results"
PALETTE = plt.get_cmap("viridis")
METHODS = {
    "mlp": ("MLP", "#c8553d"),
    "mlp-fast": ("MLP at SPAN's rate", "#e0a458"),
    "mlp-64": ("SB3's MLP, 64 and 64", "#6a737d"),
    "span-small": ("small SPAN", "#7cc4e8"),
    "span": ("SPAN", "#1b6ca8"),
}


def draw_basis(axes: plt.Axes, values: th.Tensor, title: str) -> None:
    z = th.linspace(0, 1, len(values))
    n_basis = values.shape[1]
    for i in range(n_basis):
        color = PALETTE(0.9 * i / (n_basis - 1))
        axes.plot(z, values[:, i], color=color, linewidth=2)
        axes.fill_between(z, values[:, i], color=color, alpha=0.12)
    axes.set_title(title, fontsize=10)
    axes.set(xlim=(0, 1), ylim=(0, 1.05), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.spines[["top", "right"]].set_visible(False)


def draw_bases(path: Path) -> None:
    z = th.linspace(0, 1, 801)
    figure, axes = plt.subplots(2, 2, figsize=(8, 4.8), layout="constrained", sharex=True, sharey=True)
    draw_basis(axes[0, 0], bspline_basis(z, 4, 1), "bspline, nelems=2, degree=1")
    draw_basis(axes[0, 1], bspline_basis(z, 4, 2), "bspline, nelems=2, degree=2")
    for ax, factor, title in [
        (axes[1, 0], 1.0, "kernel, nelems=5, at its initial scale"),
        (axes[1, 1], 0.6, "the same, scale x 0.6"),
    ]:
        draw_basis(ax, kernel_basis(z[None, :, None], 5, th.full((1, 1), factor * 4))[0, :, 0], title)
    for ax in axes[1]:
        ax.set_xlabel("z")
    for ax in axes[:, 0]:
        ax.set_ylabel("basis value")
    figure.savefig(path, dpi=150)


def draw_mode(path: Path) -> None:
    """A mode over two latent dimensions is the product of two splines."""
    th.manual_seed(3)
    net = SPAN(2, dict(nmodes=1, nelems=6, preprocess="none"))
    net.coefficients.data.normal_(0.5, 1.0)
    z = th.linspace(0, 1, 201)
    with th.no_grad():
        values = basis_values(th.stack([z, z], dim=-1)[None], net.scale, net.arch.nelems, net.arch.degree)[0]  # (B, D, N)
        first, second = th.einsum("bdn,dn->db", values, net.coefficients[0, :, :, 0])
        mode = net(th.cartesian_prod(z, z))[:, 0].reshape(201, 201)
    figure, axes = plt.subplots(
        2, 2, figsize=(5.2, 5.2), layout="constrained", width_ratios=[1, 3], height_ratios=[3, 1], sharex="col", sharey="row"
    )
    limit = mode.abs().max()
    axes[0, 1].imshow(mode.T, origin="lower", extent=(0, 1, 0, 1), aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes[0, 1].set_title("their product: one mode", fontsize=10)
    axes[0, 0].plot(second, z, color="#1b6ca8", linewidth=2)
    axes[0, 0].set_ylabel("$z_2$")
    axes[0, 0].set_title("spline of $z_2$", fontsize=10)
    axes[1, 1].plot(z, first, color="#1b6ca8", linewidth=2)
    axes[1, 1].set_xlabel("$z_1$")
    axes[1, 1].set_title("spline of $z_1$", fontsize=10)
    axes[1, 0].axis("off")
    for ax in (axes[0, 0], axes[1, 1]):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def draw_slopes(path: Path) -> None:
    """Learning curves by the slope of the splines at the start, means over seeds."""
    curves: dict[str, dict[float, list[Record]]] = {}
    for record in read_stored(RESULTS / "slope").records.values():
        slope = {**record.settings["base"], **record.settings["cell"]}["span_arch.slope"]
        curves.setdefault(record.settings["env"], {}).setdefault(slope, []).append(record)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for ax, (env, by_slope) in zip(axes, sorted(curves.items()), strict=True):
        for i, (slope, records) in enumerate(sorted(by_slope.items())):
            mean = sum(record.returns.mean(axis=1) for record in records) / len(records)
            ax.plot(
                records[0].steps / 1000, mean, color=PALETTE(0.9 * i / (len(by_slope) - 1)), linewidth=2, label=f"{slope:g}"
            )
        ax.set_title(env, fontsize=10)
        ax.set_xlabel("thousand steps")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("return")
    axes[1].legend(title="slope", frameon=False, loc="lower right", fontsize=8, title_fontsize=8)
    figure.savefig(path, dpi=150)


def make_panels(n_panels: int, width: float) -> tuple[plt.Figure, list[plt.Axes]]:
    """A figure with three panels in a row, or two or four where that leaves fewer empty."""
    n_columns = {4: 2, 7: 4, 8: 4}.get(n_panels, min(n_panels, 3))
    n_rows = math.ceil(n_panels / n_columns)
    size = (min(width * n_columns, 12.0), 0.4 + 2.8 * n_rows)  # wider than a page, names would be too small to read
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[n_panels:]:
        ax.axis("off")
    for ax in axes.flat[:n_panels]:
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel("thousand steps")
    for ax in axes[:, 0]:
        ax.set_ylabel("return")
    return figure, list(axes.flat[:n_panels])


def add_legend(figure: plt.Figure, handles: list[Artist], labels: list[str]) -> None:
    """In an empty panel if there is one, else above."""
    empty = [ax for ax in figure.axes if not ax.axison]
    if empty:
        empty[0].legend(handles, labels, frameon=False, fontsize=10, loc="center")
    else:
        figure.legend(handles, labels, frameon=False, fontsize=9, loc="outside upper center", ncols=len(labels))


def draw_methods(path: Path, name: str) -> None:
    """Learning curves of a study's methods, every seed and their mean, and the return that Gymnasium calls solved."""
    study = load_study(RESULTS / name)
    envs = [env for env in study.envs if all(study.finished(env, method) for method in study.methods)]
    figure, axes = make_panels(len(envs), width=4.0)
    for ax, env in zip(axes, envs, strict=True):
        solved = gym.spec(env).reward_threshold
        highest = max(run.means.max() for method in study.methods for run in study.finished(env, method))
        if solved is not None and highest > solved / 2:  # where it is out of reach it would flatten the curves
            ax.axhline(solved, color="#8b949e", linewidth=1, linestyle=":", label="solved")
        for method in study.methods:
            label, color = METHODS[method.removesuffix("-tuned")]
            runs = study.finished(env, method)
            for run in runs:
                ax.plot(run.steps / 1000, run.means, color=color, linewidth=0.7, alpha=0.35)
            mean = sum(run.means for run in runs) / len(runs)
            ax.plot(runs[0].steps / 1000, mean, color=color, linewidth=2.2, label=label)
        if solved is not None and env in random_scores():  # the depths of the first evaluations are not what matters
            low = random_scores()[env]
            ax.set_ylim(bottom=max(ax.get_ylim()[0], low - (solved - low) / 2))
        ax.set_title(f"{env}, {len(runs)} seeds", fontsize=9)
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    add_legend(figure, list(handles.values()), list(handles))
    figure.savefig(path, dpi=150)


def draw_settings(path: Path) -> None:
    """Learning curves with the paper's settings and with those that were searched for: means over seeds, and quartiles."""
    curves = [("evidence", "span", "--"), ("evidence", "mlp", "--"), ("tuned", "span-tuned", "-"), ("tuned", "mlp-tuned", "-")]
    studies = {name: load_study(RESULTS / name) for name in ("evidence", "tuned")}
    envs = [env for env in studies["evidence"].envs if env in studies["tuned"].envs]
    figure, axes = make_panels(len(envs), width=3.6)
    for ax, env in zip(axes, envs, strict=True):
        expert, low, highest = thresholds(env)[100], random_scores()[env], -np.inf
        ax.axhline(expert, color="#8b949e", linewidth=1, linestyle=":", label="the expert's score")
        seeds = []
        for name, method, style in curves:
            label, color = METHODS[method.removesuffix("-tuned")]
            runs = studies[name].finished(env, method)
            returns = np.array([run.means for run in runs])
            steps = runs[0].steps / 1000
            settings = "the paper's settings" if name == "evidence" else "tuned"
            bottom, top = np.quantile(returns, [0.25, 0.75], axis=0)
            ax.fill_between(steps, bottom, top, color=color, alpha=0.13, linewidth=0)
            ax.plot(steps, returns.mean(axis=0), color=color, linewidth=2, linestyle=style, label=f"{label}, {settings}")
            highest = max(highest, expert, top.max())
            seeds.append(len(runs))
        # The depths of the first evaluations are not what matters.
        ax.set_ylim(max(ax.get_ylim()[0], low - (expert - low) / 2), highest + 0.05 * (expert - low))
        paper, tuned = min(seeds[:2]), min(seeds[2:])
        ax.set_title(f"{env}, {paper} seeds" if paper == tuned else f"{env}, {paper} and {tuned} seeds", fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    add_legend(figure, handles[1:] + handles[:1], labels[1:] + labels[:1])
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    draw_bases(IMAGES / "bases.png")
    draw_mode(IMAGES / "mode.png")
    draw_slopes(IMAGES / "slopes.png")
    draw_methods(IMAGES / "untuned.png", "untuned")
    draw_settings(IMAGES / "settings.png")
