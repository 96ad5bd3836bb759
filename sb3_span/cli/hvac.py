"""``sb3-span hvac ...``: simulated buildings."""

import argparse
import sys
from pathlib import Path

from sb3_span.cli.parser import UNPICKLES, add_command, add_group, add_hyperparams, add_model


def add_to(commands: argparse._SubParsersAction) -> None:
    """
    :param commands: Those of the program
    """
    group = add_group(commands, "hvac", "control simulated buildings: a data centre, an office (EnergyPlus)")
    train = add_command(group, "train", "train agents, or continue after a stop or a failure")
    train.add_argument("--method", nargs="+", choices=("span", "mlp"), default=["span", "mlp"], help="both by default")
    train.add_argument("--years", type=int, default=10, help="years to train, with a year of evaluation after each")
    train.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], metavar="SEED", help="0 to 4 by default")
    train.add_argument("--env", default="SPANDataCenter-v0", metavar="ID", help="the building and its climate")
    train.add_argument("--folder", type=Path, default=Path("hvac"), help="folder for the records")
    train.add_argument("--workers", type=int, default=1, help="agents to train at a time")
    add_hyperparams(train)
    train.set_defaults(run=_train)
    evaluate = add_command(group, "evaluate", "let an agent control a year, and record every step", UNPICKLES)
    add_model(evaluate, other=", or a reference: rule, fixed")
    evaluate.add_argument("--output", type=Path, help="folder for the recorded years; by default the model's")
    evaluate.set_defaults(run=_evaluate)
    for command in (train, evaluate):
        command.add_argument(
            "--evaluate-on",
            nargs="+",
            default=[],
            metavar="ID",
            help="climates to evaluate in, each for a year; default: that of training",
        )
        command.add_argument("--first-day", metavar="MM-DD", help="first day of a shorter year, such as 07-01")
        command.add_argument("--last-day", metavar="MM-DD", help="its last day")
    report = add_command(group, "report", "show temperatures, violations and power over the year, as tables and figures")
    report.add_argument("folder", type=Path, help="the folder of hvac train; the report goes into its subfolder 'report'")
    report.set_defaults(run=_report)


def _train(args: argparse.Namespace) -> None:
    from sb3_span.hvac.command import train_and_evaluate

    options = {"methods": args.method, "years": args.years, "seeds": args.seeds, "n_workers": args.workers}
    options |= {"hyperparams": args.hyperparams}
    if not train_and_evaluate(args.folder, args.env, args.evaluate_on, _days(args) or {}, **options):
        sys.exit(1)


def _evaluate(args: argparse.Namespace) -> None:
    from sb3_span.hvac.command import evaluate

    evaluate(args.model, args.evaluate_on, args.output, _days(args), args.vecnormalize)


def _report(args: argparse.Namespace) -> None:
    from sb3_span.hvac.report import write_report

    write_report(args.folder)


def _days(args: argparse.Namespace) -> dict[str, str] | None:
    return {key: value for key in ("first_day", "last_day") if (value := getattr(args, key)) is not None} or None
