"""What an agent has learned, as a picture."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from sb3_span.atomic_files import written_whole
from sb3_span.inspection.networks import Network
from sb3_span.inspection.slices import Slice

COLORS = ("#1b6ca8", "#c8553d", "#5a9367", "#8e6bbf", "#d9a441", "#7a7a7a")
MOST_PANELS = 12
MOST_NAMES = 24
ROLES = {"pi": "the actor", "vf": "the critic", "qf": "the critic", "features": "the features"}


def draw(
    title: str,
    network: Network,
    inputs: th.Tensor,
    input_names: list[str],
    n_modes: int,
    slice_: Slice | None,
    observations: np.ndarray,
    observation_names: list[str],
    action_names: list[str],
    is_discrete: bool,
    states: str = "the states seen",
) -> Figure:
    """
    :param title: The picture's title
    :param network: The network whose W_pre and splines to draw
    :param inputs: Its inputs, shape (B, inputs)
    :param input_names: One for each input
    :param n_modes: Number of modes to draw, of each group of dimensions
    :param slice_: The slice through policy and value; None when there is none to draw
    :param observations: The states seen, shape (B, D)
    :param observation_names: One for each number of an observation
    :param action_names: One for each action
    :param is_discrete: Whether the slice's actions are probabilities
    :param states: A name for the observations
    """
    panels = _choose_panels(network, inputs, n_modes)
    rows = 1 if len(panels) <= 4 else 2
    figure = Figure(figsize=(13, 4.6 + 2.3 * rows), layout="constrained")
    figure.suptitle(title, fontsize=15, fontweight="bold")
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[4.4, 2.3 * rows], hspace=0.03)[:, 0]
    axes = top.subplots(1, 3 if slice_ else 1, width_ratios=[1, 1, 1] if slice_ else None, squeeze=False)[0]
    _draw_weights(axes[0], network, input_names)
    if slice_ is not None:
        _draw_policy(axes[1], slice_, action_names, is_discrete)
        _draw_value(axes[2], slice_)
        for ax in axes[1:]:
            _finish_slice(ax, slice_, observations, observation_names)
        others = "; the other observations are at their medians" if len(observation_names) > 2 else ""
        top.supxlabel(f"dots: {states}{others}", x=0.99, ha="right", fontsize=9, color="0.4")
    _draw_splines(bottom, network, inputs, input_names, rows, panels, states)
    return figure


def _draw_weights(ax: Axes, network: Network, names: list[str]) -> None:
    ax.set_title(f"$W_{{pre}}$ of {ROLES[network.role]}")
    if network.weight is None:
        ax.text(0.5, 0.5, f"none: preprocess={network.span.arch.preprocess!r}", ha="center", va="center")
        ax.axis("off")
        return
    weight = network.weight.numpy()
    limit = np.abs(weight).max() or 1.0
    # Transposed, so that the names can be read.
    image = ax.imshow(weight.T, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    step = math.ceil(len(names) / MOST_NAMES)
    ax.set_yticks(range(0, len(names), step), names[::step])
    step = math.ceil(len(weight) / (MOST_NAMES // 2))  # side by side they need more room
    ax.set_xticks(range(0, len(weight), step), [f"$z_{{{dim + 1}}}$" for dim in range(0, len(weight), step)])
    if weight.size <= 64:
        for (row, column), value in np.ndenumerate(weight.T):
            color = "white" if abs(value) > 0.6 * limit else "0.2"
            ax.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=9, color=color)
    else:
        ax.tick_params(labelsize=8)
        ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _draw_policy(ax: Axes, slice_: Slice, names: list[str], is_discrete: bool) -> None:
    options: dict[str, Any] = dict(
        origin="lower",
        extent=(slice_.x[0], slice_.x[-1], slice_.y[0], slice_.y[-1]),
        aspect="auto",
        interpolation="bilinear",
    )
    if is_discrete:
        # Each action has a colour, and a state their mixture, weighted by the probabilities.
        palette = np.array([to_rgb(COLORS[i % len(COLORS)]) for i in range(len(names))])
        ax.imshow(np.clip(slice_.actions @ palette, 0, 1), **options)
        # Actions that are never likely here need no entry.
        likely = slice_.actions.max(axis=(0, 1)) > 0.3
        handles = [Patch(color=palette[i], label=name) for i, name in enumerate(names) if likely[i]]
        ax.legend(handles=handles, loc="upper right", fontsize=9, framealpha=0.85, handlelength=1)
        ax.set_title("Policy: which action")
    else:
        # Of several actions, the one that varies most.
        action = int(slice_.actions.std(axis=(0, 1)).argmax())
        limit = np.abs(slice_.actions[..., action]).max() or 1.0
        image = ax.imshow(slice_.actions[..., action], cmap="PuOr_r", vmin=-limit, vmax=limit, **options)
        ax.figure.colorbar(image, ax=ax, shrink=0.85)
        ax.set_title(f"Policy: {names[action]}")


def _draw_value(ax: Axes, slice_: Slice) -> None:
    image = ax.pcolormesh(slice_.x, slice_.y, slice_.values, cmap="viridis", shading="gouraud", rasterized=True)
    ax.contour(slice_.x, slice_.y, slice_.values, levels=8, colors="white", linewidths=0.6, alpha=0.7)
    ax.figure.colorbar(image, ax=ax, shrink=0.85)
    ax.set_title("Value: discounted return that the critic expects")


def _finish_slice(ax: Axes, slice_: Slice, observations: np.ndarray, names: list[str]) -> None:
    first, second = slice_.dims
    ax.scatter(observations[:, first], observations[:, second], s=3, color="black", alpha=0.25, linewidths=0, rasterized=True)
    ax.set(xlabel=names[first], ylabel=names[second])
    ax.set(xlim=(slice_.x[0], slice_.x[-1]), ylim=(slice_.y[0], slice_.y[-1]))


@dataclass(frozen=True)
class Panel:
    """
    :param dim: The latent dimension that it shows
    :param modes: The modes
    :param is_first: Whether the panels before it show other modes
    """

    dim: int
    modes: list[int]
    is_first: bool


def _choose_panels(network: Network, inputs: th.Tensor, n_modes: int) -> list[Panel]:
    """The groups of dimensions with the strongest modes, as many as fit; part of a group that is too large."""
    span = network.span
    of_groups = network.strengths(inputs).split(span.arch.nmodes)
    z = network.latent(inputs)
    panels: list[Panel] = []
    for group in th.stack([strengths.sum() for strengths in of_groups]).argsort(descending=True).tolist():
        strongest = of_groups[group].argsort(descending=True)[:n_modes].tolist()
        modes = [group * span.arch.nmodes + mode for mode in strongest]
        dims = th.tensor(network.dimensions(modes[0]))
        # Those that vary most, when there are more than fit.
        variation = _relative(network, z, z)[:, dims][..., strongest].std(dim=0, correction=0).sum(dim=1)
        shown = sorted(dims[variation.argsort(descending=True)[:MOST_PANELS]].tolist())
        if len(panels) + len(shown) > MOST_PANELS:
            break
        panels += [Panel(dim, modes, dim == shown[0]) for dim in shown]
    return panels


def _relative(network: Network, z: th.Tensor, seen: th.Tensor) -> th.Tensor:
    """
    A constant factor may belong to any spline of a product, so each is drawn relative to its size in the states seen.

    :param z: Shape (B, D)
    :param seen: Shape (number of states, D)
    :return: Shape (B, D, M)
    """
    return network.splines(z) / network.splines(seen).square().mean(dim=0).sqrt().clamp(min=1e-12)


def _draw_splines(
    figure: SubFigure,
    network: Network,
    inputs: th.Tensor,
    names: list[str],
    rows: int,
    panels: list[Panel],
    states: str,
) -> None:
    z = network.latent(inputs)  # (B, D)
    strengths = network.strengths(inputs)
    share = (strengths / strengths.sum().clamp(min=1e-12)).tolist()
    grid = th.linspace(0, 1, 401)
    everywhere = grid[:, None].expand(-1, z.shape[1])
    curves = _relative(network, everywhere, z)  # (401, D, M)

    columns = math.ceil(len(panels) / rows)
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).flatten()
    for ax in axes[len(panels) :]:
        ax.axis("off")
    gaps = network.gaps()
    for ax, panel in zip(axes, panels, strict=False):
        dim, own = panel.dim, [mode % network.span.arch.nmodes for mode in panel.modes]
        _draw_dimension(ax, grid.numpy(), curves[:, dim, own].numpy(), z[:, dim].numpy())
        if dim in gaps:
            empty = network.splines(everywhere)[:, dim].abs().amax(dim=1) == 0
            ax.fill_between(grid, 0, 1, where=empty.numpy(), transform=ax.get_xaxis_transform(), color="#d62728", alpha=0.2)
        # With many panels there is only room for one name in a line.
        between = ", " if columns <= 4 else ",\n"
        ax.set_title(f"$z_{{{dim + 1}}}$" + _mostly(network, inputs, names, dim, between), fontsize=10 if columns <= 4 else 9)
        if panel.is_first:
            labels = [f"mode {mode + 1} ({100 * share[mode]:.0f} %)" for mode in panel.modes]
            # Steep lines may leave no free corner: names must be readable across them.
            frame = dict(framealpha=0.8, edgecolor="none", borderpad=0.1)
            ax.legend(ax.get_lines()[: len(labels)], labels, fontsize=8, loc="best", handlelength=1.2, **frame)
    for ax in axes[max(0, len(panels) - columns) : len(panels)]:
        ax.set_xlabel("z")
        ax.tick_params(labelbottom=True)  # also above an empty place
    of = f" ({len(panels)} of {z.shape[1]} latent dimensions)" if len(panels) < z.shape[1] else ""
    group_size = network.span.group_size
    if group_size == z.shape[1]:
        what = "strongest modes"
    else:
        what = "strongest latent dimensions" if group_size == 1 else f"strongest groups of {group_size} latent dimensions"
    figure.suptitle(f"Splines of {ROLES[network.role]}'s {what}; grey and bold: {states}{of}", fontsize=12)


def _draw_dimension(ax: Axes, grid: np.ndarray, curves: np.ndarray, z: np.ndarray) -> None:
    low, high = np.percentile(z, [1, 99])
    seen = (grid >= low) & (grid <= high)
    counts, edges = np.histogram(z, bins=40, range=(0, 1))
    heights = 0.35 * counts / counts.max()  # of the panel
    ax.bar(edges[:-1], heights, np.diff(edges), align="edge", color="0.85", transform=ax.get_xaxis_transform())
    for i, curve in enumerate(curves.T):
        color = COLORS[i % len(COLORS)]
        ax.plot(np.where(seen, grid, np.nan), curve, color=color, linewidth=2.2)
    for i, curve in enumerate(curves.T):
        ax.plot(grid, curve, color=COLORS[i % len(COLORS)], linewidth=0.9, alpha=0.5)
    # Where the agent never was, a spline may have any value.
    inside = curves[seen] if seen.any() else curves
    bottom, top = min(inside.min(), 0.0), max(inside.max(), 1.0)
    ax.set(xlim=(0, 1), ylim=(bottom - 0.25 * (top - bottom), top + 0.25 * (top - bottom)), xticks=[0, 0.5, 1])
    ax.axhline(0, color="0.6", linewidth=0.7)
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def _mostly(network: Network, inputs: th.Tensor, names: list[str], dim: int, between: str) -> str:
    """The one or two inputs that move this latent dimension most."""
    if network.weight is None:
        return f": {names[dim]}"
    moves = network.weight[dim].abs() * inputs.std(dim=0)
    order = moves.argsort(descending=True).tolist()
    main = [index for index in order[:2] if moves[index] > 0.5 * moves[order[0]]]
    return ": mostly " + between.join(names[index] for index in main)


def save_figure(figure: Figure, output: Path) -> None:
    """
    :param figure: The picture
    :param output: Its file, whose ending is the format
    """
    try:
        with written_whole(output) as temporary:
            figure.savefig(temporary, dpi=150)
    except (OSError, ValueError) as error:
        raise ValueError(f"The picture cannot be written to {output}: {error}") from error
