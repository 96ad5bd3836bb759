"""The ``sb3-span`` command: the command line only, the work is done in the rooms of the package."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from sb3_span.shipped import HYPERPARAMS, find_study
from sb3_span.version import __version__

STUDIES = Path("studies")  # the default folder for studies


class _WithDefaults(argparse.HelpFormatter):
    """Appends an option's default to its help, unless the help names it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_told = action.default in (None, False, argparse.SUPPRESS) or "default" in (action.help or "")
        return action.help if is_told else f"{action.help} (default: %(default)s)"


class _Parser(argparse.ArgumentParser):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"formatter_class": _WithDefaults, **kwargs})


def main(arguments: list[str] | None = None) -> None:
    """
    :param arguments: The command line without the program's name; None for that of the process
    """
    parser = _Parser(prog="sb3-span", description="SPAN networks for Stable-Baselines3.")
    parser.add_argument("--version", action="version", version=f"sb3_span {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    watch = commands.add_parser("watch", help="watch an agent at work (loading unpickles: trusted files only)")
    _add_model(watch)
    watch.add_argument("--env", metavar="ID", help="the environment, if the file's name does not tell it")
    watch.add_argument("--gif", type=Path, metavar="FILE", help="write an animated GIF instead of opening a window")
    watch.add_argument("--episodes", type=int, default=20, help="episodes to play for the return")
    watch.set_defaults(run=_watch)

    plot = commands.add_parser("plot", help="draw what an agent has learned (loading unpickles: trusted files only)")
    _add_model(plot)
    plot.add_argument("--env", metavar="ID", help="the environment, if the file's name does not tell it; 'none' for none")
    plot.add_argument("--output", type=Path, help="the picture: PNG, PDF or SVG; by default a PNG with the model's name")
    plot.add_argument(
        "--network", choices=("pi", "vf", "qf"), help="the network whose splines are drawn; by default the actor, pi"
    )
    plot.add_argument("--names", nargs="+", metavar="NAME", help="names of the observations, one for each number")
    plot.add_argument(
        "--slice", nargs=2, metavar="NAME", help="the two observations of the slices; by default the most influential ones"
    )
    plot.add_argument("--modes", type=int, default=3, help="number of modes to draw, for each group of latent dimensions")
    plot.set_defaults(run=_plot)

    diagnose = commands.add_parser("diagnose", help="why an agent does not learn (loading unpickles: trusted files only)")
    _add_model(diagnose, nargs="?")
    diagnose.add_argument("--env", metavar="ID", help="the environment, if the file's name does not tell it")
    diagnose.add_argument("--episodes", type=int, default=5, help="episodes to play")
    diagnose.add_argument("--output", type=Path, help="also draw a picture: PNG, PDF or SVG")
    diagnose.add_argument(
        "--runs",
        nargs="+",
        metavar="LABEL=FILE",
        help="instead of a model: draw the progress.csv of runs with DiagnosticsCallback in one picture; seeds share a label",
    )
    diagnose.add_argument("--title", help="for --runs: the picture's title")
    diagnose.set_defaults(run=_diagnose)

    budget = commands.add_parser("budget", help="list the networks with a given number of parameters")
    budget.add_argument("--env", required=True, metavar="ID", help="the environment, such as Hopper-v5")
    budget.add_argument("--algo", required=True, help="the algorithm, such as sac")
    size = budget.add_mutually_exclusive_group(required=True)
    size.add_argument("--params", type=int, help="number of trainable parameters of the whole policy")
    size.add_argument(
        "--net-arch", type=int, nargs="+", metavar="WIDTH", help="as many parameters as MLPs with these hidden layers"
    )
    budget.set_defaults(run=_budget)

    export = commands.add_parser("export", help="write a trained policy as C for a microcontroller, or as ONNX")
    _add_model(export, nargs="?")
    export.add_argument(
        "--format",
        choices=("c", "onnx", "safetensors"),
        default="c",
        help="c: policy.h and policy.c; onnx: policy.onnx; "
        "safetensors: policy.safetensors, to share the agent; loading it executes nothing",
    )
    export.add_argument("--output", type=Path, help="folder for the result; by default one with the model's name")
    export.add_argument("--env", metavar="ID", help="the environment to check the result with; by default the one of training")
    export.add_argument("--name", default="policy", help="name of the files, functions and macros of C")
    export.add_argument("--int8", action="store_true", help="C with weights in bytes: smaller, but less exact")
    export.add_argument(
        "--report", action="store_true", help="instead of a model: a table of what SPAN and MLP need on a small device"
    )
    _add_hyperparams(export)
    export.set_defaults(run=_export)

    study = commands.add_parser("study", help="many training runs: environments, methods, seeds, a grid")
    _add_study_commands(study.add_subparsers(dest="study_command", required=True, metavar="COMMAND"))

    report = commands.add_parser("report", help="write the tables, figures and page of a study")
    report.add_argument("folder", type=Path, help="the study's folder, packed or not; the report goes into 'report' in it")
    report.set_defaults(run=_report)

    offline = commands.add_parser("offline", help="IQL on data sets of Minari: training, and the table of scores")
    _add_offline_commands(offline.add_subparsers(dest="offline_command", required=True, metavar="COMMAND"))

    hvac = commands.add_parser("hvac", help="control simulated buildings: a data centre, an office (EnergyPlus)")
    _add_hvac_commands(hvac.add_subparsers(dest="hvac_command", required=True, metavar="COMMAND"))

    speed = commands.add_parser("speed", help="measure how long SPAN takes, and the MLP it replaces")
    speed.add_argument("--output", type=Path, default=Path("speed"), help="folder for the CSV files and the picture")
    _add_hyperparams(speed)
    speed.add_argument("--rounds", type=int, default=20, help="rounds for each comparison")
    speed.add_argument(
        "--only", nargs="+", metavar="WHAT", help="training, predict, critics, ...; other results in the folder stay"
    )
    speed.set_defaults(run=_speed)

    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help()
        return
    args = parser.parse_args(arguments)
    # For modules that register environments, as with python -m. Commands that only read records import nothing from here.
    if args.run not in READERS and (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        args.run(args)
    except ValueError as error:
        sys.exit(f"sb3-span {args.command}: {error}")
    except ImportError as error:
        advice = "" if "pip install" in str(error) else ". It needs the extra 'zoo': pip install 'sb3_span[zoo]'."
        sys.exit(f"sb3-span {args.command}: {error}{advice}")
    except OSError as error:
        sys.exit(f"sb3-span {args.command}: {error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _add_model(command: argparse.ArgumentParser, nargs: str | None = None, other: str = "") -> None:
    """The options that name a model and the statistics of its observations."""
    names = "the folder of its run (study, RL Zoo), or an agent that comes with the package, such as cartpole"
    command.add_argument("model", nargs=nargs, help=f"a file that model.save wrote, {names}{other}")
    command.add_argument(
        "--vecnormalize",
        type=Path,
        metavar="FILE",
        help="what VecNormalize.save wrote, or none; by default it is looked for next to the model",
    )


def _add_hyperparams(command: argparse.ArgumentParser, files: str = "span.yml and mlp.yml") -> None:
    command.add_argument(
        "--hyperparams", type=Path, default=HYPERPARAMS, help=f"folder with {files}; by default the package's"
    )


def _add_study_commands(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="run a study, or continue one that was stopped")
    run.add_argument("file", type=Path, help="the study's file, or the name of one of the package's, such as smoke")
    run.add_argument("--workers", type=int, default=1, help="runs at a time; the number of cores is a good choice")
    run.set_defaults(run=_study_run)
    status = commands.add_parser("status", help="show what is waiting, running, done or failed, and the time left")
    status.set_defaults(run=_study_status)
    retry = commands.add_parser("retry", help="queue the failed runs again")
    retry.set_defaults(run=_study_retry)
    gather = commands.add_parser("gather", help="collect the runs of several machines")
    gather.add_argument("sources", type=Path, nargs="+", help="folders of the same study")
    gather.set_defaults(run=_study_gather)
    pack = commands.add_parser("pack", help="write the records as one compressed table, which reports can read")
    pack.add_argument("--output", type=Path, help="folder for the table and the study's file; default: the study's folder")
    pack.set_defaults(run=_study_pack)
    search = commands.add_parser("search", help="search for settings: the same number of trials for each method")
    search.add_argument(
        "file", type=Path, help="a study's file with the key 'search', or the name of one of the package's, such as search/ppo"
    )
    search.add_argument("--trials", type=int, default=30, help="trials for each method")
    search.set_defaults(run=_study_search)
    for command in (run, search):
        command.add_argument("--folder", type=Path, help=f"the study's folder; by default {STUDIES} and the file's name")
    gather.add_argument("--folder", type=Path, required=True, help="folder for the collected runs")
    for command in (status, retry, pack):
        command.add_argument("--folder", type=Path, help=f"the study's folder; by default the only one in {STUDIES}")
    for command in (run, search):
        command.add_argument(
            "--trust",
            action="store_true",
            help="let the study execute its own code: modules that are not installed, Python in strings, pickled buffers",
        )
    for command in (run, status, retry):
        command.add_argument(
            "--storage",
            help="a database that machines share, such as postgresql://user@host/database; default: SQLite in the folder",
        )


def _add_offline_commands(commands: argparse._SubParsersAction) -> None:
    train = commands.add_parser("train", help="train IQL on data sets with the paper's settings, or continue")
    train.add_argument("--dataset", nargs="+", required=True, metavar="ID", help="such as D4RL/door/expert-v2")
    train.add_argument("--method", nargs="+", choices=("span", "mlp"), default=["span", "mlp"], help="both by default")
    train.add_argument("--seeds", type=int, default=5, help="seeds for each data set and method")
    train.add_argument("--folder", type=Path, default=Path("offline"), help="folder for the records; further calls add to it")
    train.add_argument("--steps", type=int, default=20_000, help="updates in a run")
    train.add_argument("--episodes", type=int, default=100, help="episodes of the evaluation at the end")
    train.add_argument("--workers", type=int, default=1, help="runs at a time")
    train.add_argument("--download", action="store_true", help="download missing data sets")
    _add_hyperparams(train, "offline_span.yml and offline_mlp.yml")
    train.set_defaults(run=_offline_train)
    table = commands.add_parser("table", help="print the scores next to the paper's")
    table.add_argument("folder", type=Path, help="the folder of offline runs")
    table.set_defaults(run=_offline_table)


def _add_hvac_commands(commands: argparse._SubParsersAction) -> None:
    train = commands.add_parser("train", help="train agents, or continue after a stop or a failure")
    train.add_argument("--method", nargs="+", choices=("span", "mlp"), default=["span", "mlp"], help="both by default")
    train.add_argument("--years", type=int, default=10, help="years to train, with a year of evaluation after each")
    train.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], metavar="SEED", help="0 to 4 by default")
    train.add_argument("--env", default="SPANDataCenter-v0", metavar="ID", help="the building and its climate")
    train.add_argument("--folder", type=Path, default=Path("hvac"), help="folder for the records")
    train.add_argument("--workers", type=int, default=1, help="agents to train at a time")
    _add_hyperparams(train)
    train.set_defaults(run=_hvac_train)
    evaluate = commands.add_parser(
        "evaluate", help="control a year and record every step (loading unpickles: trusted files only)"
    )
    _add_model(evaluate, other=", or a reference: rule, fixed")
    evaluate.add_argument("--output", type=Path, help="folder for the recorded years; by default the model's")
    evaluate.set_defaults(run=_hvac_evaluate)
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
    report = commands.add_parser("report", help="temperatures, violations and power over the year, as tables and figures")
    report.add_argument("folder", type=Path, help="the folder of hvac train; the report goes into its subfolder 'report'")
    report.set_defaults(run=_hvac_report)


def _speed(args: argparse.Namespace) -> None:
    if args.rounds < 2:
        raise ValueError(f"--rounds is {args.rounds}; a spread needs at least 2. Try 20.")
    from sb3_span.speed import measure_speed

    measure_speed(args.output, args.hyperparams, args.rounds, args.only)


def _study_run(args: argparse.Namespace) -> None:
    from sb3_span.study.command import run_study

    file = find_study(args.file)
    folder = args.folder or STUDIES / file.stem
    is_done = run_study(file, folder, args.storage, args.workers, args.trust)
    print(f"Records: {folder}. For tables and figures: sb3-span report {folder}")
    if not is_done:
        sys.exit(1)


def _study_search(args: argparse.Namespace) -> None:
    from sb3_span.study.search import run_search

    file = find_study(args.file)
    run_search(file, args.folder or STUDIES / file.stem, args.trials, args.trust)


def _folder_of(args: argparse.Namespace) -> Path:
    """The folder that was named, or that of the only study that was started."""
    if args.folder is not None:
        return args.folder
    folders = sorted(file.parent for file in STUDIES.glob("*/study.yml"))
    if len(folders) != 1:
        found = f"{STUDIES} has {', '.join(folder.name for folder in folders) or 'none'}"
        raise ValueError(f"Which study? {found}. Name its folder, for example --folder {(folders or [STUDIES / 'smoke'])[0]}.")
    return folders[0]


def _study_status(args: argparse.Namespace) -> None:
    from sb3_span.study.command import show_status

    if not show_status(_folder_of(args), args.storage):
        sys.exit(1)


def _study_retry(args: argparse.Namespace) -> None:
    from sb3_span.study.command import retry

    retry(_folder_of(args), args.storage)


def _study_gather(args: argparse.Namespace) -> None:
    from sb3_span.study.gathering import gather

    if not gather(args.sources, args.folder):
        sys.exit(1)


def _study_pack(args: argparse.Namespace) -> None:
    from sb3_span.study.gathering import pack

    pack(_folder_of(args), args.output)


def _report(args: argparse.Namespace) -> None:
    from sb3_span.report.command import write_report

    write_report(args.folder)


def _offline_train(args: argparse.Namespace) -> None:
    if args.seeds < 1:
        raise ValueError(f"--seeds is {args.seeds}; at least 1 is needed. The paper has 5.")
    from sb3_span.offline.command import train_offline
    from sb3_span.report.data_sets import print_offline_table

    options = {"steps": args.steps, "n_episodes": args.episodes, "n_workers": args.workers}
    folders = {"hyperparams": args.hyperparams, "download": args.download}
    if not train_offline(args.dataset, args.method, args.seeds, args.folder, **options, **folders):
        sys.exit(1)
    print_offline_table(args.folder)


def _offline_table(args: argparse.Namespace) -> None:
    from sb3_span.report.data_sets import print_offline_table

    print_offline_table(args.folder)


def _budget(args: argparse.Namespace) -> None:
    from sb3_span.inspection.budget import print_budget

    print_budget(args.env, args.algo, args.net_arch or args.params)


def _plot(args: argparse.Namespace) -> None:
    from sb3_span.inspection.plotting import plot_file

    options = {"network": args.network, "names": args.names, "dims": args.slice, "n_modes": args.modes}
    plot_file(args.model, args.env, args.output, args.vecnormalize, **options)


def _diagnose(args: argparse.Namespace) -> None:
    if (args.model is None) != bool(args.runs):
        raise ValueError("Name an agent to diagnose or give --runs LABEL=FILE ..., not both.")
    if args.runs:
        from sb3_span.diagnose.runs import compare_runs

        compare_runs(args.runs, args.output, args.title)
    else:
        from sb3_span.diagnose.command import diagnose_agent

        diagnose_agent(args.model, args.env, args.episodes, args.output, args.vecnormalize)


def _watch(args: argparse.Namespace) -> None:
    from sb3_span.inspection.watching import watch

    watch(args.model, args.env, args.gif, args.episodes, args.vecnormalize)


def _export(args: argparse.Namespace) -> None:
    if (args.model is None) != args.report:
        raise ValueError("Name a model to export or give --report, not both.")
    if args.report:
        from sb3_span.deploy.report import write_device_report

        write_device_report(args.output or Path("device"), args.hyperparams)
    else:
        from sb3_span.deploy.command import export_model

        export_model(args.model, args.format, args.output, args.vecnormalize, args.env, args.int8, args.name)


def _hvac_train(args: argparse.Namespace) -> None:
    from sb3_span.hvac.command import train_and_evaluate

    options = {"methods": args.method, "years": args.years, "seeds": args.seeds, "n_workers": args.workers}
    options |= {"hyperparams": args.hyperparams}
    if not train_and_evaluate(args.folder, args.env, args.evaluate_on, _days(args) or {}, **options):
        sys.exit(1)


def _hvac_evaluate(args: argparse.Namespace) -> None:
    from sb3_span.hvac.command import evaluate

    evaluate(args.model, args.evaluate_on, args.output, _days(args), args.vecnormalize)


def _hvac_report(args: argparse.Namespace) -> None:
    from sb3_span.hvac.report import write_report

    write_report(args.folder)


READERS = (_study_status, _study_retry, _study_gather, _study_pack, _report, _offline_table)


def _days(args: argparse.Namespace) -> dict[str, str] | None:
    return {key: value for key in ("first_day", "last_day") if (value := getattr(args, key)) is not None} or None


if __name__ == "__main__":
    main()
