"""The ``sb3-span`` command: a thin door to the rooms of the package."""

import argparse
import os
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
    speed.add_argument(
        "--only", nargs="+", metavar="WHAT", help="training, predict, critics, ...; what else is in the folder stays"
    )
    speed.set_defaults(run=_speed)

    study = commands.add_parser("study", help="many training runs: environments, methods, seeds, a grid")
    _add_study_commands(study.add_subparsers(dest="study_command", required=True, metavar="COMMAND"))

    report = commands.add_parser("report", help="write the tables, figures and page of a study")
    report.add_argument("folder", type=Path, help="the study's folder, packed or not; the report goes into 'report' in it")
    report.set_defaults(run=_report)

    offline = commands.add_parser("offline", help="IQL on data sets of Minari: training, and the table of scores")
    _add_offline_commands(offline.add_subparsers(dest="offline_command", required=True, metavar="COMMAND"))

    budget = commands.add_parser("budget", help="list the networks that have about so many parameters")
    budget.add_argument("--env", required=True, metavar="ID", help="the environment, such as Hopper-v5")
    budget.add_argument("--algo", required=True, help="the algorithm, such as sac")
    size = budget.add_mutually_exclusive_group(required=True)
    size.add_argument("--params", type=int, help="number of trainable parameters of the whole policy")
    size.add_argument("--net-arch", type=int, nargs="+", metavar="WIDTH", help="as many as MLPs with these hidden layers")
    budget.set_defaults(run=_budget)

    plot = commands.add_parser("plot", help="draw what an agent has learned (loading unpickles: trusted files only)")
    plot.add_argument(
        "model", help="a file that model.save wrote, the folder of a run, or the name of an agent in examples/agents"
    )
    plot.add_argument("--env", metavar="ID", help="its environment, where the file's name does not tell; 'none' for none")
    plot.add_argument("--output", type=Path, help="the picture, PNG or PDF or SVG; the model's name by default")
    plot.add_argument("--network", help="whose splines: pi (default), vf or qf")
    plot.add_argument("--names", nargs="+", metavar="NAME", help="a name for each number of an observation")
    plot.add_argument("--slice", nargs=2, metavar="NAME", help="two of these names; the most influential ones by default")
    plot.add_argument("--modes", type=int, default=3, help="number of modes to draw")
    plot.add_argument(
        "--vecnormalize",
        type=Path,
        metavar="FILE",
        help="VecNormalize's statistics, or none; default: those in the run's folder",
    )
    plot.set_defaults(run=_plot)

    watch = commands.add_parser("watch", help="watch an agent at work (loading unpickles: trusted files only)")
    watch.add_argument(
        "model", help="a file that model.save wrote, the folder of a run, or the name of an agent in examples/agents"
    )
    watch.add_argument("--env", metavar="ID", help="its environment, where the file's name does not tell")
    watch.add_argument("--gif", type=Path, metavar="FILE", help="draw into a file instead of a window")
    watch.add_argument("--episodes", type=int, default=20, help="episodes to play for the return")
    watch.add_argument(
        "--vecnormalize",
        type=Path,
        metavar="FILE",
        help="VecNormalize's statistics, or none; default: those in the run's folder",
    )
    watch.set_defaults(run=_watch)

    export = commands.add_parser("export", help="write a trained policy as C for a microcontroller, or as ONNX")
    export.add_argument(
        "model",
        nargs="?",
        help="a model's zip, its folder (Zoo, study), or an agent of examples/agents; loading can run code: trust it",
    )
    export.add_argument(
        "--format",
        choices=("c", "onnx", "safetensors"),
        default="c",
        help="c: policy.h and policy.c; onnx: policy.onnx; "
        "safetensors: policy.safetensors, to share the agent: loaded here without unpickling",
    )
    export.add_argument("--output", type=Path, required=True, help="folder for the result")
    export.add_argument(
        "--vecnormalize", type=Path, metavar="FILE", help="VecNormalize's file, or none; default: that of the model's folder"
    )
    export.add_argument("--env", help="environment to check the result with; default: the Zoo's or study's")
    export.add_argument("--name", default="policy", help="what files, functions and macros of C are called after")
    export.add_argument("--int8", action="store_true", help="C with weights in bytes: smaller, but less exact")
    export.add_argument("--report", action="store_true", help="no model: what SPAN and MLP need on a small device, as a table")
    export.add_argument(
        "--hyperparams", type=Path, default=Path("hyperparams"), help="for --report: where span.yml and mlp.yml are"
    )
    export.set_defaults(run=_export)

    hvac = commands.add_parser("hvac", help="control simulated buildings: a data centre, an office (EnergyPlus)")
    _add_hvac_commands(hvac.add_subparsers(dest="hvac_command", required=True, metavar="COMMAND"))

    args = parser.parse_args(arguments)
    # For modules that register environments, as with python -m. Who only reads records imports nothing from here.
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


def _add_study_commands(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="run a study, or go on with one that was stopped")
    run.add_argument("file", type=Path, help="the study's file, such as zoo_configs/smoke.yml")
    run.add_argument("--workers", type=int, default=1, help="runs at a time; as many as there are cores is a good number")
    run.set_defaults(run=_study_run)
    status = commands.add_parser("status", help="what is waiting, running, done, failed, and how long it will take")
    status.set_defaults(run=_study_status)
    retry = commands.add_parser("retry", help="let the failed runs wait again")
    retry.set_defaults(run=_study_retry)
    gather = commands.add_parser("gather", help="bring the runs of several machines together")
    gather.add_argument("sources", type=Path, nargs="+", help="folders of the same study")
    gather.set_defaults(run=_study_gather)
    pack = commands.add_parser("pack", help="write the records as one compressed table, for keeping and for reports")
    pack.add_argument("--output", type=Path, help="folder for the table and the study's file; default: the study's folder")
    pack.set_defaults(run=_study_pack)
    search = commands.add_parser("search", help="search for settings: the same number of trials for each method")
    search.add_argument("file", type=Path, help="a study's file with the key 'search', such as zoo_configs/search/ppo.yml")
    search.add_argument("--trials", type=int, default=30, help="trials for each method")
    search.set_defaults(run=_study_search)
    for command in (run, status, retry, gather, pack, search):
        command.add_argument("--folder", type=Path, required=True, help="the study's folder")
    for command in (run, search):
        command.add_argument(
            "--trust",
            action="store_true",
            help="let the study execute code of its own: modules that are not installed, Python in strings, pickled buffers",
        )
    for command in (run, status, retry):
        command.add_argument(
            "--storage",
            help="a database that machines share, such as postgresql://user@host/database; default: SQLite in the folder",
        )


def _add_offline_commands(commands: argparse._SubParsersAction) -> None:
    train = commands.add_parser("train", help="train IQL on data sets, or go on with it: the paper's settings")
    train.add_argument("--dataset", nargs="+", required=True, metavar="ID", help="such as D4RL/door/expert-v2")
    train.add_argument("--method", nargs="+", choices=("span", "mlp"), required=True, help="the networks")
    train.add_argument("--seeds", type=int, default=5, help="seeds for each data set and method")
    train.add_argument("--folder", type=Path, default=Path("offline"), help="folder for the records; more can be added to it")
    train.add_argument("--steps", type=int, default=20_000, help="updates in a run")
    train.add_argument("--episodes", type=int, default=100, help="episodes of the evaluation at the end")
    train.add_argument("--workers", type=int, default=1, help="runs at a time")
    train.add_argument("--download", action="store_true", help="download data sets that are not there")
    train.add_argument(
        "--hyperparams", type=Path, default=Path("hyperparams"), help="folder with offline_span.yml and offline_mlp.yml"
    )
    train.set_defaults(run=_offline_train)
    table = commands.add_parser("table", help="print the scores, the paper's beside them")
    table.add_argument("folder", type=Path, help="the folder of offline runs")
    table.set_defaults(run=_offline_table)


def _add_hvac_commands(commands: argparse._SubParsersAction) -> None:
    train = commands.add_parser("train", help="train agents, or go on with training that was stopped or has failed")
    train.add_argument("--method", nargs="+", choices=("span", "mlp"), default=["span", "mlp"], help="both by default")
    train.add_argument("--years", type=int, default=10, help="years to train, with a year of evaluation after each")
    train.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], metavar="SEED", help="0 to 4 by default")
    train.add_argument("--env", default="SPANDataCenter-v0", metavar="ID", help="the building and its climate")
    train.add_argument("--folder", type=Path, required=True, help="folder for the records")
    train.add_argument("--workers", type=int, default=1, help="agents to train at a time")
    train.add_argument("--hyperparams", type=Path, default=Path("hyperparams"), help="folder with span.yml and mlp.yml")
    train.set_defaults(run=_hvac_train)
    evaluate = commands.add_parser("evaluate", help="control a year, every step kept (loading unpickles: trusted files only)")
    evaluate.add_argument("model", help="a model's zip, the folder of a run, or a reference: rule, fixed")
    evaluate.add_argument("--output", type=Path, help="folder for the years; that of the model by default")
    evaluate.set_defaults(run=_hvac_evaluate)
    for command in (train, evaluate):
        command.add_argument(
            "--evaluate-on", nargs="+", default=[], metavar="ID", help="other climates than that of training, each for a year"
        )
        command.add_argument("--first-day", metavar="MM-DD", help="for years that are shorter, such as 07-01")
        command.add_argument("--last-day", metavar="MM-DD", help="the last day of these")
    report = commands.add_parser("report", help="temperatures, violations and power over the year, as tables and figures")
    report.add_argument("folder", type=Path, help="the folder of hvac train; the report goes into its subfolder 'report'")
    report.set_defaults(run=_hvac_report)


def _speed(args: argparse.Namespace) -> None:
    if args.rounds < 2:
        raise ValueError(f"--rounds is {args.rounds}; a spread needs at least 2 rounds. Try 20.")
    from sb3_span.speed import measure_speed

    measure_speed(args.output, args.hyperparams, args.rounds, args.only)


def _study_run(args: argparse.Namespace) -> None:
    from sb3_span.study.command import run_study

    if not run_study(args.file, args.folder, args.storage, args.workers, args.trust):
        sys.exit(1)


def _study_search(args: argparse.Namespace) -> None:
    from sb3_span.study.search import run_search

    run_search(args.file, args.folder, args.trials, args.trust)


def _study_status(args: argparse.Namespace) -> None:
    from sb3_span.study.command import show_status

    if not show_status(args.folder, args.storage):
        sys.exit(1)


def _study_retry(args: argparse.Namespace) -> None:
    from sb3_span.study.command import retry

    retry(args.folder, args.storage)


def _study_gather(args: argparse.Namespace) -> None:
    from sb3_span.study.gathering import gather

    if not gather(args.sources, args.folder):
        sys.exit(1)


def _study_pack(args: argparse.Namespace) -> None:
    from sb3_span.study.gathering import pack

    pack(args.folder, args.output)


def _report(args: argparse.Namespace) -> None:
    from sb3_span.report.command import write_report

    write_report(args.folder)


def _offline_train(args: argparse.Namespace) -> None:
    if args.seeds < 1:
        raise ValueError(f"--seeds is {args.seeds}; at least 1 is needed. The paper has 5.")
    from sb3_span.report.offline import print_offline_table
    from sb3_span.study.offline_command import train_offline

    options = {"steps": args.steps, "n_episodes": args.episodes, "n_workers": args.workers}
    folders = {"hyperparams": args.hyperparams, "download": args.download}
    if not train_offline(args.dataset, args.method, args.seeds, args.folder, **options, **folders):
        sys.exit(1)
    print_offline_table(args.folder)


def _offline_table(args: argparse.Namespace) -> None:
    from sb3_span.report.offline import print_offline_table

    print_offline_table(args.folder)


def _budget(args: argparse.Namespace) -> None:
    from sb3_span.viewing.budget import print_budget

    print_budget(args.env, args.algo, args.net_arch or args.params)


def _plot(args: argparse.Namespace) -> None:
    from sb3_span.viewing.plotting import plot_file

    options = {"network": args.network, "names": args.names, "dims": args.slice, "n_modes": args.modes}
    plot_file(args.model, args.env, args.output, args.vecnormalize, **options)


def _watch(args: argparse.Namespace) -> None:
    from sb3_span.viewing.watching import watch

    watch(args.model, args.env, args.gif, args.episodes, args.vecnormalize)


def _export(args: argparse.Namespace) -> None:
    if (args.model is None) != args.report:
        raise ValueError("Name a model to export, or --report, which takes none; not both.")
    if args.report:
        from sb3_span.deploy.report import write_device_report

        write_device_report(args.output, args.hyperparams)
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

    evaluate(args.model, args.evaluate_on, args.output, _days(args))


def _hvac_report(args: argparse.Namespace) -> None:
    from sb3_span.hvac.report import write_report

    write_report(args.folder)


READERS = (_study_status, _study_retry, _study_gather, _study_pack, _report, _offline_table)


def _days(args: argparse.Namespace) -> dict[str, str] | None:
    return {key: value for key in ("first_day", "last_day") if (value := getattr(args, key)) is not None} or None


if __name__ == "__main__":
    main()
