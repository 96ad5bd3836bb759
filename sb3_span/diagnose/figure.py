"""A diagnosis as a picture."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_span.diagnose.diagnosis import Diagnosis
from sb3_span.diagnose.verdicts import in_words
from sb3_span.inspection.figure import COLORS

ROLE_COLORS = {"critic": COLORS[0], "actor": COLORS[1]}


def draw(title: str, diagnosis: Diagnosis, verdict: str) -> Figure:
    """
    :param title: The picture's title
    :param diagnosis: What to draw
    :param verdict: The most important of what is unusual, as a subtitle
    """
    figure = Figure(figsize=(13, 7.6), layout="constrained")
    figure.suptitle(f"{title}\n", fontsize=15, fontweight="bold")
    figure.text(0.5, 0.945, verdict, ha="center", va="top", fontsize=12, color="0.3")
    axes = figure.subplots(2, 2)
    _draw_returns(axes[0, 0], diagnosis)
    _draw_latents(axes[0, 1], diagnosis)
    _draw_ranks(axes[1, 0], diagnosis)
    _draw_steps(axes[1, 1], diagnosis)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_returns(ax: Axes, diagnosis: Diagnosis) -> None:
    compared = diagnosis.comparison
    ax.scatter(compared.returns, compared.values, s=6, alpha=0.35, linewidths=0, color=ROLE_COLORS["critic"], rasterized=True)
    ends = [min(compared.returns.min(), compared.values.min()), max(compared.returns.max(), compared.values.max())]
    ax.plot(ends, ends, color="0.4", linewidth=1.2, linestyle="--")
    ax.text(ends[1], ends[1], "as expected ", ha="right", va="bottom", color="0.4", fontsize=9)
    ax.set(xlabel="discounted return", ylabel="what the critic expected")
    numbers = diagnosis.numbers
    ax.set_title(f"Critic and return: {in_words(numbers['value'])} expected, {in_words(numbers['return'])} received")


def _draw_latents(ax: Axes, diagnosis: Diagnosis) -> None:
    ax.set_title("Where the states are in (0, 1): the middle 90 %")
    with_latents = {role: seen.latents for role, seen in diagnosis.seen.items() if seen.latents}
    if not with_latents:
        ax.text(0.5, 0.5, "an MLP has no latent dimensions", ha="center", va="center", color="0.4")
        ax.set(xticks=[], yticks=[])
        return
    place = 0
    for role, latents in with_latents.items():
        z = np.concatenate([each.numpy() for each in latents], axis=1)  # (B, C D)
        low, middle, high = np.percentile(z, [5, 50, 95], axis=0)
        places = place + np.arange(z.shape[1])
        ax.vlines(places, low, high, color=ROLE_COLORS[role], linewidth=5, alpha=0.7, label=role)
        ax.plot(places, middle, "o", color="white", markersize=2.5)
        place += z.shape[1] + 2
    ax.set(ylim=(0, 1), xticks=[], xlabel="latent dimension", ylabel="z")
    for text in ax.legend(ncols=2, loc="upper right", fontsize=9, framealpha=0.9, handlelength=0.6).get_texts():
        text.set_color(ROLE_COLORS[text.get_text()])


def _draw_ranks(ax: Axes, diagnosis: Diagnosis) -> None:
    numbers = diagnosis.numbers
    rows = []
    for role in diagnosis.seen:
        n, rank, dead = (numbers[f"{role}/{name}"] for name in ("features", "effective_rank", "dead_features"))
        rows.append((f"{role}: different features", rank / n, f"{rank:.1f} of {n:.0f}, {dead:.0f} dead", ROLE_COLORS[role]))
    for name, share in (("a batch", diagnosis.interference), ("a single state", diagnosis.interference_single)):
        rows.append((f"{name} moves the others", share, f"{share:.2f} times as far", COLORS[4]))
    for i, (_, share, text, color) in enumerate(rows):
        ax.barh(i, 1.0, color="0.92")
        ax.barh(i, min(share, 1.0) if np.isfinite(share) else 0.0, color=color)
        ax.text(0.02, i, text, va="center", fontsize=11, bbox=dict(facecolor="white", alpha=0.8, linewidth=0, pad=2))
    ax.set_yticks(range(len(rows)), [name for name, _, _, _ in rows])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xticks=[])
    ax.spines[["bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title("Effective rank of what the heads read, and interference")


def _draw_steps(ax: Axes, diagnosis: Diagnosis) -> None:
    rows: list[tuple[str, float, str]] = []
    for role, parts in diagnosis.steps.items():
        # Q-values and actions have different units: each role is relative to its largest.
        largest = max((step.change for step in parts.values()), default=0.0) or 1.0
        rows += [(f"{role}: {part}", step.change / largest, role) for part, step in parts.items()]
    for i, (_, share, role) in enumerate(rows):
        ax.barh(i, share, color=ROLE_COLORS[role])
    options: dict[str, Any] = dict(fontsize=9)
    ax.set_yticks(range(len(rows)), [name for name, _, _ in rows], **options)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.02), xlabel="relative to the part that moves most")
    ax.set_title("How far one update of a part alone moves the outputs")
