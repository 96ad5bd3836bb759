"""``sb3-span study ...`` and ``sb3-span report``: many runs."""

import argparse
import sys
from pathlib import Path

from sb3_span.cli.parser import add_command, add_group
from sb3_span.shipped import find_study

STUDIES = Path("studies")  # the default folder for studies


def add_to(commands: argparse._SubParsersAction) -> None:
    """
    :param commands: Those of the program
    """
    _add_study(add_group(commands, "study", "train many runs: environments, methods, seeds, a grid"))
    report = add_command(commands, "report", "write the tables, figures and page of a study")
    report.add_argument("folder", type=Path, help="the study's folder, packed or not; the report goes into 'report' in it")
    report.set_defaults(run=_report, only_reads=True)


def _add_study(commands: argparse._SubParsersAction) -> None:
    run = add_command(commands, "run", "run a study, or continue one that was stopped")
    run.add_argument("file", type=Path, help="the study's file, or the name of one of the package's, such as smoke")
    run.add_argument("--workers", type=int, default=1, help="runs at a time; the number of cores is a good choice")
    run.set_defaults(run=_run)
    status = add_command(commands, "status", "show what is waiting, running, done or failed, and the time left")
    status.set_defaults(run=_status, only_reads=True)
    retry = add_command(commands, "retry", "queue the failed runs again")
    retry.set_defaults(run=_retry, only_reads=True)
    gather = add_command(commands, "gather", "collect the runs of several machines")
    gather.add_argument("sources", type=Path, nargs="+", help="folders of the same study")
    gather.add_argument("--folder", type=Path, required=True, help="folder for the collected runs")
    gather.set_defaults(run=_gather, only_reads=True)
    pack = add_command(commands, "pack", "write the records as one compressed table, which reports can read")
    pack.add_argument("--output", type=Path, help="folder for the table and the study's file; default: the study's folder")
    pack.set_defaults(run=_pack, only_reads=True)
    search = add_command(commands, "search", "search for settings, with as many trials for each method")
    search.add_argument(
        "file", type=Path, help="a study's file with the key 'search', or the name of one of the package's, such as search/ppo"
    )
    search.add_argument("--trials", type=int, default=30, help="trials for each method")
    search.set_defaults(run=_search)
    for command in (run, search):
        command.add_argument("--folder", type=Path, help=f"folder for the records; default: {STUDIES}/ and the study's name")
        command.add_argument(
            "--trust",
            action="store_true",
            help="let the study execute its own code: modules that are not installed, Python in strings, pickled buffers",
        )
    for command in (status, retry, pack):
        command.add_argument("--folder", type=Path, help=f"the study's folder; default: the only one in {STUDIES}/")
    for command in (run, status, retry):
        command.add_argument(
            "--storage",
            help="a database that machines share, such as postgresql://user@host/database; default: SQLite in the folder",
        )


def _run(args: argparse.Namespace) -> None:
    from sb3_span.study.command import run_study

    file = find_study(args.file)
    folder = args.folder or STUDIES / file.stem
    is_done = run_study(file, folder, args.storage, args.workers, args.trust)
    print(f"Records: {folder}. For tables and figures: sb3-span report {folder}")
    if not is_done:
        sys.exit(1)


def _search(args: argparse.Namespace) -> None:
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


def _status(args: argparse.Namespace) -> None:
    from sb3_span.study.command import show_status

    if not show_status(_folder_of(args), args.storage):
        sys.exit(1)


def _retry(args: argparse.Namespace) -> None:
    from sb3_span.study.command import retry

    retry(_folder_of(args), args.storage)


def _gather(args: argparse.Namespace) -> None:
    from sb3_span.study.gathering import gather

    if not gather(args.sources, args.folder):
        sys.exit(1)


def _pack(args: argparse.Namespace) -> None:
    from sb3_span.study.gathering import pack

    pack(_folder_of(args), args.output)


def _report(args: argparse.Namespace) -> None:
    from sb3_span.report.command import write_report

    write_report(args.folder)
