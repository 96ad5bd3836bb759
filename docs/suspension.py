"""
The pictures and tables of docs/suspension.md, from results/suspension: python docs/suspension.py

docs/suspension_measure.py has written the records there.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sb3_span.atomic_files import write_text
from sb3_span.plants.quarter_car import QuarterCar
from sb3_span.plants.suspension import SCALES
from sb3_span.plants.suspension_control import output_feedback_gains
from sb3_span.saved import load_trained

IMAGES = Path(__file__).parent / "images"
RECORDS = Path(__file__).parents[1] / "results" / "suspension"
NAMES = {
    "passive": "passive",
    "skyhook": "skyhook",
    "linear": "best linear function of the observations",
    "lqr": "LQR, knows the whole state",
    "span": "SPAN, 1,603 parameters",
    "mlp": "MLP, 1,599 parameters",
    "mlp-64": "SB3's MLP, 9,219 parameters",
}
COLORS = {"passive": "#8b949e", "skyhook": "#e0a458", "lqr": "#c8553d", "span": "#1b6ca8"}
SHORT = {"passive": "passive", "skyhook": "skyhook", "lqr": "LQR", "span": "SPAN"}
# Heading, column, factor, digits.
MEASURES = {
    "cost, which agents and LQR minimise (minus the mean reward)": ("cost", 1, 3),
    "weighted acceleration, m/s²": ("weighted", 1, 2),
    "travel, % of the limit": ("travel", 100, 1),
    "on the stops, % of the time": ("on_stops", 100, 1),
    "tyre force, % of the weight": ("tyre_force", 100, 1),
    "off the road, % of the time": ("airborne", 100, 1),
}
ROOT_MEAN_SQUARES = ("weighted", "travel", "tyre_force")


def pool(rides: pd.DataFrame, column: str) -> float:
    """Several drives as one long one."""
    values = rides[column]
    return float(np.sqrt((values**2).mean()) if column in ROOT_MEAN_SQUARES else values.mean())


def cell(rides: pd.DataFrame, column: str, factor: float, digits: int) -> str:
    """A method's mean over agents, and its standard deviation."""
    values = [factor * pool(group, column) for _, group in rides.groupby("agent")]
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}".replace(" ", "\N{NO-BREAK SPACE}")


def table(header: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, ["---"] * len(header), *rows])


def write_tables(rides: pd.DataFrame) -> None:
    roads = list(dict.fromkeys(rides.road))
    parts = []
    for heading, (column, factor, digits) in MEASURES.items():
        shown = [road for road in roads if road != "bump"] if column == "cost" else roads  # which is no drive to average over
        rows = []
        for method, name in NAMES.items():
            of_method = rides[rides.method == method]
            rows.append([name, *(cell(of_method[of_method.road == road], column, factor, digits) for road in shown)])
        parts.append(f"{heading}:\n\n" + table(["", *shown], rows))
    write_text(RECORDS / "roads.md", "\n".join(parts))

    as_in_training = rides[rides.road.isin(["C", "D"])]
    masses = sorted(rides.body_mass.unique())
    rows = []
    for method, name in NAMES.items():
        of_method = as_in_training[as_in_training.method == method]
        rows.append([name, *(cell(of_method[of_method.body_mass == mass], "cost", 1, 3) for mass in masses)])
    write_text(RECORDS / "masses.md", table(["", *(f"{mass:.0f} kg" for mass in masses)], rows))

    rows = []
    for _, row in pd.read_csv(RECORDS / "device.csv").iterrows():
        needs = [f"{row[name]:,.0f}" for name in ("instructions", "most_instructions", "flash", "ram")]
        rows.append([NAMES[row["method"]], *needs, f"{100 * row['instructions'] / 168_000:.1f} %"])
    header = ["", "instructions, mean", "most", "bytes of flash", "of RAM", "of 168,000"]
    write_text(RECORDS / "device.md", table(header, rows))


def draw_road(path: Path) -> None:
    """Body acceleration over the bump and over a road."""
    traces = pd.read_csv(RECORDS / "traces.csv.gz")
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 5), layout="constrained", height_ratios=[1, 3], width_ratios=[2, 3], sharex="col"
    )
    for (top, ax), road, (start, end), title in zip(
        axes.T, ("bump", "B"), ((1.4, 3.2), (1.0, 5.0)), ("a bump", "a road of class B"), strict=True
    ):
        of_road = traces[(traces.road == road) & (traces.time >= start) & (traces.time <= end)]
        one = of_road[of_road.controller == "passive"]
        top.fill_between(one.time, 100 * one.height, 100 * one.height.min() - 0.5, color="#d0d7de")
        top.plot(one.time, 100 * one.height, color="#6a737d", linewidth=1)
        top.set_title(title, fontsize=10)
        for name in ("passive", "lqr", "span"):
            values = of_road[of_road.controller == name]
            ax.plot(values.time, values.acceleration, color=COLORS[name], linewidth=1.6, label=SHORT[name])
        ax.axhline(0, color="#d0d7de", linewidth=0.8, zorder=0)
        ax.set_xlabel("seconds, at 20 m/s")
        ax.set_xlim(start, end)
        for each in (top, ax):
            each.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("road, cm")
    axes[1, 0].set_ylabel("body acceleration, m/s²")
    axes[1, 0].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


def draw_density(path: Path) -> None:
    """Power spectral density of the body's acceleration."""
    densities = pd.read_csv(RECORDS / "densities.csv")
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ax.axvspan(4, 8, color="#fff3d6", zorder=0)
    where = ax.get_xaxis_transform()
    note: dict[str, Any] = dict(ha="center", fontsize=8, transform=where)
    ax.text(np.sqrt(32), 0.05, "where people feel\nit most (Wk)", color="#8a6d1f", **note)
    for name, color in COLORS.items():
        ax.loglog(densities.frequency, densities[name], color=color, linewidth=1.8, label=SHORT[name])
    body, wheel = QuarterCar().natural_frequencies
    for frequency, what in ((body, "body"), (wheel, "wheel")):
        ax.axvline(frequency, color="#8b949e", linewidth=0.8, linestyle=":")
        ax.text(frequency, 1.01, f"{what}, {frequency:.1f} Hz", **note)
    ax.set(xlabel="Hz", ylabel="body acceleration, (m/s²)²/Hz", xlim=(0.3, 40))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


def draw_policy(path: Path) -> None:
    """The command over body velocity and body acceleration, the other observations 0: SPAN and the best linear function."""
    car, policy = QuarterCar(), load_trained(RECORDS / "agent.safetensors").policy
    x, y = np.meshgrid(np.linspace(-2.5, 2.5, 61), np.linspace(-2.5, 2.5, 61))
    observations = np.zeros((x.size, len(SCALES)), np.float32)
    observations[:, 0], observations[:, 1] = x.ravel(), y.ravel()
    commands = {
        "SPAN": policy.predict(observations, deterministic=True)[0],
        "best linear function": np.clip(observations @ output_feedback_gains(car)[:, None], -1, 1),
    }
    figure = plt.figure(figsize=(10, 4.6), layout="constrained")
    for i, (name, values) in enumerate(commands.items()):
        ax = figure.add_subplot(1, 2, i + 1, projection="3d")
        force = values.reshape(x.shape) * car.force_limit
        ax.plot_surface(
            x * SCALES[0], y * SCALES[1], force, cmap="RdBu_r", vmin=-1500, vmax=1500, linewidth=0, rcount=61, ccount=61
        )
        ax.set(xlabel="body acceleration, m/s²", ylabel="body velocity, m/s", zlabel="command, N", zlim=(-1500, 1500))
        ax.set_title(name, fontsize=11)
        ax.view_init(24, -50)
        ax.set_box_aspect(None, zoom=0.85)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    write_tables(pd.read_csv(RECORDS / "rides.csv", keep_default_na=False))
    draw_road(IMAGES / "suspension_road.png")
    draw_density(IMAGES / "suspension_density.png")
    draw_policy(IMAGES / "suspension_policy.png")
