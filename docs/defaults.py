"""
The tables of docs/evidence/defaults.md, written next to the records that they are made from:

    python docs/defaults.py results/untuned results/default_ppo results/default_sac

Scores are normalised for each environment: 0 is a policy that acts at random (100 episodes, measured once and kept in
random_scores.csv), 1 the best run of any method.
"""

import csv
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from sb3_span.report.load import Run, Study, load_study
from sb3_span.report.statistics import compare, iqm_interval
from sb3_span.scores.random_scores import random_returns

EPISODES = 100
NAMES = {
    "span": "SPAN",
    "mlp-64": "SB3's MLP, 64 and 64",
    "mlp-256": "SB3's MLP, 256 and 256",
    "span-small": "small SPAN",
    "mlp": "MLP of SPAN's size",
    "mlp-fast": "MLP of SPAN's size, at SPAN's rate",
}

MEASURES: dict[str, Callable[[Run], float]] = {
    "final return": lambda run: run.final,
    "mean of all evaluations": lambda run: float(run.means.mean()),
}


def show(returns: np.ndarray, bold: bool) -> str:
    digits = 0 if abs(returns.mean()) >= 20 else 1
    text = f"{returns.mean():,.{digits}f} ± {returns.std(ddof=1):,.{digits}f}".replace(" ", "\N{NO-BREAK SPACE}")
    return f"**{text}**" if bold else text


def show_p(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def final_returns(study: Study, methods: list[str]) -> list[str]:
    """One row for each environment; SPAN against SB3's own MLP, the second method, and then the others."""
    lines, shown = [], 3 if "span-small" in methods else 2
    for env in study.envs:
        finals = {name: study.finals(env, name) for name in methods}
        own, sb3 = finals[methods[0]], finals[methods[1]]
        p = compare(own, sb3).p
        better = own.mean() > sb3.mean()
        sizes = [study.finished(env, name)[0].settings["n_parameters"] for name in methods[:shown]]
        lines.append(
            [
                env,
                f"{study.budgets(env, *methods)[0]:,}",
                show(own, p < 0.05 and better),
                show(sb3, p < 0.05 and not better),
                show_p(p),
                *(show(finals[name], False) for name in methods[2:]),
                " / ".join(f"{size:,}" for size in sizes),
            ]
        )
    names = [name_of(name) for name in methods]
    return table(["final return", "steps", *names[:2], "p", *names[2:], f"parameters of the first {shown}"], lines)


def changes(study: Study, methods: list[str], measure: str) -> list[str]:
    """One row for each method, a column for each environment: what one change to the default does."""
    lines = []
    for name in methods:
        cells = []
        for env in study.envs:
            own, default = (
                np.array([MEASURES[measure](run) for run in study.finished(env, each)]) for each in (name, methods[0])
            )
            p = "" if name == methods[0] else f" (p {show_p(compare(own, default).p)})"
            cells.append(show(own, False) + p)
        lines.append([name_of(name), *cells])
    return table([measure, *(f"{env}, {study.budgets(env, *methods)[0]:,} steps" for env in study.envs)], lines)


def table(header: list[str], lines: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *lines]]


def name_of(method: str) -> str:
    return NAMES.get(method, method.replace("-", " "))


def random_scores(folder: Path, envs: list[str]) -> dict[str, float]:
    """Mean returns of a policy that acts at random, by environment: from the study's folder, or measured and kept there."""
    file = folder / "random_scores.csv"
    lines = file.read_text().splitlines() if file.exists() else []
    known = {row["env"]: float(row["mean_return"]) for row in csv.DictReader(lines)}
    found = {env: known[env] if env in known else float(random_returns(env, EPISODES, seed=0).mean()) for env in envs}
    if found != known:
        with file.open("w", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerows([("env", "mean_return"), *found.items()])
    return found


def interquartile_means(study: Study, methods: list[str], zeros: dict[str, float]) -> list[str]:
    """Over all environments: of final returns, and of the means of all evaluations. As many seeds of each environment."""
    n_seeds = min(len(study.finished(env, name)) for env in study.envs for name in methods)
    lines: list[list[str]] = [[name_of(name)] for name in methods]
    for of_run in MEASURES.values():
        scores: dict[str, list[np.ndarray]] = {name: [] for name in methods}
        for env in study.envs:
            low = zeros[env]
            of_methods = {name: np.array([of_run(run) for run in study.finished(env, name)[:n_seeds]]) for name in methods}
            best = max(own.max() for own in of_methods.values())
            for name, own in of_methods.items():
                scores[name].append((own - low) / (best - low))
        for line, own_scores in zip(lines, scores.values(), strict=True):
            point, low, high = iqm_interval(np.array(own_scores).T)
            line.append(f"{point:.2f} [{low:.2f}, {high:.2f}]")
    return table(
        [f"all environments, {n_seeds} seeds", "final return, normalised", "mean of all evaluations, normalised"], lines
    )


def tables(folder: Path) -> str:
    """
    :param folder: A study
    :return: Its tables in Markdown
    """
    study = load_study(folder)
    # What is still to run is left out, and named.
    incomplete = [env for env in study.envs if any(not study.finished(env, name) for name in study.methods)]
    study = replace(study, envs=[env for env in study.envs if env not in incomplete])
    methods = sorted(study.methods, key=list(NAMES).index) if "span" in study.methods else study.methods
    if "span" in study.methods:
        zeros = random_scores(folder, study.envs)
        shown = [final_returns(study, methods), interquartile_means(study, methods, zeros)]
    else:
        shown = [changes(study, methods, measure) for measure in MEASURES]
    parts = ["<!-- Written by docs/defaults.py. -->", *("\n".join(lines) for lines in shown)]
    if incomplete:
        parts.append(f"Not run with all methods yet: {', '.join(incomplete)}.")
    return "\n\n".join(parts) + "\n"


def main(folders: list[Path]) -> None:
    for folder in folders:
        text = tables(folder)
        (folder / "tables.md").write_text(text)
        print(text)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
