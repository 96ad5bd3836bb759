"""The ``sb3-span`` command: a thin door to the rooms of the package."""

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> None:
    """
    :param arguments: The command line without the program's name; None for that of the process
    """
    parser = argparse.ArgumentParser(prog="sb3-span", description="SPAN networks for Stable-Baselines3.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    speed = commands.add_parser("speed", help="time SPAN against the MLP it replaces")
    speed.add_argument("--output", type=Path, default=Path("speed"), help="folder for the CSV files and the picture")
    speed.add_argument("--hyperparams", type=Path, default=Path("hyperparams"), help="folder with span.yml and mlp.yml")
    speed.add_argument("--rounds", type=int, default=20, help="rounds for each comparison")
    speed.set_defaults(run=_speed)

    report = commands.add_parser("report", help="write the tables, figures and page of a study")
    report.add_argument("folder", type=Path, help="the study's folder; the report goes into its subfolder 'report'")
    report.set_defaults(run=_report)

    args = parser.parse_args(arguments)
    try:
        args.run(args)
    except ValueError as error:
        sys.exit(f"sb3-span {args.command}: {error}")


def _speed(args: argparse.Namespace) -> None:
    if args.rounds < 2:
        raise ValueError(f"--rounds is {args.rounds}; a spread needs at least 2 rounds. Try 20.")
    try:
        from sb3_span.speed import measure_speed
    except ImportError as error:
        raise ValueError(f"{error}. The benchmark needs the extra 'zoo': pip install 'sb3_span[zoo]'.") from error
    measure_speed(args.output, args.hyperparams, args.rounds)


def _report(args: argparse.Namespace) -> None:
    try:
        from sb3_span.report.command import write_report
    except ImportError as error:
        raise ValueError(f"{error}. Reports need the extra 'zoo': pip install 'sb3_span[zoo]'.") from error
    write_report(args.folder)


if __name__ == "__main__":
    main()
