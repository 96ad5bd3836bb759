"""From the command line to a command, and from its errors to one line."""

import os
import sys

from sb3_span.cli import agents, hvac, offline, speed, studies
from sb3_span.cli.parser import Parser
from sb3_span.version import __version__


def main(arguments: list[str] | None = None) -> None:
    """
    :param arguments: The command line without the program's name; None for that of the process
    """
    parser = Parser(prog="sb3-span", description="SPAN networks for Stable-Baselines3.")
    parser.add_argument("--version", action="version", version=f"sb3_span {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for group in (agents, studies, offline, hvac, speed):
        group.add_to(commands)
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help()
        return
    args = parser.parse_args(arguments)
    # For modules that register environments, as with python -m. Commands that only read records import nothing from here.
    if "only_reads" not in args and (here := os.getcwd()) not in sys.path:
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
