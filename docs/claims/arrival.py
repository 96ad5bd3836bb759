"""Claims about reaching shares of the expert's score: how soon, how often, at what cost."""

from collections.abc import Callable
from functools import partial

import numpy as np

from claims.records import Pair, Records, name_of, paper_setting
from claims.rules import (
    FAILS,
    FEW,
    HOLDS,
    NOISE,
    NOT_RUN,
    Claim,
    Finding,
    bootstrap,
    by_test,
    fisher,
    no_difference,
    rank_test,
    reaches,
)
from sb3_span.report.formats import number, p_value, percent, steps_and_success
from sb3_span.report.statistics import MIN_SEEDS, SIGNIFICANCE
from sb3_span.scores.references import known_environments, paper
from sb3_span.scores.thresholds import PERCENTS

STEPS, SIZES = "Steps to a share of the expert's score", "How much sooner"
SUCCESS, COST = "How often", "Expected cost of one success"

# What the paper's text says of how much sooner: environment, share of the expert's score, share of the steps that is saved.
SAVED = [
    ("LunarLander-v3", 50, 0.40),
    ("Acrobot-v1", 50, 0.40),
    ("InvertedPendulum-v5", 75, 0.44),
    ("HalfCheetah-v5", 50, 0.38),
    ("HalfCheetah-v5", 75, 0.49),
]
TIMES_SOONER = ("InvertedPendulum-v5", 100, 2.2)


def claims() -> list[Claim]:
    return [*_steps(), *_sizes(), *_success(), *_costs()]


def _steps() -> list[Claim]:
    table = paper("sample_efficiency").set_index(["env", "threshold_pct", "method"])
    claims = []
    for env in known_environments():
        for share in PERCENTS:
            rows = [table.loc[(env, share, method)] for method in ("span", "mlp")]
            rates = [float(row.success_rate) for row in rows]
            steps = [row.median_steps if row.success_rate else np.inf for row in rows]
            first = "neither" if min(steps) == np.inf else "SPAN" if steps[0] < steps[1] else "MLP"
            says = "neither gets there" if first == "neither" else f"{first} first"
            text = " / ".join(steps_and_success(row.median_steps, row.success_rate) for row in rows)
            measure = partial(arrive, env, share, first, rates)
            claims.append(Claim(STEPS, f"{name_of(env)}, {share} %: {says}", text, measure))
    return claims


def arrive(env: str, share: int, first: str, rates: list[float], records: Records) -> Finding:
    """
    :param first: Who arrives first in the paper: SPAN, MLP or neither
    :param rates: The paper's success rates of SPAN and of the MLP
    """
    pair = records.pair(env)
    arrivals = pair.arrivals(share)
    met = [steps[np.isfinite(steps)] for steps in arrivals]
    shown = zip(met, arrivals, strict=True)
    text = " / ".join(steps_and_success(np.median(own) if len(own) else 0, len(own) / len(runs)) for own, runs in shown)
    if first == "neither":
        anyone = len(met[0]) + len(met[1]) > 0
        verdict = FEW if pair.seeds < MIN_SEEDS else FAILS if anyone else HOLDS if pair.has_paper_steps else NOT_RUN
        return Finding(text, "", pair.basis, verdict, pair.command)
    p, later = rank_test(*arrivals)
    verdict = by_test(pair.seeds, p, -later if first == "SPAN" else later)
    if verdict == NOISE and not is_over(pair, share):
        verdict = NOT_RUN
    elif verdict == NOISE:
        i = 0 if first == "SPAN" else 1
        n_paper = paper_setting(env, "train_seeds")
        ours, papers = (len(met[i]), len(arrivals[i])), (round(rates[i] * n_paper), n_paper)
        fewer = ours[0] / ours[1] < rates[i] and fisher(ours, papers) < SIGNIFICANCE
        verdict = FAILS if fewer else NOISE
    return Finding(text, f"p {p_value(p)}", pair.basis, verdict, pair.command)


def is_over(pair: Pair, share: int) -> bool:
    """Whether more steps, up to the paper's, could not change when runs met a threshold."""
    return pair.has_paper_steps or all(np.isfinite(steps).all() for steps in pair.arrivals(share))


def _sizes() -> list[Claim]:
    claims = []
    for env, share, size in SAVED:
        measure = partial(sooner, env, share, 1 / (1 - size), saved)
        claims.append(Claim(SIZES, f"{name_of(env)}, {share} %: fewer steps", percent(size), measure))
    env, share, times = TIMES_SOONER
    text = f"{name_of(env)}, {share} %: times as soon"
    return [*claims, Claim(SIZES, text, number(times), partial(sooner, env, share, times, number))]


def saved(times: float) -> str:
    """The share of the MLP's steps that SPAN saves."""
    return percent(1 - 1 / times) if times else "never"


def times_sooner(span: np.ndarray, mlp: np.ndarray) -> np.ndarray:
    """The MLP's median steps relative to SPAN's; 1 where neither arrives."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.median(mlp, axis=-1) / np.median(span, axis=-1), nan=1.0, posinf=np.inf)


def sooner(env: str, share: int, times: float, show: Callable[[float], str], records: Records) -> Finding:
    pair = records.pair(env)
    arrivals = pair.arrivals(share)
    point, low, high = bootstrap(times_sooner, *arrivals)
    verdict = reaches(pair.seeds, low, high, times, none=1)
    if verdict != FEW and not medians_are_known(pair, share):
        verdict = NOT_RUN
    return Finding(show(point), f"{show(low)} to {show(high)}", pair.basis, verdict, pair.command)


def medians_are_known(pair: Pair, share: int) -> bool:
    """Whether more steps, up to the paper's, could not change the medians over all runs."""
    return pair.has_paper_steps or all(np.isfinite(np.median(steps)) for steps in pair.arrivals(share))


def _success() -> list[Claim]:
    claims = []
    for row in paper("compute").itertuples():
        alike = row.span_success == row.mlp_success
        says = "as many runs" if alike else "more runs of SPAN"
        text = f"{percent(row.span_success)} / {percent(row.mlp_success)}"
        measure = partial(succeed, row.env, row.threshold_pct, alike)
        claims.append(Claim(SUCCESS, f"{name_of(row.env)}, {row.threshold_pct} %: {says}", text, measure))
    return claims


def succeed(env: str, share: int, alike: bool, records: Records) -> Finding:
    pair = records.pair(env)
    span, mlp = ((int(np.isfinite(steps).sum()), len(steps)) for steps in pair.arrivals(share))
    p, difference = fisher(span, mlp), span[0] / span[1] - mlp[0] / mlp[1]
    verdict = no_difference(pair.seeds, paper_setting(env, "train_seeds"), p) if alike else by_test(pair.seeds, p, difference)
    if verdict != FEW and not is_over(pair, share):
        verdict = NOT_RUN
    text = f"{percent(span[0] / span[1])} / {percent(mlp[0] / mlp[1])}"
    return Finding(text, f"p {p_value(p)}", pair.basis, verdict, pair.command)


def _costs() -> list[Claim]:
    return [
        Claim(
            COST,
            f"{name_of(row.env)}, {row.threshold_pct} %: the MLP costs more",
            number(row.cost_ratio),
            partial(cost, row.env, row.threshold_pct),
        )
        for row in paper("compute").itertuples()
    ]


def cost_of_success(steps: np.ndarray, microseconds: float) -> np.ndarray:
    """The paper's expected cost: median time of the runs that arrive, divided by their share; infinite where none does."""
    there = np.isfinite(steps)
    arrived = np.ma.masked_array(steps, mask=~there)
    medians = np.ma.filled(np.ma.median(arrived, axis=-1), np.inf)
    with np.errstate(divide="ignore"):
        return medians * microseconds / there.mean(axis=-1)


def cost(env: str, share: int, records: Records) -> Finding:
    """Steps are those of the records, the time of a step is that of the benchmark: the runs shared their cores."""
    pair = records.pair(env)
    times = records.speed("training").set_index("environment").loc[env]

    def ratio(span: np.ndarray, mlp: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            costs = cost_of_success(mlp, times.native_mlp_us) / cost_of_success(span, times.native_span_us)
        return np.nan_to_num(costs, nan=1.0, posinf=np.inf)

    point, low, high = bootstrap(ratio, *pair.arrivals(share))
    verdict = FEW if pair.seeds < MIN_SEEDS else HOLDS if low > 1 else FAILS if high < 1 else NOISE
    if verdict != FEW and not is_over(pair, share):
        verdict = NOT_RUN
    command = f"{pair.command}; sb3-span speed --only training"
    if not any(np.isfinite(steps).any() for steps in pair.arrivals(share)):
        return Finding("neither succeeds", "", pair.basis, verdict, command)
    return Finding(_times(point), f"{_times(low)} to {_times(high)}", pair.basis, verdict, command)


def _times(ratio: float) -> str:
    return number(ratio, nothing="∞")
