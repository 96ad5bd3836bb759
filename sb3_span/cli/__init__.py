"""The ``sb3-span`` command. A file has the arguments of a group of commands, and hands them to the rooms of the package."""

from sb3_span.cli.program import main

__all__ = ["main"]
