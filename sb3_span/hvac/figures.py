"""The figures: returns over training, and a year's temperatures, violations and power."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from sb3_span.hvac.buildings import OUTDOOR
from sb3_span.hvac.controllers import REFERENCES
from sb3_span.hvac.env import CALENDAR
from sb3_span.hvac.monthly import WHOLE_YEAR, savings
from sb3_span.hvac.results import Controlled, Results, Years
from sb3_span.report.formats import label
from sb3_span.report.style import INK, PALETTE, Picture, end_labels, method_colors, new_figure, save

OUTDOOR_COLOR = "#aab4be"
COMFORT_COLOR = PALETTE[2][0]
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HOURS = 4


def month_name(month: str) -> str:
    """
    :param month: "1" to "12", or "year"
    """
    return month if month == WHOLE_YEAR else MONTHS[int(month) - 1]


def controller_name(controller: str) -> str:
    return "fixed set points" if controller == "fixed" else label(controller)


def _colors(controllers: list[str]) -> dict[str, str]:
    """A colour for each controller: the rule has the one after SPAN's and the MLP's, fixed set points are grey."""
    agents = [name for name in controllers if name not in REFERENCES]
    places = {**method_colors(["rule", *agents]), "fixed": len(PALETTE) - 1}
    return {name: PALETTE[place][0] for name, place in places.items()}


def returns(results: Results, folder: Path) -> Picture | None:
    """Normalised return after each training year: the mean over seeds, every seed a dot, the references as lines."""
    if results.home is None or results.normalised(np.zeros(1)) is None:
        return None
    figure, axes = new_figure(6.4, 3.8)
    colors = _colors(results.study.methods)
    ends = []
    for method in results.study.methods:
        runs = results.study.select(results.env_id, method)
        if not runs:
            continue
        curves = pd.DataFrame({run.seed: pd.Series(results.normalised(run.means), index=run.steps) for run in runs})
        years = np.arange(1, len(curves) + 1)
        for seed in curves:
            axes.plot(years, curves[seed], "o", color=colors[method], ms=6, alpha=0.55, mew=0, clip_on=False)
        axes.plot(years, curves.mean(axis=1), color=colors[method])
        ends.append((float(years[-1]), float(curves.mean(axis=1).iloc[-1]), label(method), colors[method]))
    for name in ("rule", "fixed"):
        for year in results.home.of(name):
            height = float(results.normalised(np.array(year.total_reward)))  # type: ignore[arg-type]
            axes.axhline(height, color=colors[name], lw=1.2, ls="--")
            ends.append((ends[0][0] if ends else 1.0, height, controller_name(name), colors[name]))
    axes.set_xlim(0.8, max(end[0] for end in ends))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="training years", ylabel="normalised return")
    axes.set_title("Evaluation after each training year")
    end_labels(axes, ends)
    return save(figure, folder, "returns", "Normalised return of an evaluation year after each training year")


def temperatures(years: Years, folder: Path) -> Picture:
    """A panel for each controller: every zone's and the outdoor temperature over the year, and the comfort range."""
    shown = [years.of(controller)[0] for controller in years.controllers]
    n_rows = (len(shown) + 1) // 2
    figure = Figure(figsize=(11.0, 2.9 * n_rows), dpi=110)
    panels = list(figure.subplots(n_rows, 2, sharex=True, sharey=True, squeeze=False).flat)
    for axes, controlled in zip(panels, shown, strict=False):
        _draw_temperatures(axes, controlled, years)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes in panels[::2]:
        axes.set_ylabel("°C")
    for axes in panels[max(0, len(shown) - 2) : len(shown)]:  # the lowest existing one in either column
        axes.tick_params(labelbottom=True)
    marked = {"color": OUTDOOR_COLOR, "weight": "bold", "fontsize": 10, "va": "bottom"}
    panels[0].text(0.985, 0.04, "outdoors", transform=panels[0].transAxes, ha="right", **marked)
    last = panels[len(shown) - 1]  # fixed set points, which leave room
    marked["color"] = COMFORT_COLOR
    low = years.site.building.comfort(int(shown[0].year["month"].iloc[0]))[0]
    last.text(0.015, low, "comfort range", transform=last.get_yaxis_transform(), **marked)
    name = f"temperatures_{years.site.env_id}"
    return save(figure, folder, name, f"Indoor and outdoor temperatures over the year on {years.site.env_id}")


def _draw_temperatures(axes: Axes, controlled: Controlled, years: Years) -> None:
    building, year = years.site.building, controlled.year
    start = np.datetime64(f"{CALENDAR}-{year['month'].iloc[0]:02d}-{year['day'].iloc[0]:02d}", "m")
    per_hour = max(1, round(len(year) / (24 * len(year[["month", "day"]].drop_duplicates()))))
    times = start + (np.arange(1, len(year) + 1) * 60 // per_hour).astype("timedelta64[m]")
    sampled = slice(None, None, HOURS * per_hour)
    ranges = pd.DataFrame([building.comfort(month) for month in year["month"][sampled]])
    axes.fill_between(times[sampled], ranges[0], ranges[1], color=COMFORT_COLOR, alpha=0.13, lw=0)
    axes.plot(times[sampled], year[OUTDOOR][sampled], color=OUTDOOR_COLOR, lw=0.7, rasterized=True)
    color = _colors(years.controllers)[controlled.controller]
    for zone, alpha in zip(building.zones, (1.0, 0.55), strict=False):
        # Thousands of points each: as vector lines they would take megabytes.
        axes.plot(times[sampled], year[zone][sampled], color=color, lw=0.8, alpha=alpha, rasterized=True)
    seed = "" if controlled.controller in REFERENCES else f", seed {controlled.seed}"
    outside = controlled.months.loc[WHOLE_YEAR, "outside"]
    axes.set_title(f"{controller_name(controlled.controller)}{seed}", color=color)
    axes.set_title(f"{100 * outside:.2f} % outside the range", loc="right", fontsize=10, weight="normal")
    axes.set_xlim(times[0], times[-1])
    firsts = [np.datetime64(f"{CALENDAR}-{month:02d}-01", "m") for month in range(1, 13)]
    ticks = {first: name for first, name in zip(firsts, MONTHS, strict=True) if start <= first < times[-1]}
    if len(ticks) > 1:
        axes.set_xticks(list(ticks), list(ticks.values()), ha="left")


def violations(years: Years, folder: Path) -> Picture:
    """Share of steps outside the comfort range by month."""
    figure, axes = new_figure(9.0, 3.6)
    _bars(axes, years, "outside", scale=1.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_ylabel("steps outside the range")
    axes.set_title("Comfort violations by month")
    name = f"violations_{years.site.env_id}"
    return save(figure, folder, name, f"Share of steps outside the comfort range by month on {years.site.env_id}")


def power(years: Years, folder: Path) -> Picture:
    """Mean power by month, and above it SPAN's savings relative to the MLP."""
    figure, axes = new_figure(9.0, 3.6)
    _bars(axes, years, "power", scale=1e-3)
    axes.set_ylabel("mean HVAC power, kW")
    title = "Power by month"
    if {"span", "mlp"} <= set(years.controllers):
        means = {method: years.by_month(method, "power").mean(axis=1) for method in years.controllers}
        saved = savings(means["span"], means["mlp"])
        for place, month in enumerate(years.months[:-1]):
            height = max(mean[month] for mean in means.values()) / 1000
            axes.annotate(f"{saved[month]:+.1f}", (place, height), (0, 6), textcoords="offset points", ha="center", fontsize=9)
        axes.margins(y=0.12)
        title += ", and what SPAN saves relative to the MLP in %"
    axes.set_title(title)
    return save(figure, folder, f"power_{years.site.env_id}", f"Mean power by month on {years.site.env_id}")


def _bars(axes: Axes, years: Years, column: str, scale: float) -> None:
    """A group of bars for each month: the mean over seeds, every seed a dot."""
    months = years.months[:-1]
    width = 0.8 / len(years.controllers)
    colors = _colors(years.controllers)
    for i, controller in enumerate(years.controllers):
        table = scale * years.by_month(controller, column).loc[months]
        places = np.arange(len(months)) + (i - (len(years.controllers) - 1) / 2) * width
        axes.bar(places, table.mean(axis=1), 0.92 * width, color=colors[controller], label=controller_name(controller))
        if table.shape[1] > 1:
            for seed in table:
                axes.plot(places, table[seed], ".", color=INK, ms=3.5, alpha=0.7)
    axes.set_xticks(range(len(months)), [month_name(month) for month in months])
    axes.grid(axis="x", visible=False)
    axes.margins(x=0.01)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, handlelength=1, labelcolor="linecolor")
