"""``sb3-span offline ...``: IQL on data sets."""

import argparse
import sys
from pathlib import Path

from sb3_span.cli.parser import add_command, add_group, add_hyperparams


def add_to(commands: argparse._SubParsersAction) -> None:
    """
    :param commands: Those of the program
    """
    group = add_group(commands, "offline", "train IQL on data sets of Minari, and print the table of scores")
    train = add_command(group, "train", "train IQL on data sets with the paper's settings, or continue")
    train.add_argument("--dataset", nargs="+", required=True, metavar="ID", help="such as D4RL/door/expert-v2")
    train.add_argument("--method", nargs="+", choices=("span", "mlp"), default=["span", "mlp"], help="both by default")
    train.add_argument("--seeds", type=int, default=5, help="seeds for each data set and method")
    train.add_argument("--folder", type=Path, default=Path("offline"), help="folder for the records; further calls add to it")
    train.add_argument("--steps", type=int, default=20_000, help="updates in a run")
    train.add_argument("--episodes", type=int, default=100, help="episodes of the evaluation at the end")
    train.add_argument("--workers", type=int, default=1, help="runs at a time")
    train.add_argument("--download", action="store_true", help="download missing data sets")
    add_hyperparams(train, "offline_span.yml and offline_mlp.yml")
    train.set_defaults(run=_train)
    table = add_command(group, "table", "print the scores next to the paper's")
    table.add_argument("folder", type=Path, help="the folder of offline runs")
    table.set_defaults(run=_table, only_reads=True)


def _train(args: argparse.Namespace) -> None:
    if args.seeds < 1:
        raise ValueError(f"--seeds is {args.seeds}; at least 1 is needed. The paper has 5.")
    from sb3_span.offline.command import train_offline

    options = {"steps": args.steps, "n_episodes": args.episodes, "n_workers": args.workers}
    folders = {"hyperparams": args.hyperparams, "download": args.download}
    if not train_offline(args.dataset, args.method, args.seeds, args.folder, **options, **folders):
        sys.exit(1)
    _table(args)


def _table(args: argparse.Namespace) -> None:
    from sb3_span.report.data_sets import print_offline_table

    print_offline_table(args.folder)
