"""``sb3-span speed``: benchmarks."""

import argparse
from pathlib import Path

from sb3_span.cli.parser import add_command, add_hyperparams


def add_to(commands: argparse._SubParsersAction) -> None:
    """
    :param commands: Those of the program
    """
    speed = add_command(commands, "speed", "measure how long SPAN takes, and the MLP it replaces")
    speed.add_argument("--output", type=Path, default=Path("speed"), help="folder for the CSV files and the picture")
    add_hyperparams(speed)
    speed.add_argument("--rounds", type=int, default=20, help="rounds for each comparison")
    speed.add_argument(
        "--only", nargs="+", metavar="WHAT", help="training, predict, critics, ...; other results in the folder stay"
    )
    speed.set_defaults(run=_speed)


def _speed(args: argparse.Namespace) -> None:
    if args.rounds < 2:
        raise ValueError(f"--rounds is {args.rounds}; a spread needs at least 2. Try 20.")
    from sb3_span.speed import measure_speed

    measure_speed(args.output, args.hyperparams, args.rounds, args.only)
