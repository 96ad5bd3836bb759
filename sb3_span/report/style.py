"""The figures' style: one colour per method, for light and dark pages, and the same words everywhere."""

import re
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GRID, BACKGROUND = "#24292f", "#d8dee4", "#ffffff"
# SPAN's and the MLP's first, then those of further methods; each for a light and for a dark page.
PALETTE = [
    ("#1b6ca8", "#5cb0ee"),
    ("#c8553d", "#f58a70"),
    ("#2e8b57", "#5fcf8f"),
    ("#7a5195", "#c39be0"),
    ("#a8780a", "#e3b341"),
    ("#00808a", "#4fd1d6"),
    ("#b0467e", "#f08ac0"),
    ("#5f6b76", "#a9b4be"),
]
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 2.2,
    "figure.constrained_layout.use": True,
    "figure.facecolor": BACKGROUND,
    "axes.facecolor": "none",
    # Equal figures give equal files.
    "svg.hashsalt": "sb3_span",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Picture:
    """
    A figure that was written to a file.

    :param name: The file's name without its ending
    :param alt: A description for readers who cannot see it
    :param svg: The drawing for a page, with the page's colours
    """

    name: str
    alt: str
    svg: str


def method_colors(methods: list[str]) -> dict[str, int]:
    """
    :return: The place of each method in the palette: SPAN's and MLP's are always the same
    """
    fixed = {"span": 0, "mlp": 1}
    further = [method for method in methods if method not in fixed]
    return {**fixed, **{method: 2 + i % (len(PALETTE) - 2) for i, method in enumerate(further)}}


def new_figure(width: float = 5.4, height: float = 3.5) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def save(figure: Figure, folder: Path | None, name: str, alt: str) -> Picture:
    """Write a figure as PNG and SVG, if there is a folder for it."""
    if folder is None:
        return Picture(name, alt, "")
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
    stream = BytesIO()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out: once is enough
    figure.savefig(folder / f"{name}.png", dpi=160)
    figure.savefig(stream, format="svg", metadata=dict.fromkeys(["Creator", "Date", "Format", "Type"]))
    svg = stream.getvalue().decode()
    (folder / f"{name}.svg").write_text(svg)
    return Picture(name, alt, _for_page(svg))


def end_labels(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """
    Write names next to the ends of lines, moved apart where they would overlap.

    :param ends: Of each line: x and y of its end, its name, its colour
    """
    if not ends:
        return
    low, high = axes.get_ylim()
    gap = 0.085 * (high - low)
    ordered = sorted(ends, key=lambda end: end[1])
    heights: list[float] = []
    for _, y, _, _ in ordered:
        heights.append(max(y, heights[-1] + gap) if heights else y)
    # Back down by half of the topmost one's shift, then below the upper edge.
    shift = max((heights[-1] - ordered[-1][1]) / 2, heights[-1] - high)
    x = max(end[0] for end in ends)
    for (_, _, text, color), y in zip(ordered, heights, strict=True):
        axes.annotate(
            text,
            (x, y - shift),
            (6, 0),
            textcoords="offset points",
            color=color,
            va="center",
            weight="bold",
            annotation_clip=False,
        )


def css_variables(dark: bool) -> str:
    """The colours that the drawings in a page use, as CSS."""
    return " ".join(f"--method-{i}: {pair[dark]};" for i, pair in enumerate(PALETTE))


def _for_page(svg: str) -> str:
    """A drawing in the page's light or dark colours, as wide as its place."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    svg = svg.replace(f"fill: {BACKGROUND}", "fill: none").replace(INK, "var(--ink)").replace(GRID, "var(--grid)")
    for i, (light, _) in enumerate(PALETTE):
        svg = svg.replace(light, f"var(--method-{i})")
    return svg
