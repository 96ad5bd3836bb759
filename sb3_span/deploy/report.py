"""The needs of SPAN and the MLP of the same size on a small device: bytes, instructions, time."""

import csv
import io
import math
import shlex
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from sb3_span.atomic_files import write_text
from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.compiled import CompiledPolicy
from sb3_span.deploy.device import missing_tools, run_on_device
from sb3_span.deploy.observations import make_observations
from sb3_span.deploy.policy import DeterministicPolicy
from sb3_span.deploy.verify import verify
from sb3_span.provenance import machine
from sb3_span.speed.training import drift_scales
from sb3_span.zoo import make_agent

ENVIRONMENTS = ("CartPole-v1", "LunarLander-v3", "Hopper-v5", "HalfCheetah-v5")
ROUNDS = 20
NETWORKS = {"SPAN": "span.yml", "MLP": "mlp.yml"}
INT8 = " int8"
MEASURES = {"flash": "flash", "ram": "RAM", "instructions": "instructions", "ns": "ns here"}
DIFFERENCE = "difference"


def write_device_report(output: Path, hyperparams: Path) -> None:
    """
    Measure both networks for four environments, with weights as floats and in bytes, print the table and write ``deploy.csv``
    and ``deploy.md``.

    Agents are untrained, but the scales of the kernel basis have typical values after training: sizes and instructions do not
    depend on the other weights.

    :param output: Folder for the two files
    :param hyperparams: Folder with ``span.yml`` and ``mlp.yml``
    """
    if missing := missing_tools():
        raise ValueError(f"--report needs an emulated device: {missing}.")
    for name in NETWORKS.values():
        if not (hyperparams / name).is_file():
            raise ValueError(f"There is no {hyperparams / name}. Name a folder that has it with --hyperparams.")
    rows = []
    for env_id in ENVIRONMENTS:
        for int8 in (False, True):
            rows += [measure(env_id, network, hyperparams / file, int8) for network, file in NETWORKS.items()]
    table = _markdown(rows)
    where = f"Nanoseconds: {machine()['processor']}, one thread, compiled with -O2, the median of {ROUNDS} rounds."
    command = shlex.join(["sb3-span", "export", "--report", "--output", str(output)])
    device = (
        "Bytes of flash and RAM (static and stack), and instructions: Cortex-M4F, compiled with -Os, run under qemu "
        "(mps2-an386) on 1,000 observations of the environment. Agents are untrained, with the scales of their bumps where "
        "training brings them. The difference to predict is the largest over 10,000 observations, relative to the action's "
        "range; of discrete actions it is the share of those that differ."
    )
    write_text(output / "deploy.md", f"Measured with `{command}`. {device} {where}\n\n{table}")
    write_text(output / "deploy.csv", _csv(rows))
    _print(rows, f"{device} {where}")
    print(f"Written: {output / 'deploy.md'}, {output / 'deploy.csv'}")


def measure(env_id: str, network: str, hyperparams: Path, int8: bool = False) -> dict[str, Any]:
    """
    :param env_id: The environment
    :param network: Its name in the table
    :param hyperparams: The Zoo file with its shape
    :param int8: Whether weights are stored in bytes
    :return: One row of the table
    """
    agent = make_agent(hyperparams, env_id, seed=0)
    drift_scales(agent.policy)
    policy = DeterministicPolicy(agent)
    files = write_c(policy, "an untrained policy, to be measured", int8)
    observations = make_observations(policy, env_id)
    recorded = observations[0][0]
    with CompiledPolicy(policy, files, ROUNDS) as compiled:
        here = compiled.act(recorded)
        verification = verify(policy, compiled, observations, f"{network} for {env_id}", math.inf)
    device = run_on_device(policy, files, recorded)
    if (device.actions != here.actions).any():
        raise ValueError(f"{network} for {env_id} acts differently on the device and on this machine. Please report it.")
    assert agent.env is not None
    agent.env.close()
    return {
        "environment": env_id,
        "network": network + INT8 * int8,
        "flash": device.flash,
        "ram": device.ram,
        "instructions": round(device.instructions),
        "ns": round(here.ticks),
        "difference": verification.differing / verification.observations if verification.discrete else verification.largest,
    }


def _cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The table's rows: each environment's two networks, then SPAN's needs relative to the MLP's."""
    cells = []
    for span, mlp in zip(rows[::2], rows[1::2], strict=True):
        for row in (span, mlp):
            cells.append(
                [row["environment"], row["network"], *(f"{row[name]:,}" for name in MEASURES), f"{row['difference']:.1g}"]
            )
        ratios = (f"{span[name] / mlp[name]:.2f}" for name in MEASURES)
        cells.append(["", "SPAN / MLP", *ratios, ""])
    return cells


def _markdown(rows: list[dict[str, Any]]) -> str:
    header = ["environment", "network", *MEASURES.values(), DIFFERENCE]
    lines = [header, ["---"] * len(header), *_cells(rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _print(rows: list[dict[str, Any]], caption: str) -> None:
    table = Table(
        "",
        "",
        *MEASURES.values(),
        DIFFERENCE,
        title="A policy on a small device",
        caption=caption,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for cells in _cells(rows):
        table.add_row(*cells, end_section=not cells[0])
    Console().print(table)
