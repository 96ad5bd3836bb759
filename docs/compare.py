"""
Compare runs of different studies up to the same step, by the report's own measures:

    python docs/compare.py LunarLander-v3 500000 results/evidence/span results/large_mlp/mlp-large --seeds 0 1 2 3 4

Only evaluations at steps that all of the runs have count. Methods joined by + are one group of runs.
"""

import argparse
from functools import reduce
from pathlib import Path

import numpy as np

from sb3_span.report.load import Run, load_study
from sb3_span.report.statistics import compare
from sb3_span.scores.references import area_under_curve


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs of different studies up to the same step.")
    parser.add_argument("env", help="the environment, such as LunarLander-v3")
    parser.add_argument("steps", type=int, help="how many steps to compare")
    parser.add_argument(
        "methods", nargs="+", metavar="FOLDER/METHOD[+...]", help="of a study; the first is compared with the others"
    )
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    return parser.parse_args()


def find_runs(env: str, steps: int, method: str, seeds: list[int]) -> list[Run]:
    if "+" in method:
        return [run for each in method.split("+") for run in find_runs(env, steps, each, seeds)]
    folder, name = Path(method).parent, Path(method).name
    runs = [run for run in load_study(folder).select(env, name) if run.seed in seeds and run.steps[-1] >= steps]
    if missing := sorted(set(seeds) - {run.seed for run in runs}):
        raise SystemExit(f"{folder} has no run of {name!r} on {env} with {steps:,} steps for the seeds {missing}.")
    return runs


def main() -> None:
    given = read_arguments()
    runs = {method: find_runs(given.env, given.steps, method, given.seeds) for method in given.methods}
    steps = reduce(np.intersect1d, [run.steps for group in runs.values() for run in group])
    steps = steps[steps <= given.steps]
    print(f"{given.env}, {len(given.seeds)} seeds, {len(steps)} evaluations until {steps[-1]:,} steps")
    finals: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    for method, group in runs.items():
        means = [run.means[np.isin(run.steps, steps)] for run in group]
        finals.append(np.array([own[-1] for own in means]))
        scores.append(np.array([area_under_curve(given.env, own) for own in means]))
        print(f"{method}: {', '.join(f'{final:,.0f}' for final in finals[-1])}")
        for name, values, digits in [("return", finals, 0), ("AUC", scores, 2)]:
            line = f"    {name} {values[-1].mean():,.{digits}f} +- {values[-1].std(ddof=1):,.{digits}f}"
            print(line + (f", p = {compare(values[0], values[-1]).p:.2g}" if len(values) > 1 else ""))


if __name__ == "__main__":
    main()
