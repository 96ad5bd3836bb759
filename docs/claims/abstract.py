"""The abstract's claims: each is about many rows of the page."""

from collections import Counter
from contextlib import suppress
from functools import partial

import numpy as np

from claims import arrival, buildings, networks, returns
from claims.records import FULL_RUNS, Records
from claims.rules import FAILS, HOLDS, Claim, Finding, NotRun, all_of, bootstrap, judge, reaches
from sb3_span.scores.references import known_environments

TOPIC = "The abstract"
SAVED, AT = 0.3, 50  # the least share of steps that is saved, and at which share of the expert's score
ENOUGH = 4  # environments


def claims(others: list[Claim]) -> list[Claim]:
    """
    :param others: All other claims
    """

    def together(text: str, paper: str, topic: str, says: str = "") -> Claim:
        rows = [claim for claim in others if claim.topic == topic and says in claim.text]
        return Claim(TOPIC, text, paper, partial(all_rows, rows))

    return [
        Claim(TOPIC, "Fewer steps, middle of all environments", "30 to 50 %", fewer_steps),
        together("More runs succeed, in each environment", "1.3 to 9 times", arrival.SUCCESS, "more runs"),
        together("SPAN ahead at every point of training", "in all 7", returns.ANYTIME, "SPAN higher"),
        together("A step takes longer", "1.2 to 1.8 times", networks.SPEED, "a step"),
        together("A success costs the MLP more", "1.3 to 6.3 times", arrival.COST),
        Claim(TOPIC, "Data centre: less energy, of 12 months", "9", buildings.cheaper_months),
        Claim(TOPIC, "Data centre: fewer steps outside the range", "1.1 to 3.4 times", buildings.fewer_violations),
    ]


def all_rows(rows: list[Claim], records: Records) -> Finding:
    findings = [judge(row, records) for row in rows]
    counts = Counter(finding.verdict for finding in findings)
    text = f"{counts[HOLDS]} of {len(rows)} hold, {counts[FAILS]} do not"
    commands = list(dict.fromkeys(finding.command for finding in findings))
    return Finding(text, "", "rows below", all_of(counts), "; ".join(commands))


def fewer_steps(records: Records) -> Finding:
    """The median over environments of the share of the median steps that SPAN saves at half of the expert's score."""
    pairs = []
    for env in known_environments():
        with suppress(NotRun):
            pairs.append(records.pair(env))
    pairs = [pair for pair in pairs if arrival.medians_are_known(pair, AT)]
    if len(pairs) < ENOUGH:
        raise NotRun(f"{len(pairs)} of {len(known_environments())} environments", FULL_RUNS)
    samples = [steps for pair in pairs for steps in pair.arrivals(AT)]

    def middle(*steps: np.ndarray) -> np.ndarray:
        times = [arrival.times_sooner(span, mlp) for span, mlp in zip(steps[::2], steps[1::2], strict=True)]
        return np.median(times, axis=0)

    point, low, high = bootstrap(middle, *samples)
    verdict = reaches(min(map(len, samples)), low, high, 1 / (1 - SAVED), none=1)
    saved = arrival.saved
    seeds = sorted({len(steps) for steps in samples}, reverse=True)
    where = f"{' / '.join(map(str, seeds))} seeds, {len(pairs)} of {len(known_environments())} environments"
    commands = "; ".join(dict.fromkeys(pair.command for pair in pairs))
    return Finding(saved(point), f"{saved(low)} to {saved(high)}", where, verdict, commands)
