"""``sb3-span watch``, ``plot``, ``diagnose``, ``export`` and ``budget``: one agent, or its size."""

import argparse
from pathlib import Path

from sb3_span.cli.parser import UNPICKLES, add_command, add_environment, add_hyperparams, add_model


def add_to(commands: argparse._SubParsersAction) -> None:
    """
    :param commands: Those of the program
    """
    _add_watch(commands)
    _add_plot(commands)
    _add_diagnose(commands)
    _add_export(commands)
    _add_budget(commands)


def _add_watch(commands: argparse._SubParsersAction) -> None:
    watch = add_command(commands, "watch", "watch an agent at work, and print its return", UNPICKLES)
    add_model(watch)
    add_environment(watch)
    watch.add_argument("--gif", type=Path, metavar="FILE", help="write an animated GIF instead of opening a window")
    watch.add_argument("--episodes", type=int, default=20, help="episodes to play for the return")
    watch.set_defaults(run=_watch)


def _watch(args: argparse.Namespace) -> None:
    from sb3_span.inspection.watching import watch

    watch(args.model, args.env, args.gif, args.episodes, args.vecnormalize)


def _add_plot(commands: argparse._SubParsersAction) -> None:
    plot = add_command(commands, "plot", "draw what an agent has learned", UNPICKLES)
    add_model(plot)
    add_environment(plot, "; 'none' for none")
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


def _plot(args: argparse.Namespace) -> None:
    from sb3_span.inspection.plotting import plot_file

    options = {"network": args.network, "names": args.names, "dims": args.slice, "n_modes": args.modes}
    plot_file(args.model, args.env, args.output, args.vecnormalize, **options)


def _add_diagnose(commands: argparse._SubParsersAction) -> None:
    diagnose = add_command(commands, "diagnose", "measure why an agent does not learn", UNPICKLES)
    add_model(diagnose, nargs="?", other="; not an agent of the package, which can only act")
    add_environment(diagnose)
    diagnose.add_argument("--episodes", type=int, default=5, help="episodes to play")
    diagnose.add_argument("--output", type=Path, help="also draw a picture: PNG, PDF or SVG; of --runs by default runs.png")
    diagnose.add_argument(
        "--runs",
        nargs="+",
        metavar="LABEL=FILE",
        help="instead of a model: draw the progress.csv of runs with DiagnosticsCallback in one picture; seeds share a label",
    )
    diagnose.add_argument("--title", help="for --runs: the picture's title")
    diagnose.set_defaults(run=_diagnose)


def _diagnose(args: argparse.Namespace) -> None:
    if (args.model is None) != bool(args.runs):
        raise ValueError("Name an agent to diagnose or give --runs LABEL=FILE ..., not both.")
    if args.runs:
        from sb3_span.diagnose.runs import compare_runs

        compare_runs(args.runs, args.output, args.title)
    else:
        from sb3_span.diagnose.command import diagnose_agent

        diagnose_agent(args.model, args.env, args.episodes, args.output, args.vecnormalize)


def _add_export(commands: argparse._SubParsersAction) -> None:
    export = add_command(
        commands, "export", "write a trained policy as C for a microcontroller, as ONNX, or as a file to share", UNPICKLES
    )
    add_model(export, nargs="?")
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
    add_hyperparams(export)
    export.set_defaults(run=_export)


def _export(args: argparse.Namespace) -> None:
    if (args.model is None) != args.report:
        raise ValueError("Name a model to export or give --report, not both.")
    if args.report:
        from sb3_span.deploy.report import write_device_report

        write_device_report(args.output or Path("device"), args.hyperparams)
    else:
        from sb3_span.deploy.command import export_model

        export_model(args.model, args.format, args.output, args.vecnormalize, args.env, args.int8, args.name)


def _add_budget(commands: argparse._SubParsersAction) -> None:
    budget = add_command(commands, "budget", "list the networks with a given number of parameters")
    budget.add_argument("--env", required=True, metavar="ID", help="the environment, such as Hopper-v5")
    budget.add_argument("--algo", required=True, help="the algorithm, such as sac")
    size = budget.add_mutually_exclusive_group(required=True)
    size.add_argument("--params", type=int, help="number of trainable parameters of the whole policy")
    size.add_argument(
        "--net-arch", type=int, nargs="+", metavar="WIDTH", help="as many parameters as MLPs with these hidden layers"
    )
    budget.set_defaults(run=_budget)


def _budget(args: argparse.Namespace) -> None:
    from sb3_span.inspection.budget import print_budget

    print_budget(args.env, args.algo, args.net_arch or args.params)
