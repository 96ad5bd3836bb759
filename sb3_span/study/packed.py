"""
A study's records as one file: ``evaluations.csv.gz``, a table with one row per evaluation.

The first row of a run has its settings in the column ``settings``, as JSON; a run without an evaluation has that row alone.
Models, checkpoints and errors are left out. Reports read it like a folder of runs.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sb3_span.atomic_files import written_whole
from sb3_span.study.records import (
    Evaluation,
    Record,
    check_complete,
    format_evaluation,
    header,
    make_record,
    parse_evaluation,
    parse_settings,
    read_evaluations,
    read_settings,
    run_folders,
)

PACKED = "evaluations.csv.gz"
RUN, OPTIONS = "run", "settings"


def is_packed(folder: Path) -> bool:
    return (folder / PACKED).is_file() and not (folder / "runs").is_dir()


def write_packed(source: Path, target: Path) -> int:
    """
    :param source: The folder of a study, with ``runs``
    :param target: Where to write the table
    :return: The number of runs
    """
    runs: list[tuple[str, dict[str, Any], list[Evaluation]]] = []
    for path in run_folders(source):
        settings = read_settings(path)
        runs.append((path.name, settings, read_evaluations(path, settings)))
    if not runs:
        raise ValueError(f"There are no records in {source / 'runs'}. Give the folder of a study.")
    columns = header(max(settings["n_eval_episodes"] for _, settings, _ in runs))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([RUN, OPTIONS, *columns])
    for key, settings, evaluations in runs:
        rows = [format_evaluation(each) for each in evaluations] or [[]]
        for i, row in enumerate(rows):
            writer.writerow([key, "" if i else json.dumps(settings), *row, *[""] * (len(columns) - len(row))])
    # Without a time or a name, so that the same records give the same file.
    with written_whole(target) as path:
        path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return len(runs)


def read_packed(folder: Path) -> dict[str, Record | ValueError]:
    """
    :return: By the runs' keys, the record, or what is wrong with it
    """
    path = folder / PACKED
    found: dict[str, Record | ValueError] = {}
    try:
        lines = csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
        columns = next(lines, [])
        if columns[:2] != [RUN, OPTIONS]:
            raise ValueError(f"its columns begin with {columns[:2]}, not with {[RUN, OPTIONS]}")
        for key, rows in _by_run(lines):
            if key in found:
                raise ValueError(f"the run {key} is there twice")
            try:
                found[key] = _to_record(key, rows, path)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                found[key] = ValueError(f"{path}, run {key}: {error}")
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is damaged or not a table of evaluations ({error}). Restore it.") from error
    return found


def _by_run(lines: Iterator[list[str]]) -> Iterator[tuple[str, list[list[str]]]]:
    rows: list[list[str]] = []
    for line in lines:
        if rows and line[:1] != rows[0][:1]:
            yield rows[0][0], rows
            rows = []
        rows.append(line)
    if rows:
        yield rows[0][0], rows


def _to_record(key: str, rows: Sequence[list[str]], path: Path) -> Record:
    settings = parse_settings(rows[0][1])
    n_columns = len(header(settings["n_eval_episodes"]))
    evaluations = [parse_evaluation(row[2 : 2 + n_columns]) for row in rows if row[2]]
    if any(len(each.returns) != settings["n_eval_episodes"] for each in evaluations):
        raise ValueError(f"an evaluation does not have {settings['n_eval_episodes']} returns")
    check_complete(evaluations, settings, f"{path}, run {key},")
    return make_record(settings, evaluations)
