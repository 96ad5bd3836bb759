"""The benchmark: measure, print, and write CSV files and a picture."""

import csv
import importlib.util
import platform
from pathlib import Path
from typing import Any

import torch as th
from rich.console import Console
from rich.progress import track
from rich.table import Table

from sb3_span.files import written_whole
from sb3_span.machine import machine
from sb3_span.speed import networks, studies, training
from sb3_span.speed.figure import draw


def measure_speed(output: Path, hyperparams: Path, rounds: int = 20, training_only: bool = False) -> None:
    """
    Time SPAN against the MLP it replaces, interleaved in this process and on one thread.

    :param output: Folder for the CSV files and the picture
    :param hyperparams: Folder with ``span.yml`` and ``mlp.yml``
    :param rounds: Rounds for each comparison
    :param training_only: Time training steps only, and draw the picture again with what else is in the folder
    """
    for name in ("span.yml", "mlp.yml"):
        if not (hyperparams / name).is_file():
            raise ValueError(
                f"There is no {hyperparams / name}. Run this in the repository's root, or name the folder with --hyperparams."
            )
    output.mkdir(parents=True, exist_ok=True)
    console = Console()
    threads = th.get_num_threads()
    th.set_num_threads(1)
    try:
        results = _measure_training(hyperparams, rounds, console)
        if not training_only:
            results.update(_measure_rest(hyperparams, rounds, console))
    finally:
        th.set_num_threads(threads)
    for name, rows in results.items():
        _write(output / f"{name}.csv", rows)
    others = {path.stem: _read(path) for path in output.glob("*.csv")}
    if {"critics", "growth"} <= set(others):
        draw({**others, **results}, output / "speed.png")
    for table in _training_tables(results) if training_only else _tables(results):
        console.print(table)
    console.print(f"Written to {output}: " + ", ".join(sorted(path.name for path in output.iterdir())))


def _measure_training(hyperparams: Path, rounds: int, console: Console) -> dict[str, list[dict[str, Any]]]:
    ids = track(training.ENVIRONMENTS, "training", console=console)
    return {
        "machine": [{**machine(), "python": platform.python_version(), "torch": th.__version__}],
        "training": [training.time_training(hyperparams, env_id, rounds) for env_id in ids],
    }


def _measure_rest(hyperparams: Path, rounds: int, console: Console) -> dict[str, list[dict[str, Any]]]:
    results: dict[str, list[dict[str, Any]]] = {}
    for name, measure in track(
        [
            ("critics", lambda: networks.time_critics(rounds)),
            ("predict", lambda: [networks.time_predict(hyperparams, rounds)]),
            ("growth", lambda: networks.time_growth(rounds)),
            ("memory", lambda: networks.measure_memory(hyperparams)),
            ("studies", lambda: studies.time_studies(hyperparams, min(rounds, 3))),
            ("evaluation", lambda: [studies.time_evaluation(min(rounds, 3))]),
        ],
        "networks",
        console=console,
    ):
        results[name] = measure()
    if importlib.util.find_spec("d3rlpy") is not None:  # the extra 'offline'
        from sb3_span.speed import offline

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


def _training_tables(results: dict[str, list[dict[str, Any]]]) -> list[Table]:
    machine, rows = results["machine"][0], results["training"]
    where = f"{machine['processor']}, one thread, {machine['kernel']} kernel ({machine['instructions']})"

    def mean(prefix: str) -> str:
        return f"{sum(row[f'{prefix}ratio'] for row in rows) / len(rows):.2f}"

    sb3 = Table("", "", "SPAN, us", "MLP, us", "SPAN relative to MLP", title=f"(a) An environment step in training. {where}")
    native = Table(
        "", "", "SPAN, us", "relative to SB3, MLP", "MLP, us", "relative to SB3, MLP", title="In sb3_span's PPO and SAC"
    )
    for row in rows:
        name, algorithm = row["environment"], row["algorithm"]
        sb3.add_row(name, algorithm, f"{row['span_us']:.0f}", f"{row['mlp_us']:.0f}", _ratio(row))
        span = (f"{row['native_span_us']:.0f}", _ratio(row, "native_"))
        native.add_row(name, algorithm, *span, f"{row['native_mlp_us']:.0f}", _ratio(row, "native_mlp_"))
    sb3.add_row("mean", "", "", "", mean(""))
    native.add_row("mean", "", "", mean("native_"), "", mean("native_mlp_"))
    sb3.caption = "in SB3's PPO and SAC; medians over rounds, and the quartiles of the ratios within a round"
    return [sb3, native]


def _tables(results: dict[str, list[dict[str, Any]]]) -> list[Table]:
    sb3, native = _training_tables(results)
    predict = results["predict"][0]
    sb3.add_row("Hopper-v5, predict", "SAC", f"{predict['span_us']:.0f}", f"{predict['mlp_us']:.0f}", _ratio(predict))

    batches = sorted({row["batch"] for row in results["critics"]})
    critics = Table(
        "", "parameters", *map(str, batches), title="(b) Hopper's critics by batch, time relative to SB3's two MLPs"
    )
    critics.caption = "batch 1: forward; else forward and backward"
    for name in dict.fromkeys(row["network"] for row in results["critics"]):
        by_batch = {row["batch"]: row for row in results["critics"] if row["network"] == name}
        critics.add_row(name, str(by_batch[1]["parameters"]), *(f"{by_batch[batch]['ratio']:.2f}" for batch in batches))

    growth = Table("", "", "", "", "", "", title="(c) Forward and backward in us, as one size grows")
    for what in dict.fromkeys(row["grows"] for row in results["growth"]):
        rows = [row for row in results["growth"] if row["grows"] == what]
        growth.add_row(what, *(f"{row['value']}: {row['us']:.0f}" for row in rows))

    memory = Table("", "", "batch", "tensors, kB", "scratch, kB", title="(d) Peak allocation")
    for row in results["memory"]:
        memory.add_row(row["network"], row["what"], str(row["batch"]), f"{row['peak_kB']:.0f}", f"{row['scratch_kB']:.0f}")

    columns = ("", "steps", "in a study, s", "its records and checkpoints, s", "learn, s", "study relative to learn")
    around = Table(*columns, title="(e) A study around a run")
    for row in results["studies"]:
        seconds = (f"{row['study_s']:.1f}", f"{row['own_s']:.2f}", f"{row['plain_s']:.1f}")
        around.add_row(row["environment"], f"{row['steps']:,}", *seconds, _ratio(row))
    evaluation = results["evaluation"][0]
    around.caption = (
        f"both with the same evaluations; {evaluation['episodes']} full episodes of {evaluation['environment']} take "
        f"{evaluation['seconds']:.1f} s, of which {evaluation['environments_s']:.1f} s are the environments' and "
        f"{evaluation['physics_s']:.1f} s MuJoCo's alone"
    )
    return [sb3, native, critics, growth, memory, around, *_offline_tables(results)]


def _offline_tables(results: dict[str, list[dict[str, Any]]]) -> list[Table]:
    if "offline" not in results:
        return []
    updates = Table("", "", "SPAN, us", "MLP, us", "SPAN relative to MLP", title="(f) An update from a data set")
    for row in results["offline"]:
        updates.add_row(row["environment"], row["algorithm"], f"{row['span_us']:.0f}", f"{row['mlp_us']:.0f}", _ratio(row))
    evaluation = results["offline_evaluation"][0]
    updates.caption = (
        f"with drawing the batch of 256; {evaluation['episodes']} episodes of {evaluation['environment']} take "
        f"{evaluation['one_by_one_s']:.1f} s one by one and {evaluation['together_s']:.1f} s together"
    )
    return [updates]
