"""The networks that fit a budget, as a table."""

from typing import Any

from rich.console import Console
from rich.table import Table

from sb3_span.inspection.environments import make_env
from sb3_span.nn import SPANArch
from sb3_span.nn.budget import Candidate
from sb3_span.policies.budget import NetArch, policy_sizes
from sb3_span.policies.registry import supported_algorithms

# Rows of each kind of spline: enough to choose from, on one screen.
ROWS = {"kernel": 4, "bspline": 2}


def print_budget(env_id: str, algo: str, budget: int | NetArch) -> None:
    """
    Print SPAN networks with about this number of parameters, and the MLP to compare the first one with.

    :param env_id: The environment, whose spaces the networks are for
    :param algo: The algorithm's name in lower case, such as ``sac``
    :param budget: Number of parameters of the whole policy, or the ``net_arch`` of MLPs to match
    """
    algorithms = supported_algorithms()
    if algo not in algorithms:
        raise ValueError(f"There is no SPAN policy for the algorithm {algo!r}; choose one of {list(algorithms)}.")
    env = make_env(env_id)
    try:
        sizes = policy_sizes(algorithms[algo], env.observation_space, env.action_space)
    except AssertionError as error:  # how SB3 refuses a space that an algorithm does not support
        raise ValueError(f"{algo} cannot be trained on {env_id}: {error}") from error
    finally:
        env.close()
    candidates = sizes.span_candidates(budget)
    params = budget if isinstance(budget, int) else sizes.count_mlp(budget)
    net_arch = sizes.match_mlp(candidates[0].span_arch)

    table = Table(title=f"{algo.upper()} on {env_id}: about {params:,} trainable parameters")
    table.add_column("")
    table.add_column("shape")
    table.add_column("parameters", justify="right")
    table.add_column("difference", justify="right")

    def add(name: str, shape: str, number: int, style: str | None = None) -> None:
        table.add_row(name, shape, f"{number:,}", f"{100 * (number / params - 1):+.1f} %", style=style)

    rows = _shortlist(candidates)
    for i, (arch, number) in enumerate(rows):
        add("SPAN", _describe(arch), number, None if i else "bold")
    default = SPANArch.make(sizes.default_arch).to_dict()
    add("", f"default: {_describe(default)}", sizes.count_span(None), "dim")
    table.add_section()
    widths = net_arch.items() if isinstance(net_arch, dict) else [("layers", net_arch)]
    add("MLP", ", ".join(f"{role} {' x '.join(map(str, layers))}" for role, layers in widths), sizes.count_mlp(net_arch))
    shown = f"{len(rows)} of {len(candidates)} that fit. " if len(rows) < len(candidates) else ""
    table.caption = f"{shown}The first one is balanced; the MLP is as large."
    console = Console()
    console.print(table)
    for option, value in (("span_arch", candidates[0].span_arch), ("net_arch", net_arch)):  # for pasting, so not wrapped
        console.print(f"policy_kwargs=dict({option}={_as_code(value)})", soft_wrap=True, highlight=False, markup=False)


def _shortlist(candidates: list[Candidate]) -> list[Candidate]:
    """The first ones of each kind of spline, in their order."""
    seen: dict[tuple[str, Any], int] = {}
    rows = []
    for candidate in candidates:
        kind = candidate.span_arch["basis"], candidate.span_arch.get("degree")
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= ROWS[kind[0]]:
            rows.append(candidate)
    return rows


def _describe(arch: dict[str, Any]) -> str:
    degree = f", degree {arch['degree']}" if arch["basis"] != "kernel" else ""
    others = "".join(f", {name} {arch[name]}" for name in ("latent_dim", "group_size") if arch.get(name) is not None)
    return f"{arch['nmodes']} modes, {arch['nelems']} elements, {arch['basis']}{degree}{others}"


def _as_code(value: Any) -> str:
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key}={_as_code(item)}' for key, item in value.items())})"
    return repr(value)
