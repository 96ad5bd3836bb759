"""What may happen to a study: killed workers, a database that goes away, a full disk, a clock that jumps, truncated files."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from sb3_span.study.records import read_record, run_folders

# The clock of the study's processes is shifted by what a file says. Workers import this file too, and so have that clock.
PROGRAM = """
import sys, time
from pathlib import Path

own_time, shift = time.time, Path(sys.argv[1])
def shifted_time():
    try:
        return own_time() + float(shift.read_text())
    except (OSError, ValueError):
        return own_time()
time.time = shifted_time

if __name__ == "__main__":
    from sb3_span.study.command import run_study
    _, _, file, folder, storage = sys.argv
    sys.exit(not run_study(Path(file), Path(folder), storage, 2, heartbeat=1, grace=5))
"""


class DisturbedStudy:
    """
    A study in processes of its own, and what may happen to it.

    :param file: The study's file
    :param folder: Its folder
    :param server: The PostgreSQL server with its queue
    :param scratch: Folder for everything else
    :param deadline: When all of it has to be over, by ``time.monotonic``
    """

    def __init__(self, file, folder, server, scratch, deadline, rng=None):
        self.folder, self.server, self.deadline = folder, server, deadline
        self._rng = rng or random.Random(0)
        self._clock, self._log = scratch / "clock", scratch / "log"
        program = scratch / "program.py"
        program.write_text(PROGRAM)
        self._command = [sys.executable, str(program), str(self._clock), str(file), str(folder), server.url]
        self._process = None
        # Evaluations that a run had when it was first disturbed: so many are those of an undisturbed study.
        self.untouched = {}
        self.log = []

    def start(self):
        with self._log.open("a") as log:
            options = {"start_new_session": True, "stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            self._process = subprocess.Popen(self._command, **options)

    def has_ended(self):
        return self._process.poll() is not None

    @property
    def output(self):
        return self._log.read_text()

    def end(self):
        """Whatever is left of it."""
        if self._process is not None and not self.has_ended():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def finish(self):
        """Run it to its end, as often as it takes, and do what its errors tell a user to do."""
        while True:
            if self.has_ended():
                if self._process.returncode == 0:
                    return
                self._do_as_told()
                self.start()
            self.wait(self.has_ended)

    def wait(self, condition):
        while not condition():
            assert time.monotonic() < self.deadline, f"the study takes too long: {self.log}\n{self.output[-3000:]}"
            time.sleep(0.05)

    def progress(self):
        """Wait until something new has been evaluated, or all has ended."""
        before = self._rows()
        self.wait(lambda: self._rows() != before or self.has_ended())

    # What may happen to it.

    def kill_a_worker(self):
        owned = [path for path in self._under_way() if self._touch(path)]
        if owned:
            self._kill(self._rng.choice(owned))

    def kill_everything(self):
        for path in self._under_way():
            self._touch(path)
        self.end()
        self.start()

    def stop_the_database(self):
        self.server.stop()
        self.progress()  # the runs go on meanwhile
        self.server.start()

    def jump_the_clock(self):
        self._clock.write_text(str(self._rng.choice([-7200, 7200])))

    def fill_the_disk(self):
        for path in self._under_way():
            self._touch(path)
        ballast = self.folder / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        try:
            self.wait(lambda: "No space left" in self.output or self.has_ended())
        finally:
            ballast.unlink()

    def truncate_a_file(self):
        """Of a run under way, whose worker is killed so that another one meets it."""
        names = ("evaluations.csv", "run.json", "checkpoint-*/state.json", "checkpoint-*/agent.zip", "checkpoint-*/*.npz")
        paths = [path for path in self._under_way() if self._touch(path)]
        files = [file for path in paths for name in names for file in path.glob(name)]
        if files:
            file = self._rng.choice(files)
            run = next(path for path in paths if path in file.parents)
            self._kill(run)
            with contextlib.suppress(FileNotFoundError):  # replaced meanwhile
                os.truncate(file, file.stat().st_size // 2)

    def _under_way(self):
        return [path.parent for path in self.folder.glob("runs/*/owner.json")]

    def _touch(self, path):
        """Note how many evaluations a run has before something happens to it for the first time."""
        with contextlib.suppress(ValueError):
            self.untouched.setdefault(path.name, len(read_record(path).steps))
            return True
        return False

    def _kill(self, path):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(json.loads((path / "owner.json").read_text())["pid"], signal.SIGKILL)

    def _rows(self):
        rows = {}
        for path in run_folders(self.folder):
            with contextlib.suppress(ValueError):
                rows[path.name] = len(read_record(path).steps)
        return rows

    def _do_as_told(self):
        """Delete what an error says may be deleted, and retry."""
        status = self._study("status").stdout
        for told, path in (
            (r"(\S+checkpoint-\S+) is damaged", lambda found: Path(found)),
            (r"(\S+/evaluations\.csv)\S* (?:lacks|has|line|is damaged)", lambda found: Path(found)),
            (r"(\S+/run\.json) is not a run's settings", lambda found: Path(found).parent),
        ):
            for found in set(re.findall(told, status)):
                self.log.append(f"told to delete {found}")
                target = path(found)
                shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        self._study("retry")

    def _study(self, command):
        arguments = ["study", command, "--folder", str(self.folder), "--storage", self.server.url]
        call = [sys.executable, "-m", "sb3_span.cli", *arguments]
        return subprocess.run(call, capture_output=True, text=True, timeout=max(1, self.deadline - time.monotonic()))


FAULTS = ("kill_a_worker", "stop_the_database", "jump_the_clock", "truncate_a_file", "kill_everything", "fill_the_disk")
