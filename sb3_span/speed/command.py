"""The benchmark: measure, print, and write CSV files, pictures, and the tables of the documentation."""

import csv
import importlib.util
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch as th
from rich.console import Console
from rich.progress import track
from rich.table import Table

from sb3_span.atomic_files import written_whole
from sb3_span.provenance import machine
from sb3_span.speed import networks, studies, training
from sb3_span.speed.figure import draw
from sb3_span.speed.markdown import as_markdown
from sb3_span.speed.sbx import MISSING, is_installed

MEASUREMENTS = ("training", "vectorised", "predict", "critics", "growth", "memory", "studies", "evaluation", "offline")


def measure_speed(output: Path, hyperparams: Path, rounds: int = 20, only: Sequence[str] | None = None) -> None:
    """
    Time SPAN against the MLP it replaces, interleaved in this process and on one thread.

    :param output: Folder for the CSV files, the pictures, and ``tables.md``, which docs/speed.md includes
    :param hyperparams: Folder with ``span.yml`` and ``mlp.yml``
    :param rounds: Rounds for each comparison
    :param only: What to measure, out of ``MEASUREMENTS``; all of it by default. Pictures and tables include the folder's
        other results
    """
    has_offline = importlib.util.find_spec("d3rlpy") is not None
    if only is None:
        only = [name for name in MEASUREMENTS if name != "offline" or has_offline]
    for name in only:
        if name not in MEASUREMENTS:
            raise ValueError(f"--only is {name!r}; choose from {', '.join(MEASUREMENTS)}.")
    if "offline" in only and not has_offline:
        raise ValueError("--only is 'offline', which needs d3rlpy: pip install 'sb3_span[offline]'.")
    for name in ("span.yml", "mlp.yml"):
        if not (hyperparams / name).is_file():
            raise ValueError(f"There is no {hyperparams / name}. Name a folder that has it with --hyperparams.")
    output.mkdir(parents=True, exist_ok=True)
    console = Console()
    threads = th.get_num_threads()
    th.set_num_threads(1)
    try:
        results = _measure(hyperparams, rounds, only, console)
    finally:
        th.set_num_threads(threads)
    for name, rows in results.items():
        _write(output / f"{name}.csv", rows)
    others = {path.stem: _read(path) for path in output.glob("*.csv")}
    everything = {**others, **results}
    draw(everything, output)
    with written_whole(output / "tables.md") as temporary:
        temporary.write_text(as_markdown(everything))
    for table in _tables(results):
        console.print(table)
    console.print(f"Written to {output}: " + ", ".join(sorted(path.name for path in output.iterdir())))


def _measure(hyperparams: Path, rounds: int, only: Sequence[str], console: Console) -> dict[str, list[dict[str, Any]]]:
    results = {"machine": [{**machine(), "python": platform.python_version(), "torch": th.__version__}]}
    if "training" in only:
        ids = track(training.ENVIRONMENTS, "training", console=console)
        results["training"] = [training.time_training(hyperparams, env_id, rounds) for env_id in ids]
    measurements: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "vectorised": lambda: [
            training.time_training(hyperparams, training.VECTORISED[0], rounds, n_envs=n_envs)
            for n_envs in training.VECTORISED[1]
        ],
        "predict": lambda: [
            training.time_predict(hyperparams, env_id, rounds, observations)
            for env_id in training.PREDICTING
            for observations in training.OBSERVATIONS
        ],
        "critics": lambda: networks.time_critics(rounds),
        "growth": lambda: networks.time_growth(rounds),
        "memory": lambda: networks.measure_memory(hyperparams),
        "studies": lambda: studies.time_studies(hyperparams, min(rounds, 3)),
        "evaluation": lambda: [studies.time_evaluation(min(rounds, 3))],
    }
    chosen = [name for name in measurements if name in only]
    results.update({name: measurements[name]() for name in track(chosen, "networks", console=console)})
    if "offline" in only:
        from sb3_span.offline import benchmark as offline

        ids = track(offline.ENVIRONMENTS, "offline", console=console)
        results["offline"] = [offline.time_updates(hyperparams, env_id, rounds) for env_id in ids]
        results["offline_evaluation"] = [offline.time_evaluation(hyperparams, min(rounds, 5))]
    return results


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with written_whole(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()})


def _read(path: Path) -> list[dict[str, Any]]:
    def number(text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text

    with path.open(newline="") as file:
        return [{name: number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _ratio(row: dict[str, Any], prefix: str = "") -> str:
    middle, lower, upper = (row[f"{prefix}ratio{end}"] for end in ("", "_lower", "_upper"))
    return f"{middle:.2f} ({lower:.2f} - {upper:.2f})"


def _tables(results: dict[str, list[dict[str, Any]]]) -> Iterator[Table]:
    """A table for each thing that was measured."""
    if {"training", "vectorised", "predict"} & set(results):
        yield from _agent_tables(results)
    if "critics" in results:
        yield _critics_table(results["critics"])
    if "growth" in results:
        growth = Table("", "", "", "", "", "", title="(c) Forward and backward in us, as one size grows")
        for what in dict.fromkeys(row["grows"] for row in results["growth"]):
            rows = [row for row in results["growth"] if row["grows"] == what]
            growth.add_row(what, *(f"{row['value']}: {row['us']:.0f}" for row in rows))
        yield growth
    if "memory" in results:
        memory = Table("", "", "batch", "tensors, kB", "scratch, kB", title="(d) Peak allocation")
        for row in results["memory"]:
            peak, scratch = f"{row['peak_kB']:.0f}", f"{row['scratch_kB']:.0f}"
            memory.add_row(row["network"], row["what"], str(row["batch"]), peak, scratch)
        yield memory
    if "studies" in results:
        columns = ("", "steps", "in a study, s", "its records and checkpoints, s", "learn, s", "study relative to learn")
        around = Table(*columns, title="(e) A study around a run", caption="both with the same evaluations")
        for row in results["studies"]:
            seconds = (f"{row['study_s']:.1f}", f"{row['own_s']:.2f}", f"{row['plain_s']:.1f}")
            around.add_row(row["environment"], f"{row['steps']:,}", *seconds, _ratio(row))
        yield around
    if "evaluation" in results:
        around = Table(
            "", "episodes", "s", "the environments', s", "MuJoCo's alone, s", title="(f) An evaluation in full length"
        )
        for row in results["evaluation"]:
            times = (f"{row[name]:.1f}" for name in ("seconds", "environments_s", "physics_s"))
            around.add_row(row["environment"], str(row["episodes"]), *times)
        yield around
    if "offline" in results:
        yield _offline_table(results)


def _agent_tables(results: dict[str, list[dict[str, Any]]]) -> tuple[Table, Table]:
    machine, rows = results["machine"][0], results.get("training", [])
    where = f"{machine['processor']}, one thread, {machine['kernel']} kernel ({machine['instructions']})"

    def mean(prefix: str) -> str:
        ratios = [row[f"{prefix}ratio"] for row in rows if f"{prefix}ratio" in row]
        return f"{sum(ratios) / len(ratios):.2f}" if ratios else ""

    sb3 = Table("", "", "SPAN, us", "MLP, us", "SPAN relative to MLP", title=f"(a) A step of training, or of predict. {where}")
    columns = ("environment alone, us", "SPAN, us", "relative to SB3, MLP", "MLP, us", "relative to SB3, MLP")
    native = Table("", "", *columns, "SBX, MLP, us", "relative to SB3, MLP", title="In sb3_span's PPO and SAC, and in SBX's")
    for row in rows:
        _add_row(sb3, native, row, row["environment"])
    if rows:
        sb3.add_row("mean", "", "", "", mean(""))
        native.add_row("mean", "", "", "", mean("native_"), "", mean("native_mlp_"), "", mean("sbx_"))
    for row in results.get("vectorised", []):
        _add_row(sb3, native, row, f"{row['environment']}, {row['environments']} at once")
    for row in results.get("predict", []):
        _add_row(sb3, native, row, f"{row['environment']}, predict {row['observations']}")
    sb3.caption = "in SB3's PPO and SAC; medians over rounds, and the quartiles of the ratios within a round"
    native.caption = None if is_installed() else MISSING
    return sb3, native


def _add_row(sb3: Table, native: Table, row: dict[str, Any], name: str) -> None:
    sb3.add_row(name, row["algorithm"], f"{row['span_us']:.0f}", f"{row['mlp_us']:.0f}", _ratio(row))
    span = (f"{row['native_span_us']:.0f}", _ratio(row, "native_"))
    alone = f"{row['env_us']:.1f}" if "env_us" in row else ""
    sbx = (f"{row['sbx_us']:.0f}", _ratio(row, "sbx_")) if "sbx_us" in row else ("", "")
    native.add_row(name, row["algorithm"], alone, *span, f"{row['native_mlp_us']:.0f}", _ratio(row, "native_mlp_"), *sbx)


def _critics_table(rows: list[dict[str, Any]]) -> Table:
    batches = sorted({row["batch"] for row in rows})
    critics = Table(
        "", "parameters", *map(str, batches), title="(b) Hopper's critics by batch, time relative to SB3's two MLPs"
    )
    critics.caption = "batch 1: forward; else forward and backward"
    for name in dict.fromkeys(row["network"] for row in rows):
        by_batch = {row["batch"]: row for row in rows if row["network"] == name}
        critics.add_row(name, str(by_batch[1]["parameters"]), *(f"{by_batch[batch]['ratio']:.2f}" for batch in batches))
    return critics


def _offline_table(results: dict[str, list[dict[str, Any]]]) -> Table:
    updates = Table("", "", "SPAN, us", "MLP, us", "SPAN relative to MLP", title="(g) An update from a data set")
    for row in results["offline"]:
        updates.add_row(row["environment"], row["algorithm"], f"{row['span_us']:.0f}", f"{row['mlp_us']:.0f}", _ratio(row))
    evaluation = results["offline_evaluation"][0]
    updates.caption = (
        f"with drawing the batch of 256; {evaluation['episodes']} episodes of {evaluation['environment']} take "
        f"{evaluation['one_by_one_s']:.1f} s one by one and {evaluation['together_s']:.1f} s together"
    )
    return updates
