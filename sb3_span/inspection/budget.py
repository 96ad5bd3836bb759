"""The networks that fit a budget, as a table."""

from typing import Any

from rich.console import Console
from rich.table import Table

from sb3_span.inspection.environments import make_env
from sb3_span.nn.budget import Candidate
from sb3_span.policies.budget import NetArch, policy_sizes
from sb3_span.policies.registry import supported_algorithms

# Rows of each kind of shape: enough to choose from, on one screen.
ROWS = {"groups": 4, "kernel": 2, "bspline": 2}


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
    table.add_section()
    widths = net_arch.items() if isinstance(net_arch, dict) else [("layers", net_arch)]
    add("MLP", ", ".join(f"{role} {' x '.join(map(str, layers))}" for role, layers in widths), sizes.count_mlp(net_arch))
    shown = f"{len(rows)} of {len(candidates)} that fit. " if len(rows) < len(candidates) else ""
    table.caption = f"{shown}The first is shaped like the default; the MLP is as large."
    console = Console()
    console.print(table)
    for option, value in (("span_arch", candidates[0].span_arch), ("net_arch", net_arch)):  # for pasting, so not wrapped
        console.print(f"policy_kwargs=dict({option}={_as_code(value)})", soft_wrap=True, highlight=False, markup=False)


def _shortlist(candidates: list[Candidate]) -> list[Candidate]:
    """The first ones of each kind of shape, the kind of the very first one ahead."""
    by_kind: dict[tuple[str, Any], list[Candidate]] = {}
    for candidate in candidates:
        arch = candidate.span_arch
        kind = "groups" if "group_size" in arch else arch["basis"], arch.get("degree")
        by_kind.setdefault(kind, []).append(candidate)
    return [candidate for kind, found in by_kind.items() for candidate in found[: ROWS[kind[0]]]]


def _describe(arch: dict[str, Any]) -> str:
    if "group_size" in arch:
        groups = -(-arch["latent_dim"] // arch["group_size"])
        return f"{groups} x {arch['nmodes']} modes of {arch['group_size']} dimensions, {arch['nelems']} elements"
    degree = f", degree {arch['degree']}" if "degree" in arch else ""
    latent_dim = f", latent_dim {arch['latent_dim']}" if "latent_dim" in arch else ""
    return f"{arch['nmodes']} modes, {arch['nelems']} elements, {arch['basis']}{degree}{latent_dim}"


def _as_code(value: Any) -> str:
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key}={_as_code(item)}' for key, item in value.items())})"
    return repr(value)
