"""``sb3-span hvac report``: training, and the controlled years, as tables, figures and a page."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from rich.console import Console

from sb3_span.hvac import figures
from sb3_span.hvac.buildings import DATA_CENTER, DEFAULT
from sb3_span.hvac.controllers import REFERENCES
from sb3_span.hvac.monthly import WHOLE_YEAR, savings
from sb3_span.hvac.results import Results, Years, load_results
from sb3_span.report.formats import NOTHING, count, fixed, label, mean_std
from sb3_span.report.load import Run
from sb3_span.report.page import write_pages
from sb3_span.report.sections import Section, machines_of, progress
from sb3_span.report.statistics import MIN_SEEDS
from sb3_span.report.style import STYLE
from sb3_span.report.tables import Cell, Table
from sb3_span.scores.references import paper

# Comparisons: savings of the first relative to the second.
COMPARED = [("span", "mlp"), ("span", "rule"), ("span", "fixed"), ("mlp", "rule"), ("mlp", "fixed"), ("rule", "fixed")]
PAPER_YEARS, PAPER_SEEDS = 10, 5


def write_report(folder: Path) -> Path:
    """
    Write ``report.html``, ``report.md``, ``tables`` and ``figures`` into the subfolder ``report``.

    :param folder: The folder of ``sb3-span hvac train``
    :return: The page
    """
    results = load_results(folder)
    output = folder / "report"

    def build(figures: Path) -> list[Section]:
        years = [_years(years, figures) for years in results.sites]
        return [_training(results, figures), *years, _cost(results), _method(results)]

    with mpl.rc_context(STYLE):
        write_pages(output, f"Controllers of {results.env_id}", build)
    Console().print(f"Written: {output / 'report.html'}", markup=False, soft_wrap=True)
    return output / "report.html"


def _training(results: Results, folder: Path) -> Section:
    runs = [run for method in results.study.methods for run in results.study.select(results.env_id, method)]
    frame = pd.DataFrame(
        [
            {"method": run.method, "seed": run.seed, "training_year": year, "return": value, "normalised_return": normalised}
            for run in runs
            for year, value, normalised in zip(
                range(1, len(run.means) + 1), run.means, _normalised(results, run.means), strict=True
            )
        ]
    )
    text = [
        progress(results.study),
        "The return of a year is the sum of its rewards, which penalise power and temperatures outside the comfort range. "
        "Normalised, 0 is a year with fixed set points and 1 would be one without any penalty.",
        f"Nothing is said to be better than something else on fewer than {MIN_SEEDS} seeds of either.",
    ]
    picture = figures.returns(results, folder)
    return Section("Training", text, tables=[_returns(results, frame)], pictures=[picture] if picture else [])


def _returns(results: Results, frame: pd.DataFrame) -> Table:
    years = sorted(set(frame["training_year"]))
    rows = []
    for method, group in frame.groupby("method", sort=False):
        cells = []
        for year in years:
            values = group[group.training_year == year]
            in_units = mean_std(values["return"].mean(), values["return"].std())
            cells.append(Cell(f"{fixed(values['normalised_return'].mean(), 3)} ({in_units})" if len(values) else NOTHING))
        rows.append([Cell(results.env_id), Cell(label(str(method))), *cells, Cell(str(group["seed"].nunique()))])
    for name in ("rule", "fixed"):
        for year_of in results.home.of(name) if results.home else []:
            total = np.array([year_of.total_reward])
            text = f"{fixed(float(_normalised(results, total)[0]), 3)} ({mean_std(total[0], np.nan)})"
            rows.append([Cell(results.env_id), Cell(name), *[Cell(text)] * len(years), Cell(NOTHING)])
    columns = ["environment", "controller", *(f"after year {year}" for year in years), "seeds"]
    note = "Normalised returns, and in brackets the returns: mean ± standard deviation over seeds."
    return Table("returns", "Returns of evaluation years", frame, columns, rows, note)


def _normalised(results: Results, returns: np.ndarray) -> np.ndarray:
    normalised = results.normalised(returns)
    return np.full(len(returns), np.nan) if normalised is None else normalised


def _years(years: Years, folder: Path) -> Section:
    building = years.site.building
    low, high = building.winter
    comfort = f"{low:g} to {high:g} °C"
    if building.summer != building.winter:
        comfort += f", and {building.summer[0]:g} to {building.summer[1]:g} °C from June to September"
    text = [f"A year under each controller; the comfort range is {comfort}. A step is outside when any zone is."]
    agents = [name for name in years.controllers if name not in REFERENCES]
    if agents:
        seeds = {name: ", ".join(str(year.seed) for year in years.of(name)) for name in agents}
        shown = ", ".join(f"{label(name)} (seeds {numbers})" for name, numbers in seeds.items())
        text.append(f"Agents are those of the end of training: {shown}.")
    pictures = [draw(years, folder) for draw in (figures.temperatures, figures.violations, figures.power)]
    return Section(f"A year on {years.site.env_id}", text, tables=[_violations(years), _power(years)], pictures=pictures)


def _violations(years: Years) -> Table:
    papers = _paper(years, {"span": "span_violation_pct", "mlp": "mlp_violation_pct"})
    rows = []
    for controller in years.controllers:
        cells = []
        for month in years.months:
            outside, below, mean = (
                100 * years.by_month(controller, column).loc[month].mean() for column in ("outside", "below", "mean_outside")
            )
            parts = [f"{below:.2f} below"] * bool(below >= 0.005) + [f"mean of zones {mean:.2f}"] * (month == WHOLE_YEAR)
            text = f"{outside:.2f}" + (f" ({', '.join(parts)})" if parts else "")
            cells.append(Cell(text, papers.get((controller, month), "")))
        rows.append([Cell(years.site.env_id), Cell(label(controller)), *cells])
    columns = ["environment", "controller", *map(figures.month_name, years.months)]
    note = "Per cent of the steps, means over seeds. What is below the range is in brackets; all the rest is above it."
    name = f"violations_{years.site.env_id}"
    return Table(name, "Comfort violations by month, %", years.tidy(), columns, rows, note)


def _power(years: Years) -> Table:
    means = pd.DataFrame({controller: years.by_month(controller, "power").mean(axis=1) for controller in years.controllers})
    papers = _paper(years, {"saving": "span_energy_saving_pct"})
    rows = [
        [Cell("mean power, kW"), Cell(label(name)), *(Cell(f"{means[name][month] / 1000:.2f}") for month in years.months)]
        for name in years.controllers
    ]
    for name, other in COMPARED:
        if {name, other} <= set(means):
            saved = savings(means[name], means[other])
            means[f"saving_{name}_{other}_pct"] = saved
            compared = f"{label(name)} relative to {label(other)}"
            is_papers = (name, other) == ("span", "mlp")
            cells = [
                Cell(f"{saved[month]:+.1f}", papers.get(("saving", month), "") if is_papers else "") for month in years.months
            ]
            rows.append([Cell("saved, %"), Cell(compared), *cells])
    columns = ["", "controller", *map(figures.month_name, years.months)]
    note = "Of heating, ventilation and cooling, without the servers. Means over seeds; negative where more power is used."
    name = f"power_{years.site.env_id}"
    return Table(name, "Power by month", means.reset_index(), columns, rows, note)


def _paper(years: Years, columns: dict[str, str]) -> dict[tuple[str, str], str]:
    """The paper's figures, which it has for its data centre in the mixed climate only, by column and month."""
    if years.site.env_id != DEFAULT:
        return {}
    table = paper("hvac_monthly")
    return {
        (name, str(number)): f"{value:g}"
        for name, column in columns.items()
        for number, value in enumerate(table[column], start=1)
        if not np.isnan(value)
    }


def _cost(results: Results) -> Section:
    rows, frame = [], []
    for method in results.study.methods:
        runs = results.study.finished(results.env_id, method)
        if not runs:
            continue
        first, later = (float(np.mean([seconds(run) for run in runs])) for seconds in (_first_year, _later_years))
        whole = (first + (PAPER_YEARS - 1) * later) / 3600
        parameters = runs[0].settings.get("n_parameters", np.nan)
        row = {"method": method, "parameters": parameters, "seeds": len(runs), "years": len(runs[0].steps)}
        frame.append({**row, "first_year_seconds": first, "later_year_seconds": later, "ten_years_hours": whole})
        texts = [count(parameters), str(len(runs)), str(row["years"]), fixed(first / 60), fixed(later / 60)]
        cells = [*texts, fixed(whole), fixed(PAPER_SEEDS * whole)]
        rows.append([Cell(results.env_id), Cell(label(method)), *map(Cell, cells)])
    columns = ["environment", "method", "parameters", "seeds", "years", "first year, min", "a later year, min"]
    columns += [f"{PAPER_YEARS} years, h", f"with {PAPER_SEEDS} seeds, h"]
    note = "Minutes and hours of one core, of training without evaluation; the first year is mostly random actions."
    if not rows:
        return Section("What it costs", ["No run is finished yet."])
    table = Table("cost", "Time of training", pd.DataFrame(frame), columns, rows, note)
    text = (
        f"Measured on {'; '.join(machines_of(results.study))}. The last two columns are what the paper's protocol would take."
    )
    return Section("What it costs", [text], tables=[table])


def _first_year(run: Run) -> float:
    return float(run.seconds[0])


def _later_years(run: Run) -> float:
    """Seconds of a training year after the first; of the first if there is no other."""
    return float(run.seconds[-1] - run.seconds[0]) / (len(run.seconds) - 1) if len(run.seconds) > 1 else _first_year(run)


def _method(results: Results) -> Section:
    text = [
        "Simulated with EnergyPlus, through Sinergym. Trained agents act without noise, and observations are normalised with "
        "the same constants for all of them. The fixed set points are those of the building's file.",
    ]
    if results.sites and results.sites[0].site.building is DATA_CENTER:
        text.append(
            "The reward is the paper's: half of 5e-5 for each watt, and half of each degree by which a zone is outside the "
            "range. The paper's figures are means over five seeds at the end of ten years; a cell without one has none there."
        )
    return Section("How it was measured", text)
