"""Claims about the data centre."""

from functools import partial

import numpy as np

from claims.records import METHODS, Records, basis, paper_setting
from claims.rules import FAILS, FEW, HOLDS, NOT_RUN, Claim, Finding, bootstrap, by_test, reaches
from sb3_span.hvac.buildings import DEFAULT
from sb3_span.hvac.monthly import WHOLE_YEAR
from sb3_span.hvac.results import Results
from sb3_span.report.formats import fixed, number, p_value
from sb3_span.report.statistics import MIN_SEEDS, compare
from sb3_span.scores.references import paper

TOPIC = "Data centre"
YEAR = 52_560  # steps
MONTHS = 12
CHEAPER_MONTHS = 9
FREE_OF_VIOLATIONS = ("1", "2", "12")
FEWER_VIOLATIONS = 1.1  # times, the least that the abstract has


def claims() -> list[Claim]:
    claims = [
        Claim(TOPIC, "Higher return, mean of all years", "a figure", returns),
        Claim(TOPIC, "Neither is ever too cold", "0 % / 0 %", partial(never, "below", (WHOLE_YEAR,))),
        Claim(TOPIC, "Neither is outside, December to February", "0 % / 0 %", winter),
    ]
    table = list(paper("hvac_monthly").itertuples())
    for i, row in enumerate(table, start=1):
        if row.violation_ratio > 0:
            rates = "" if np.isnan(row.span_violation_pct) else f"{row.span_violation_pct:g} % / {row.mlp_violation_pct:g} %"
            text = rates or f"{row.violation_ratio:g} times fewer"
            claims.append(Claim(TOPIC, f"{row.month}: fewer steps outside", text, partial(outside, str(i))))
    for i, row in enumerate(table, start=1):
        if not np.isnan(row.span_energy_saving_pct):
            saves = row.span_energy_saving_pct > 0
            says = f"{row.month}: SPAN takes {'less' if saves else 'more'} power"
            text = f"{-row.span_energy_saving_pct:+.1f} %"
            claims.append(Claim(TOPIC, says, text, partial(power, str(i), 1 if saves else -1)))
    return claims


def hvac_command(results: Results) -> str:
    runs = results.study.select(results.env_id, METHODS[0])
    years = max(run.budget for run in runs) // YEAR
    return f"sb3-span hvac train --years {years} --seeds {' '.join(str(run.seed) for run in runs)}"


def _found(results: Results, ours: str, test: str, verdict: str) -> Finding:
    """A year at the end of training is judged with the paper's number of training years only."""
    study = results.study
    budget = study.budgets(DEFAULT, *METHODS)[0]
    paper_steps = paper_setting(DEFAULT, "train_steps")
    where = basis([len(study.finished(DEFAULT, method)) for method in METHODS], budget, paper_steps)
    if verdict != FEW and budget < paper_steps:
        verdict = NOT_RUN
    return Finding(ours, test, where, verdict, hvac_command(results))


def _monthly(results: Results, column: str, month: str) -> list[np.ndarray]:
    """A column of the monthly statistics of both methods' seeds, shape (seeds,) each."""
    return [results.home.by_month(method, column).loc[month].to_numpy() for method in METHODS]


def _seeds(samples: list[np.ndarray]) -> int:
    return min(map(len, samples))


def returns(records: Records) -> Finding:
    results = records.hvac
    samples = [np.array([run.means.mean() for run in results.study.finished(DEFAULT, method)]) for method in METHODS]
    test = compare(*samples)
    text = " / ".join(number(sample.mean()) for sample in samples)
    return _found(results, text, f"p {p_value(test.p)}", by_test(_seeds(samples), test.p, test.t))


def cheaper_months(records: Records) -> Finding:
    results = records.hvac
    months = [month for month in results.home.months if month != WHOLE_YEAR]
    # (seeds, months)
    samples = [results.home.by_month(method, "power").loc[months].to_numpy().T for method in METHODS]

    def count(span: np.ndarray, mlp: np.ndarray) -> np.ndarray:
        return (span.mean(axis=-2) < mlp.mean(axis=-2)).sum(axis=-1)

    point, low, high = bootstrap(count, *samples)
    verdict = reaches(_seeds(samples), low, high, CHEAPER_MONTHS, none=MONTHS / 2)
    return _found(results, number(point), f"{number(low)} to {number(high)}", verdict)


def fewer_violations(records: Records) -> Finding:
    results = records.hvac
    samples = _monthly(results, "outside", WHOLE_YEAR)

    def times(span: np.ndarray, mlp: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(mlp.mean(axis=-1) / span.mean(axis=-1), nan=1.0, posinf=np.inf)

    point, low, high = bootstrap(times, *samples)
    verdict = reaches(_seeds(samples), low, high, FEWER_VIOLATIONS, none=1)
    return _found(results, number(point), f"{number(low)} to {number(high)}", verdict)


def never(column: str, months: tuple[str, ...], records: Records) -> Finding:
    """Of all seeds of both; shares of steps are exact."""
    results = records.hvac
    samples = [np.stack([_monthly(results, column, month)[i] for month in months]) for i in range(len(METHODS))]
    verdict = FEW if min(sample.shape[1] for sample in samples) < MIN_SEEDS else HOLDS
    if verdict == HOLDS and any(sample.any() for sample in samples):
        verdict = FAILS
    text = " / ".join(f"{fixed(100 * sample.mean(), 2)} %" for sample in samples)
    return _found(results, text, "", verdict)


def winter(records: Records) -> Finding:
    return never("outside", FREE_OF_VIOLATIONS, records)


def outside(month: str, records: Records) -> Finding:
    results = records.hvac
    samples = _monthly(results, "outside", month)
    test = compare(*samples)
    text = " / ".join(f"{fixed(100 * sample.mean(), 2)} %" for sample in samples)
    return _found(results, text, f"p {p_value(test.p)}", by_test(_seeds(samples), test.p, -test.t))


def power(month: str, direction: int, records: Records) -> Finding:
    """
    :param direction: 1 where SPAN saves, -1 where it takes more
    """
    results = records.hvac
    span, mlp = samples = _monthly(results, "power", month)
    test = compare(*samples)
    text = f"{100 * (span.mean() / mlp.mean() - 1):+.1f} %"
    return _found(results, text, f"p {p_value(test.p)}", by_test(_seeds(samples), test.p, -direction * test.t))
