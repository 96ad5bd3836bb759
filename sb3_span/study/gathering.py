"""``sb3-span study gather`` and ``pack``: the records of several machines together, or as one table."""

import shutil
import tempfile
from pathlib import Path

from sb3_span.study.command import check_not_packed, open_study, remember
from sb3_span.study.folder import STUDY_FILE, read_stored
from sb3_span.study.packed import PACKED, write_packed
from sb3_span.study.records import SETTINGS, has_model, read_record, run_folders
from sb3_span.study.training import OWNER


def gather(sources: list[Path], folder: Path) -> bool:
    """
    Collect the runs of several machines. Of two records of one run the longer one is kept.

    :param sources: Folders of the same study
    :param folder: The folder to gather them in
    :return: Whether all of them were readable
    """
    copied = kept = damaged = 0
    for each in [*sources, folder]:
        check_not_packed(each)
    plans = {source: open_study(source) for source in sources}
    if (folder / STUDY_FILE).exists():
        plans[folder] = open_study(folder)
    # Some may have been extended: the whole study is the one with the most runs.
    whole = max(plans, key=lambda source: len(plans[source].runs))
    for source, plan in plans.items():
        try:
            plans[whole].check_extends(plan, source / STUDY_FILE)
        except ValueError as error:
            raise ValueError(
                f"{source} and {whole} are not folders of the same study. {error} If only their seeds differ, put a "
                f"{STUDY_FILE} with the seeds of all folders into {folder}, and gather them again."
            ) from error
    remember(plans[whole], folder)
    for source in sources:
        for run_folder in run_folders(source):
            target = folder / "runs" / run_folder.name
            try:
                reached = _reached(run_folder)
            except ValueError as error:
                print(f"Left out: {error}")
                damaged += 1
                continue
            try:
                is_new = reached > _reached(target)
            except ValueError:  # the existing one is damaged
                is_new = True
            if is_new:
                try:
                    _copy_patiently(run_folder, target)
                except OSError as error:
                    print(f"Left out: {run_folder} could not be copied: {_why(error)}")
                    damaged += 1
                    continue
            copied, kept = copied + is_new, kept + (not is_new)
    print(f"{copied} runs gathered in {folder}; {kept} were already there" + (f"; {damaged} left out." if damaged else "."))
    return not damaged


def pack(folder: Path, output: Path | None) -> Path:
    """
    Write a study's records as one compressed table, which reports can read. The records themselves are kept.

    :param folder: The study's folder
    :param output: The table's folder; None for the same folder
    :return: The table
    """
    check_not_packed(folder)
    output = output or folder
    plan = open_study(folder) if (folder / STUDY_FILE).is_file() else None
    for why in read_stored(folder, plan).broken.values():
        raise ValueError(f"Nothing was packed: {why}")
    output.mkdir(parents=True, exist_ok=True)
    n_runs = write_packed(folder, output / PACKED)
    if plan is not None and output != folder:
        shutil.copyfile(folder / STUDY_FILE, output / STUDY_FILE)
    print(
        f"{n_runs} runs are in {output / PACKED}. It has everything that sb3-span report needs, but no models. If you do "
        f"not need these, you can delete {folder / 'runs'}."
    )
    return output / PACKED


def _reached(run_folder: Path) -> tuple[int, bool]:
    """A run's progress: its last evaluation, and whether it has its model."""
    if not (run_folder / SETTINGS).exists():
        return -1, False
    return int(max(read_record(run_folder).steps, default=0)), has_model(run_folder)


def _copy_patiently(source: Path, target: Path) -> None:
    try:
        _copy(source, target)
    except OSError:  # the run has meanwhile replaced its checkpoint
        _copy(source, target)


def _why(error: OSError) -> str:
    """The first reason, of an error that may list several files."""
    return str(error.args[0][0][-1] if isinstance(error, shutil.Error) else error)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix="."))
    try:
        shutil.copytree(source, temporary / target.name, ignore=shutil.ignore_patterns(OWNER, ".*"))
        if target.exists():
            shutil.rmtree(target)
        (temporary / target.name).rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
