"""Claims about returns: on the way, at the end, how even over seeds, and whether they are kept."""

from functools import partial

import numpy as np
from scipy import stats

from claims.records import Pair, Records, basis, name_of, paper_setting
from claims.rules import FAILS, FEW, HOLDS, NOISE, NOT_RUN, Claim, Finding, by_test, fisher, no_difference
from sb3_span.report.formats import mean_std, number, p_value, percent, short_number
from sb3_span.report.measures import BUDGET_PERCENTS
from sb3_span.report.scores import AGGREGATE
from sb3_span.report.statistics import MIN_SEEDS, SIGNIFICANCE, compare, iqm_interval
from sb3_span.scores.references import known_environments, normalise, paper, thresholds

ANYTIME, FINAL = "Returns along the budget", "Differences of final returns"
IQM, PROFILES = "Interquartile means of normalised final returns", "Runs at or above a normalised score"
EVEN = "Even over seeds, and kept"

# Where the paper's text calls SPAN's returns more even: environment, share of the budget.
EVENER = [("CartPole-v1", 50), ("Acrobot-v1", 100), ("InvertedPendulum-v5", 75), ("HalfCheetah-v5", 100)]
# The paper's text on its profiles: environment, normalised score, share of SPAN's runs and of the MLP's at or above it.
AT_OR_ABOVE = [
    ("Acrobot-v1", 0.0, 0.95, 0.70),
    ("InvertedPendulum-v5", 0.5, 1.0, 0.45),
    ("Hopper-v5", 0.8, 0.75, 0.0),
    ("Walker2d-v5", 0.5, 0.40, 0.0),
    ("Walker2d-v5", 0.8, 0.15, 0.0),
]
CALLED_APART = "HalfCheetah-v5"  # by the paper's text; the intervals that it prints overlap
KEPT = ("InvertedPendulum-v5", 75)  # environment, share of the expert's score
FALLS = ("Hopper-v5", 75)  # environment, share of the budget after which the MLP's return falls


def claims() -> list[Claim]:
    return [*_anytime(), *_final(), *_iqm(), *_profiles(), *_even()]


def _mean_stds(samples: list[np.ndarray]) -> str:
    return " / ".join(mean_std(sample.mean(), sample.std(ddof=1) if len(sample) > 1 else np.nan) for sample in samples)


def _anytime() -> list[Claim]:
    table = paper("anytime").set_index(["env", "budget_pct", "method"])
    claims = []
    for env in known_environments():
        for share in BUDGET_PERCENTS:
            span, mlp = (table.loc[(env, share, method)] for method in ("span", "mlp"))
            alike = span.mean_return == mlp.mean_return
            step = share * paper_setting(env, "train_steps") // 100
            says = "alike" if alike else "SPAN higher" if span.mean_return > mlp.mean_return else "MLP higher"
            text = " / ".join(mean_std(row.mean_return, row.std_return) for row in (span, mlp))
            measure = partial(on_the_way, env, step, says)
            claims.append(Claim(ANYTIME, f"{name_of(env)}, after {short_number(step)}: {says}", text, measure))
    return claims


def on_the_way(env: str, step: int, says: str, records: Records) -> Finding:
    pair = records.pair(env)
    samples = pair.returns_at(step)
    test = compare(*samples)
    if says == "alike":
        verdict = no_difference(pair.seeds, paper_setting(env, "train_seeds"), test.p)
    else:
        verdict = by_test(pair.seeds, test.p, test.t if says == "SPAN higher" else -test.t)
    where = basis([len(side) for side in pair.sides], step, step)
    return Finding(_mean_stds(samples), f"p {p_value(test.p)}", where, verdict, pair.command)


def _final() -> list[Claim]:
    claims = []
    for row in paper("significance").itertuples():
        p = float(str(row.p).removeprefix("<"))
        alike = p >= SIGNIFICANCE
        says = "no significant difference" if alike else "SPAN higher"
        text = f"p {row.p}, d {row.cohen_d:.2f}"
        claims.append(Claim(FINAL, f"{name_of(row.env)}: {says}", text, partial(at_the_end, row.env, alike)))
    return claims


def at_the_end(env: str, alike: bool, records: Records) -> Finding:
    pair = records.pair(env)
    samples = pair.finals()
    test = compare(*samples)
    n_paper = paper_setting(env, "train_seeds")
    verdict = no_difference(pair.seeds, n_paper, test.p) if alike else by_test(pair.seeds, test.p, test.t)
    if verdict != FEW and not pair.has_paper_steps:
        verdict = NOT_RUN
    return Finding(f"p {p_value(test.p)}, d {test.d:.2f}", _mean_stds(samples), pair.basis, verdict, pair.command)


def _iqm() -> list[Claim]:
    claims = []
    for row in paper("iqm").itertuples():
        apart = row.span_lo > row.mlp_hi or row.env == CALLED_APART
        says = "SPAN higher, intervals apart" if apart else "intervals overlap"
        envs = known_environments() if row.env == AGGREGATE else [row.env]
        name = "all seven" if row.env == AGGREGATE else name_of(row.env)
        text = " / ".join(
            _interval(*values) for values in [(row.span_iqm, row.span_lo, row.span_hi), (row.mlp_iqm, row.mlp_lo, row.mlp_hi)]
        )
        claims.append(Claim(IQM, f"{name}: {says}", text, partial(interquartile, envs, apart)))
    return claims


def _interval(point: float, low: float, high: float) -> str:
    return f"{point:.2f} [{low:.2f}, {high:.2f}]"


def interquartile(envs: list[str], apart: bool, records: Records) -> Finding:
    """As many seeds of each environment as that with fewest has."""
    pairs = [records.pair(env) for env in envs]
    seeds = min(pair.seeds for pair in pairs)
    intervals = []
    for side in range(2):
        columns = [normalise(pair.env, pair.finals()[side][:seeds]) for pair in pairs]
        intervals.append(iqm_interval(np.stack(columns, axis=1)))
    (_, span_low, span_high), (_, mlp_low, mlp_high) = intervals
    if seeds < MIN_SEEDS:
        verdict = FEW
    elif not all(pair.has_paper_steps for pair in pairs):
        verdict = NOT_RUN
    elif apart:
        verdict = HOLDS if span_low > mlp_high else FAILS if span_high < mlp_low else NOISE
    else:
        separate = span_low > mlp_high or span_high < mlp_low
        verdict = FAILS if separate else HOLDS if seeds >= paper_setting(envs[0], "train_seeds") else NOISE
    shortest = min(pairs, key=lambda pair: pair.steps / pair.paper_steps)
    where = basis([seeds], shortest.steps, shortest.paper_steps)
    commands = "; ".join(dict.fromkeys(pair.command for pair in pairs))
    return Finding(" / ".join(_interval(*values) for values in intervals), "", where, verdict, commands)


def _profiles() -> list[Claim]:
    return [
        Claim(
            PROFILES,
            f"{name_of(env)}, {score:g}: more runs of SPAN",
            f"{percent(span)} / {percent(mlp)}",
            partial(at_or_above, env, score),
        )
        for env, score, span, mlp in AT_OR_ABOVE
    ]


def at_or_above(env: str, score: float, records: Records) -> Finding:
    pair = records.pair(env)
    counts = [(int((normalise(env, final) >= score).sum()), len(final)) for final in pair.finals()]
    return _counted(pair, counts, fisher(*counts))


def _counted(pair: Pair, counts: list[tuple[int, int]], p: float) -> Finding:
    span, mlp = (met / n for met, n in counts)
    verdict = by_test(pair.seeds, p, span - mlp)
    if verdict != FEW and not pair.has_paper_steps:
        verdict = NOT_RUN
    return Finding(f"{percent(span)} / {percent(mlp)}", f"p {p_value(p)}", pair.basis, verdict, pair.command)


def _even() -> list[Claim]:
    table = paper("anytime").set_index(["env", "budget_pct", "method"])
    claims = []
    for env, share in EVENER:
        step = share * paper_setting(env, "train_steps") // 100
        text = " / ".join(number(table.loc[(env, share, method)].std_return) for method in ("span", "mlp"))
        says = f"{name_of(env)}, after {short_number(step)}: SPAN more even"
        claims.append(Claim(EVEN, says, text, partial(evener, env, step)))
    env, share = KEPT
    says = f"{name_of(env)}: SPAN keeps {share} % more often"
    claims.append(Claim(EVEN, says, "all / about half", partial(kept, env, share)))
    env, share = FALLS
    step = share * paper_setting(env, "train_steps") // 100
    before, after = (table.loc[(env, percents, "mlp")].mean_return for percents in (share, 100))
    says = f"{name_of(env)}: the MLP's return falls after {short_number(step)}"
    claims.append(Claim(EVEN, says, f"{number(before)}, then {number(after)}", partial(falls, env, step)))
    return claims


def evener(env: str, step: int, records: Records) -> Finding:
    pair = records.pair(env)
    samples = pair.returns_at(step)
    constant = all(np.ptp(sample) == 0 for sample in samples)
    p = 1.0 if constant else float(stats.levene(*samples, center="median").pvalue)
    span, mlp = (sample.std(ddof=1) if len(sample) > 1 else np.nan for sample in samples)
    where = basis([len(side) for side in pair.sides], step, step)
    text = f"{number(span)} / {number(mlp)}"
    return Finding(text, f"p {p_value(p)}", where, by_test(pair.seeds, p, mlp - span), pair.command)


def kept(env: str, share: int, records: Records) -> Finding:
    """Of the runs that met the threshold, those whose last evaluation meets it."""
    pair = records.pair(env)
    counts = []
    for steps, finals in zip(pair.arrivals(share), pair.finals(), strict=True):
        arrived = finals[np.isfinite(steps)]
        counts.append((int((arrived >= thresholds(env)[share]).sum()), len(arrived)))
    if min(n for _, n in counts) < MIN_SEEDS:
        return Finding("", "", pair.basis, FEW, pair.command)
    return _counted(pair, counts, fisher(*counts))


def falls(env: str, step: int, records: Records) -> Finding:
    pair = records.pair(env)
    before, after = (pair.returns_at(when)[1] for when in (step, pair.paper_steps))
    p = float(stats.ttest_rel(before, after).pvalue)
    text = f"{number(before.mean())}, then {number(after.mean())}"
    verdict = by_test(len(before), p, before.mean() - after.mean())
    return Finding(text, f"p {p_value(p)}", pair.basis, verdict, pair.command)
