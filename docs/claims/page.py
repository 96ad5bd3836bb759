"""The page, from the claims and the records."""

from collections import Counter
from itertools import groupby

from claims import abstract, applications, arrival, buildings, networks, returns
from claims.records import Records
from claims.rules import RULES, VERDICTS, Claim, Finding, judge

HEAD = """\
---
hide-toc: true
---
<!-- Written by docs/claims.py: make claims -->

# The paper, claim by claim

What the paper claims of SPAN and MLPs of its size, and what this repository's records say of it. `make claims` writes this \
page from `results/`; nothing on it is typed by hand but the paper's claims, in our words, and the rules.
"""
READING = """\
Two numbers are SPAN's and the MLP's. *Steps to* are medians of the runs that arrive, with the share of runs that do. ± is \
the standard deviation over seeds, d is Cohen's. *Detail* is p, an interval or means; brackets and ranges are 95 % \
intervals, for times quartiles over rounds. Runs have the paper's settings; of several studies with them the one with five \
seeds, most steps and most seeds counts. The paper has 20 seeds, and 5 of ablations, offline data and the data centre. A \
command of a study makes its records again, in `studies/`; `sb3-span report` makes tables of them.
"""
NOTES = {
    arrival.SIZES: "Of the medians, relative to the MLP's.",
    arrival.COST: "What the MLP costs relative to SPAN: median time to the threshold divided by the share of runs that reach "
    "it. Steps are those of the records; the time of a step is that of `sb3-span speed` for sb3_span's algorithms, because "
    "the runs shared their cores.",
    networks.SPEED: "Times as long as the MLP's. In SB3, with the native kernel; the updates in C of sb3_span's own "
    "algorithms are on [Speed](speed.md). KANs are Kolmogorov-Arnold networks with B-splines: their time relative to an "
    "MLP's of the same size, then SPAN's.",
    networks.PARAMETERS: "The paper prints 256 for InvertedPendulum's MLP; the layers that it names have 263.",
    returns.EVEN: "More even: a smaller standard deviation of returns over seeds.",
    returns.IQM: "0 is a random policy, 1 the expert. The paper's text calls HalfCheetah's intervals apart; by its table they "
    "overlap.",
    returns.PROFILES: "0 is a random policy, 1 the expert.",
    applications.ABLATIONS: "Medians of final returns.",
    applications.PREPROCESSING: "The paper argues for a dense layer with a sigmoid in a table, without runs.",
    applications.OFFLINE: "The public data need a download. *Own data* are 100 episodes of the policies behind the public "
    "expert data, which have 5,000, and the 25 public human demonstrations of the door: there the direction is judged.",
    buildings.TOPIC: "A year in New York's weather after the last training year.",
}
COLUMNS = ["claim", "the paper", "ours", "detail", "seeds, steps", "verdict", "command: `sb3-span ...`"]


def all_claims() -> list[Claim]:
    modules = [arrival, returns, networks, applications, buildings]
    others = [claim for module in modules for claim in module.claims()]
    return [*abstract.claims(others), *others]


def build(records: Records) -> str:
    """
    :return: The page in Markdown
    """
    judged = [(claim, judge(claim, records)) for claim in all_claims()]
    topics = [(topic, list(rows)) for topic, rows in groupby(judged, key=lambda row: row[0].topic)]
    parts = [HEAD, _summary(topics), READING, "## Rules", "\n".join(f"- {rule}" for rule in RULES)]
    for topic, rows in topics:
        parts += [f"## {topic}", NOTES.get(topic, ""), _table(rows)]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _summary(topics: list[tuple[str, list[tuple[Claim, Finding]]]]) -> str:
    lines = [["", *VERDICTS]]
    total: Counter[str] = Counter()
    for topic, rows in topics:
        counts = Counter(finding.verdict for _, finding in rows)
        total += counts
        lines.append([f"[{topic}](#{_anchor(topic)})", *(str(counts[verdict] or "") for verdict in VERDICTS)])
    lines.append([f"**all {sum(total.values())}**", *(f"**{total[verdict]}**" for verdict in VERDICTS)])
    return _markdown(lines)


def _anchor(heading: str) -> str:
    kept = (letter for letter in heading.lower().replace(" ", "-") if letter.isalnum() or letter == "-")
    return "".join(kept)


def _table(rows: list[tuple[Claim, Finding]]) -> str:
    lines = [COLUMNS]
    for claim, finding in rows:
        commands = ", ".join(f"`{command.removeprefix('sb3-span ')}`" for command in finding.command.split("; "))
        cells = [claim.text, claim.paper, finding.ours, finding.detail, finding.basis, f"**{finding.verdict}**", commands]
        lines.append([cell or "-" for cell in cells])
    return f"```{{rst-class}} claims\n```\n\n{_markdown(lines)}"


def _markdown(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [lines[0], ["---"] * len(lines[0]), *lines[1:]])
