"""A study's status, from its queue and its records, as a table."""

from collections import Counter

import numpy as np
from rich.table import Table

from sb3_span.study.plan import Plan
from sb3_span.study.queue import RunState
from sb3_span.study.records import Record

NAMES = ("waiting", "running", "done", "failed")
# The latest evaluations, whose pace predicts the time left.
RECENT = 5


def status_table(plan: Plan, states: dict[str, RunState], records: dict[str, Record]) -> Table:
    """
    :param plan: What the study runs
    :param states: The state of each run
    :param records: The runs' records so far
    """
    table = Table(title=f"Study {plan.name}", title_justify="left")
    table.add_column("environment", no_wrap=True)
    table.add_column("method")
    for name in NAMES:
        table.add_column(name, justify="right")
    table.add_column("time left", justify="right", no_wrap=True)
    seconds = remaining_seconds(plan, records)
    total: Counter[str] = Counter()
    for env, method in dict.fromkeys((run.env, run.method) for run in plan.runs):
        runs = [run for run in plan.runs if (run.env, run.method) == (env, method)]
        counts = Counter(states[run.key].name for run in runs)
        total += counts
        table.add_row(env, method, *(str(counts[name] or "") for name in NAMES), in_words(seconds[env, method]))
    table.add_section()
    known = [value for value in seconds.values() if value is not None]
    left = in_words(sum(known) if len(known) == len(seconds) else None)
    table.add_row("all", "", *(str(total[name] or "") for name in NAMES), left)
    return table


def remaining_seconds(plan: Plan, records: dict[str, Record]) -> dict[tuple[str, str], float | None]:
    """
    The time left on one core, for training and evaluations, estimated from the finished part.

    :return: Seconds for each environment and method; None where nothing of the environment has been trained yet
    """
    left: dict[tuple[str, str], float | None] = {}
    for env, method in dict.fromkeys((run.env, run.method) for run in plan.runs):
        steps = sum(
            run.steps - (int(max(records[run.key].steps, default=0)) if run.key in records else 0)
            for run in plan.runs
            if (run.env, run.method) == (env, method)
        )
        # Methods of similar size need similar time: another one's is better than none.
        similar = [record for record in records.values() if record.settings["env"] == env and len(record.steps)]
        own = [record for record in similar if record.settings["method"] == method]
        speeds = [_speed(record) for record in own or similar]
        left[env, method] = 0.0 if steps == 0 else steps * sum(speeds) / len(speeds) if speeds else None
    return left


def in_words(seconds: float | None) -> str:
    """
    :return: For example "3 h 20 min"
    """
    if seconds is None:
        return "unknown"
    if seconds < 1:
        return "-"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


def _speed(record: Record) -> float:
    """
    Recent seconds per step. Not since the start: off-policy runs begin with random steps, which train nothing and are several
    times as fast.
    """
    # Records from before evaluations were timed count as training only.
    of_both = record.train_seconds + np.nan_to_num(record.eval_seconds)
    steps, seconds = (np.append(0.0, column)[-1 - RECENT :] for column in (record.steps, of_both))
    return float((seconds[-1] - seconds[0]) / (steps[-1] - steps[0]))
