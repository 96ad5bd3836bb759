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

    budget = commands.add_parser("budget", help="list the networks that have about so many parameters")
    budget.add_argument("--env", required=True, metavar="ID", help="the environment, such as Hopper-v5")
    budget.add_argument("--algo", required=True, help="the algorithm, such as sac")
    size = budget.add_mutually_exclusive_group(required=True)
    size.add_argument("--params", type=int, help="number of trainable parameters of the whole policy")
    size.add_argument("--net-arch", type=int, nargs="+", metavar="WIDTH", help="as many as MLPs with these hidden layers")
    budget.set_defaults(run=_budget)

    args = parser.parse_args(arguments)
    try:
        args.run(args)
    except ImportError as error:
        sys.exit(f"sb3-span {args.command}: {error}. This command needs the extra 'zoo': pip install 'sb3_span[zoo]'.")
    except ValueError as error:
        sys.exit(f"sb3-span {args.command}: {error}")


def _speed(args: argparse.Namespace) -> None:
    if args.rounds < 2:
        raise ValueError(f"--rounds is {args.rounds}; a spread needs at least 2 rounds. Try 20.")
    from sb3_span.speed import measure_speed

    measure_speed(args.output, args.hyperparams, args.rounds)


def _budget(args: argparse.Namespace) -> None:
    from sb3_span.viewing.budget import print_budget

    print_budget(args.env, args.algo, args.net_arch or args.params)


if __name__ == "__main__":
    main()
