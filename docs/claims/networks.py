"""Claims about the networks: numbers of parameters, the time of a step, memory."""

from functools import partial

import pandas as pd

from claims.buildings import hvac_command
from claims.records import METHODS, PAPERS_NAMES, Records, name_of
from claims.rules import FAILS, FEW, HOLDS, NOISE, UNTESTABLE, Claim, Finding, NotRun
from sb3_span.report.formats import number, percent
from sb3_span.report.statistics import MIN_SEEDS
from sb3_span.scores.references import paper

SPEED, MEMORY, PARAMETERS = "Time of a step of training", "Memory", "Numbers of parameters"
NEGLIGIBLE = 0.05  # of a network's parameters
KAN_TIMES = 9  # of an MLP's, which the paper cites
ALIKE = 0.1  # how far apart two amounts of memory are that count as the same


def claims() -> list[Claim]:
    return [*_parameters(), *_speed(), *_memory()]


def _parameters() -> list[Claim]:
    online = [
        Claim(PARAMETERS, f"{_named(row.env)}: SPAN / MLP", _counts(row), partial(online_counts, row.env))
        for row in paper("networks_online").itertuples()
    ]
    offline = [
        Claim(PARAMETERS, f"Adroit, {row.task}: SPAN / MLP", _counts(row), partial(offline_counts, row.task))
        for row in paper("networks_offline").itertuples()
    ]
    text = "The layer before the splines adds few"
    return [*online, *offline, Claim(PARAMETERS, text, "negligible", preprocessing_share)]


def _named(env: str) -> str:
    return "Data centre" if env in PAPERS_NAMES.values() else name_of(env)


def _counts(row) -> str:
    return f"{row.span_params:,} / {row.mlp_params:,}"


def online_counts(env: str, records: Records) -> Finding:
    if env in PAPERS_NAMES.values():
        study, command = records.hvac.study, hvac_command(records.hvac)
        counts = [study.select(records.hvac.env_id, method)[0].settings["n_parameters"] for method in METHODS]
    else:
        pair = records.pair(env)
        command = pair.command
        counts = [side[0].settings["n_parameters"] for side in pair.sides]
    table = paper("networks_online").set_index("env")
    return _compared(counts, [table.span_params[env], table.mlp_params[env]], command)


def offline_counts(task: str, records: Records) -> Finding:
    rows = records.offline[records.offline.task == task]
    if rows.empty:
        raise NotRun("", "sb3-span study run offline")
    counts = [int(rows[rows.method == method].parameters.iloc[0]) for method in METHODS]
    table = paper("networks_offline").set_index("task")
    return _compared(counts, [table.span_params[task], table.mlp_params[task]], records.command("offline"))


def _compared(counts: list[int], papers: list[int], command: str) -> Finding:
    text = " / ".join(f"{count:,}" for count in counts)
    return Finding(text, "", "exact", HOLDS if counts == papers else FAILS, command)


def preprocessing_share(records: Records) -> Finding:
    """Of the paper's networks: d (d + 1) of each with d inputs; a critic of actions has those too."""
    shares = []
    for row in pd.concat([paper("networks_online"), paper("networks_offline").assign(algo="iql")]).itertuples():
        state, both = row.obs_dim, row.obs_dim + row.act_dim
        inputs = {"ppo": [state, state], "sac": [state, both, both], "iql": [state, both, state]}[row.algo]
        shares.append(sum(d * (d + 1) for d in inputs) / row.span_params)
    verdict = HOLDS if max(shares) <= NEGLIGIBLE else FAILS
    text = f"{percent(min(shares))} to {percent(max(shares))}"
    return Finding(text, f"negligible: {percent(NEGLIGIBLE)}", "exact", verdict, "make claims")


def _speed() -> list[Claim]:
    claims = [
        Claim(SPEED, f"{name_of(row.env)}: a step takes longer", number(row.sps_ratio), partial(step, row.env))
        for row in paper("compute").itertuples()
    ]
    claims += [
        Claim(
            SPEED,
            f"KANs are slow, SPAN is not ({where})",
            f"{KAN_TIMES} / 1.2 to 2.2",
            partial(beside_kan, network),
        )
        for network, where in [("SPAN, native", "in C"), ("SPAN, torch", "in PyTorch")]
    ]
    row = paper("compute").iloc[0]
    text = f"{row.span_sps} / {row.mlp_sps}"
    return [*claims, Claim(SPEED, f"{name_of(row.env)}: steps a second on a laptop", text, laptop)]


def laptop(records: Records) -> Finding:
    return Finding("", "", "another machine", UNTESTABLE, "sb3-span speed --only training")


def step(env: str, records: Records) -> Finding:
    """In SB3, as in the paper neither network has an update of its own in C; SPAN has the native kernel."""
    row = records.speed("training").set_index("environment").loc[env]
    low, high = row.ratio_lower, row.ratio_upper
    verdict = FEW if row.rounds < MIN_SEEDS else HOLDS if low > 1 else FAILS if high < 1 else NOISE
    quartiles = f"{number(low)} to {number(high)}"
    return Finding(number(row.ratio), quartiles, f"{row.rounds} rounds", verdict, "sb3-span speed --only training")


def beside_kan(network: str, records: Records) -> Finding:
    """Twin critics, a batch of 128, forward and backward: SPAN's upper quartile below half of the KAN's lower."""
    rows = records.speed("critics").query("batch == 128").set_index("network")
    kan, span = rows.loc["B-spline KAN"], rows.loc[network]
    verdict = HOLDS if span.ratio_upper < kan.ratio_lower / 2 else FAILS
    text = f"{number(kan.ratio)} / {number(span.ratio)}"
    quartiles = f"{number(span.ratio_lower)} to {number(span.ratio_upper)}"
    return Finding(text, quartiles, "Hopper's critics", verdict, "sb3-span speed --only critics")


def _memory() -> list[Claim]:
    text = "The same peak while training"
    return [
        Claim(MEMORY, f"{text}: an update of Hopper's SAC in C", "the same", partial(memory, "Hopper's SAC, {}")),
        Claim(MEMORY, f"{text}: Hopper's critics in PyTorch", "the same", partial(memory, "{}, torch")),
    ]


def memory(network: str, records: Records) -> Finding:
    table = records.speed("memory").query("batch == 128").set_index("network")
    rows = [table.loc[name if (name := network.format(kind)) in table.index else kind] for kind in ("SPAN", "MLP")]
    span, mlp = (row.peak_kB + row.scratch_kB for row in rows)
    verdict = HOLDS if abs(span / mlp - 1) <= ALIKE else FAILS
    return Finding(f"{number(span)} / {number(mlp)} kB", "", "batch 128", verdict, "sb3-span speed --only memory")
