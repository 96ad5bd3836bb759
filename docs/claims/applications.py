"""Claims about options of the network and about learning from data sets."""

from functools import partial

import numpy as np
from scipy import stats

from claims.records import METHODS, Records, basis, name_of, paper_setting
from claims.rules import (
    FAILS,
    FEW,
    HOLDS,
    NOISE,
    NOT_RUN,
    UNTESTABLE,
    Claim,
    Finding,
    NotRun,
    bootstrap,
    by_test,
    no_difference,
    rank_test,
    reaches,
)
from sb3_span.report.formats import fixed, number, p_value
from sb3_span.report.load import Run
from sb3_span.report.statistics import MIN_SEEDS, SIGNIFICANCE, compare
from sb3_span.scores.references import normalise, paper
from sb3_span.shipped import find_study
from sb3_span.study.plan import read_plan

ABLATIONS, PREPROCESSING, OFFLINE = "Ablations", "Preprocessing", "Offline data"
FLAT = 0.05  # of the way from a random policy to the expert

# Which two values of an option the paper's text compares: the second is better. All other options are flat.
BETTER = {
    ("LunarLander-v3", "nmodes"): (5, 13),
    ("LunarLander-v3", "nelems"): (1, 4),
    ("InvertedPendulum-v5", "nmodes"): (1, 2),
    ("InvertedPendulum-v5", "nelems"): (1, 2),
    ("InvertedPendulum-v5", "degree"): (1, 2),
    ("Hopper-v5", "nmodes"): (6, 10),
    ("Hopper-v5", "nelems"): (4, 8),
    ("HalfCheetah-v5", "nmodes"): (10, 20),
    ("HalfCheetah-v5", "nelems"): (2, 8),
    ("Walker2d-v5", "nmodes"): (8, 16),
    ("Walker2d-v5", "nelems"): (2, 6),
}
# What the paper's table of normalisations argues against, and none at all.
ALTERNATIVES = ("layernorm", "batchnorm", "minmax", "none")
PREPROCESS = "ablation/preprocess"
MINIMAL = ("InvertedPendulum-v5", "nmodes + nelems + degree", "1, 1, 1")
PAPER_SEEDS, PAPER_UPDATES = 5, 20_000  # of each data set
SUBJECTS = {"expert": "expert data", "cloned": "data of a cloned policy", "human": "human data"}


def claims() -> list[Claim]:
    return [*_ablations(), *_preprocessing(), *_offline()]


def _ablations() -> list[Claim]:
    claims = []
    for row in paper("ablation_grids").itertuples():
        values = BETTER.get((row.env, row.parameter))
        if values is None:
            says, measure = "flat", partial(flat, row.env, row.parameter)
        else:
            says, measure = f"{values[1]} better than {values[0]}", partial(better, row.env, row.parameter, values)
        claims.append(Claim(ABLATIONS, f"{name_of(row.env)}, {row.parameter}: {says}", _said(row.what_the_paper_saw), measure))
    text = f"{name_of(MINIMAL[0])}, {MINIMAL[1].replace(' + ', ' = ')} = 1: fails"
    return [*claims, Claim(ABLATIONS, text, "400 to 600", minimal)]


def _said(text: str) -> str:
    return text.replace("about ", "")


def _cells(env: str, option: str, values: set[str], records: Records) -> dict[str, np.ndarray]:
    """Final returns by value of an option, of which some must have been run."""
    rows, command = records.ablation(env, option)
    cells = {row.value: np.array(row.returns) for row in rows.itertuples()}
    if not cells or not values <= set(cells):
        raise NotRun(basis([0], 0, paper_setting(env, "ablation_steps")), command)
    return cells


def _ablated(env: str, option: str, text: str, p: float, verdict: str, records: Records) -> Finding:
    """With fewer steps than the paper's ablation there is no verdict."""
    rows, command = records.ablation(env, option)
    steps, paper_steps = int(rows.steps.max()), paper_setting(env, "ablation_steps")
    where = basis(sorted(set(rows.seeds)), steps, paper_steps)
    return Finding(text, f"p {p_value(p)}", where, NOT_RUN if verdict != FEW and steps < paper_steps else verdict, command)


def flat(env: str, option: str, records: Records) -> Finding:
    cells = _cells(env, option, set(), records)
    medians = np.array([np.median(returns) for returns in cells.values()])
    constant = np.ptp(np.concatenate(list(cells.values()))) == 0
    p = 1.0 if constant else float(stats.kruskal(*cells.values()).pvalue)
    if min(map(len, cells.values())) < MIN_SEEDS:
        verdict = FEW
    elif np.ptp(normalise(env, medians)) <= FLAT:
        verdict = HOLDS
    else:
        verdict = FAILS if p < SIGNIFICANCE else NOISE
    return _ablated(env, option, f"medians {number(medians.min())} to {number(medians.max())}", p, verdict, records)


def better(env: str, option: str, values: tuple[int, int], records: Records) -> Finding:
    names = [str(value) for value in values]
    cells = _cells(env, option, set(names), records)
    low, high = (cells[name] for name in names)
    p, difference = rank_test(high, low)
    text = f"{number(np.median(low))} at {values[0]}, {number(np.median(high))} at {values[1]}"
    return _ablated(env, option, text, p, by_test(min(len(low), len(high)), p, difference), records)


def minimal(records: Records) -> Finding:
    """All three options at 1 together, beside the paper's setting."""
    env, option, value = MINIMAL
    small = _cells(env, option, {value}, records)[value]
    rows, _ = records.ablation(env, "nmodes")
    base = np.array(rows[rows.base].returns.iloc[0])
    p, difference = rank_test(base, small)
    text = f"{number(np.median(small))}, else {number(np.median(base))}"
    return _ablated(env, option, text, p, by_test(min(len(base), len(small)), p, difference), records)


def _preprocessing() -> list[Claim]:
    return [
        Claim(PREPROCESSING, f"{name_of(env)}: dense better than {other}", "argued", partial(dense, env, other))
        for other in ALTERNATIVES
        for env in dict.fromkeys(run.env for run in read_plan(find_study(PREPROCESS)).runs)
    ]


def dense(env: str, other: str, records: Records) -> Finding:
    rows, command = records.ablation(env, "preprocess")
    if rows.empty or other not in set(rows.value):
        raise NotRun("0 seeds", f"sb3-span study run {PREPROCESS}")
    cells = {row.value: np.array(row.returns) for row in rows.itertuples()}
    p, difference = rank_test(cells["dense"], cells[other])
    text = f"{number(np.median(cells['dense']))}, {other} {number(np.median(cells[other]))}"
    seeds = [len(cells["dense"]), len(cells[other])]
    steps = int(rows.steps.max())
    return Finding(text, f"p {p_value(p)}", basis(seeds, steps, steps), by_test(min(seeds), p, difference), command)


def _offline() -> list[Claim]:
    claims = []
    for row in paper("offline_scores").itertuples():
        says = (
            "alike" if row.span_score == row.mlp_score else "SPAN higher" if row.span_score > row.mlp_score else "MLP higher"
        )
        text = f"{fixed(row.span_score)} ± {fixed(row.span_std)} / {fixed(row.mlp_score)} ± {fixed(row.mlp_std)}"
        measure = partial(data_set, row.task, row.dataset, says)
        claims.append(Claim(OFFLINE, f"{row.task}, {SUBJECTS[row.dataset]}: {says}", text, measure))
    text = "four tasks, expert data: SPAN's score in the MLP's"
    return [*claims, Claim(OFFLINE, text, fixed(expert_factors()), expert_factor)]


def data_set(task: str, dataset: str, says: str, records: Records) -> Finding:
    rows = records.offline[(records.offline.task == task) & (records.offline.dataset == dataset)]
    if rows.empty:
        command = f"sb3-span offline train --dataset D4RL/{task}/{dataset}-v2 --download"
        return Finding("", "", "public data not at hand", UNTESTABLE, command)
    by_method = rows.set_index("method")
    study, env = records.studies["offline"], rows.env.iloc[0]
    samples = [study.finals(env, method) for method in ("span", "mlp")]  # a score is a linear function of its return
    test, seeds = compare(*samples), min(map(len, samples))
    if says == "alike":
        verdict = no_difference(seeds, PAPER_SEEDS, test.p)
    else:
        verdict = by_test(seeds, test.p, test.t if says == "SPAN higher" else -test.t)
    scores = [by_method.loc[method] for method in ("span", "mlp")]
    text = " / ".join(f"{fixed(score.score)} ± {fixed(score.score_std)}" for score in scores)
    steps = int(rows.steps.max())
    where = basis(list(map(len, samples)), steps, PAPER_UPDATES)
    verdict = NOT_RUN if verdict != FEW and steps < PAPER_UPDATES else verdict
    own = "" if env.startswith("D4RL/") else ", own data"
    return Finding(text, f"p {p_value(test.p)}", where + own, verdict, records.command("offline"))


def expert_factor(records: Records) -> Finding:
    """Scores near the expert's leave no room for it: on other data than the paper's it says nothing."""
    study = records.studies["offline"]
    rows = records.offline[(records.offline.dataset == "expert") & records.offline.env.str.startswith("D4RL/")]
    envs = list(dict.fromkeys(rows.env))
    if len(envs) < 4:
        return Finding("", "", "public data not at hand", UNTESTABLE, "sb3-span study run offline")
    samples = [_scores(study.finished(env, method)) for env in envs for method in METHODS]

    def factor(*scores: np.ndarray) -> np.ndarray:
        means = [score.mean(axis=-1) for score in scores]
        return np.mean([span / mlp for span, mlp in zip(means[::2], means[1::2], strict=True)], axis=0)

    point, low, high = bootstrap(factor, *samples)
    seeds = list(map(len, samples))
    verdict = reaches(min(seeds), low, high, expert_factors(), none=1)
    where = basis(seeds, int(rows.steps.max()), PAPER_UPDATES)
    return Finding(fixed(point), f"{fixed(low)} to {fixed(high)}", where, verdict, records.command("offline"))


def expert_factors() -> float:
    """The paper's factor, from its table."""
    table = paper("offline_scores").query("dataset == 'expert'")
    return float((table.span_score / table.mlp_score).mean())


def _scores(runs: list[Run]) -> np.ndarray:
    """Normalised: 0 for a random policy, 100 for an expert."""
    ends = [run.settings["reference_scores"] for run in runs]
    return np.array([100 * (run.final - low) / (high - low) for run, (low, high) in zip(runs, ends, strict=True)])
