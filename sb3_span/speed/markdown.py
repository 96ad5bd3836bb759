"""The benchmark's tables for the documentation, from its CSV files."""

from collections.abc import Sequence
from typing import Any

from sb3_span.speed.training import RATIOS

Rows = list[dict[str, Any]]
# Contenders as the tables name them.
NAMES = {
    "span": "SB3, SPAN",
    "sbx": "SBX, MLP",
    "rltools": "RLtools, MLP",
    "native_mlp": "sb3_span, MLP",
    "native_span": "sb3_span, SPAN",
}

US_PER_STEP = "us per environment step"


def as_markdown(results: dict[str, Rows]) -> str:
    """
    :param results: The rows of each measurement
    """
    parts = ["<!-- Written by `sb3-span speed`. -->"]
    if "training" in results:
        rows = results["training"]
        parts += [_verdict(rows), "## A step of training", "Networks of the same size:", _agents(rows, US_PER_STEP)]
    if "defaults" in results:
        parts += ["With the default settings of each, MLP and SPAN:", _agents(results["defaults"], US_PER_STEP)]
    if "vectorised" in results:
        parts += ["## Many environments at once", _agents(results["vectorised"], "CartPole-v1, us per environment step")]
    if "predict" in results:
        parts += ["## predict", "`predict(observations, deterministic=True)`:", _agents(results["predict"], "us per call")]
    if {"studies", "evaluation"} <= set(results):
        parts += ["## Studies", _studies(results["studies"], results["evaluation"][0])]
    if "critics" in results:
        parts += [
            "## Hopper's critics",
            "Twin critics by batch, relative to SB3's two separate MLPs (batch 1: forward; else forward and backward):",
            _critics(results["critics"]),
        ]
    if "machine" in results:
        machine = results["machine"][0]
        parts.append(
            f"Measured on {machine['processor']} ({machine['kernel']} kernel, {machine['instructions']}), one thread, "
            f"Python {machine['python']}, PyTorch {machine['torch']}. "
            "Medians over rounds, quartiles of the ratios within a round."
        )
    return "\n\n".join(parts) + "\n"


def _verdict(rows: Rows) -> str:
    """What the table of training comes to."""
    found = {}
    for name, prefix in RATIOS.items():
        ratios = [row[f"{prefix}ratio"] for row in rows if row.get(f"{prefix}ratio")]
        if ratios:
            found[name] = f"{min(ratios):.2f} to {max(ratios):.2f}"
    others = "".join(f"; {name} takes {found[key]}" for key, name in (("sbx", "SBX"), ("rltools", "RLtools")) if key in found)
    return (
        f"**Relative to the MLP of its size in SB3, a step of training with SPAN takes {found['span']} in SB3 and "
        f"{found['native_span']} in sb3_span (the MLP there {found['native_mlp']}){others}.**"
    )


def _agents(rows: Rows, corner: str) -> str:
    names = [name for name in NAMES if any(row.get(f"{name}_us") for row in rows)]
    has_env = any(row.get("env_us") for row in rows)
    header = [corner, *(["environment alone"] if has_env else []), "SB3, MLP", *(NAMES[name] for name in names)]
    lines = []
    for row in rows:
        cells = [_what(row), *([_number(row["env_us"])] if has_env else []), _number(row["mlp_us"])]
        lines.append([*cells, *(_with_ratio(row, name) for name in names)])
    return _table(header, lines)


def _what(row: dict[str, Any]) -> str:
    if "observations" in row:
        return f"{row['environment']}, {row['algorithm']}, batch {row['observations']:.0f}"
    many = f", {row['environments']:.0f} environments" if row.get("environments", 1) > 1 else ""
    return f"{row['environment']}, {row['algorithm']}{many}"


def _with_ratio(row: dict[str, Any], name: str) -> str:
    if not row.get(f"{name}_us"):
        return ""
    middle, lower, upper = (row[f"{RATIOS[name]}ratio{end}"] for end in ("", "_lower", "_upper"))
    return f"{_number(row[f'{name}_us'])}, **{middle:.2f}** ({lower:.2f} - {upper:.2f})"


def _number(us: float) -> str:
    return f"{us:.1f}" if us < 10 else f"{us:,.0f}"


def _studies(rows: Rows, evaluation: dict[str, Any]) -> str:
    """What a study and the evaluations in it add to training."""
    runs = (f"{row['environment']} {row['study_s']:.1f} s, {row['ratio']:.2f}" for row in rows)
    episodes, seconds, own = (evaluation[name] for name in ("episodes", "seconds", "environments_s"))
    return (
        f"A run of a study, and its time relative to `learn` with the same evaluations: {', '.join(runs)}. "
        f"{episodes:.0f} episodes of {evaluation['environment']} in full length are evaluated in {seconds:.1f} s; the "
        f"environments' steps take {own:.1f} s of them."
    )


def _critics(rows: Rows) -> str:
    batches = sorted({row["batch"] for row in rows})
    lines = []
    for name in dict.fromkeys(row["network"] for row in rows):
        own = {row["batch"]: row for row in rows if row["network"] == name}
        if name != "MLP":  # the measure
            parameters = f"{next(iter(own.values()))['parameters']:,.0f}"
            lines.append([name, parameters, *(f"{own[batch]['ratio']:.2f}" for batch in batches)])
    return _table(["", "parameters", *(f"{batch:.0f}" for batch in batches)], lines)


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))
