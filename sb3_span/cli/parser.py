"""What the commands' arguments have in common."""

import argparse
from pathlib import Path
from typing import Any

from sb3_span.shipped import HYPERPARAMS

UNPICKLES = "Loading a zip of Stable-Baselines3 unpickles it, which can run any code: name only files that you trust."
OR_SHIPPED = ", or an agent that comes with the package, such as cartpole"


class _WithDefaults(argparse.HelpFormatter):
    """Appends an option's default to its help, unless the help names it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_told = action.default in (None, False, argparse.SUPPRESS) or "default" in (action.help or "")
        return action.help if is_told else f"{action.help} (default: %(default)s)"


class Parser(argparse.ArgumentParser):
    """Shows defaults; a command's own help begins with the line that the list of commands has for it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"formatter_class": _WithDefaults, **kwargs})


def add_command(commands: argparse._SubParsersAction, name: str, summary: str, details: str = "") -> Parser:
    """
    :param commands: Where the command belongs
    :param name: Its name
    :param summary: What it does, for the list of commands and for its own help
    :param details: What its own help adds
    """
    description = f"{summary[0].upper()}{summary[1:]}. {details}".rstrip()
    return commands.add_parser(name, help=summary, description=description)


def add_group(commands: argparse._SubParsersAction, name: str, summary: str) -> argparse._SubParsersAction:
    """A command that has commands. For the parameters see :func:`add_command`."""
    group = add_command(commands, name, summary)
    return group.add_subparsers(dest=f"{name}_command", required=True, metavar="COMMAND")


def add_model(command: argparse.ArgumentParser, nargs: str | None = None, other: str = OR_SHIPPED) -> None:
    """The options that name a model and the statistics of its observations; ``other`` ends the list of what it may be."""
    command.add_argument("model", nargs=nargs, help=f"a file that model.save wrote, or the folder of its run{other}")
    command.add_argument(
        "--vecnormalize",
        type=Path,
        metavar="FILE",
        help="what VecNormalize.save wrote, or none; by default it is looked for next to the model",
    )


def add_environment(command: argparse.ArgumentParser, other: str = "") -> None:
    """The option that names a model's environment."""
    command.add_argument("--env", metavar="ID", help=f"the environment, if neither the folder nor the file names it{other}")


def add_hyperparams(command: argparse.ArgumentParser, files: str = "span.yml and mlp.yml") -> None:
    """The option that names the folder with Zoo files."""
    command.add_argument(
        "--hyperparams", type=Path, default=HYPERPARAMS, help=f"folder with {files}; by default the package's"
    )
