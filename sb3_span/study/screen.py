"""A study in a terminal: a progress bar for all runs, one for each worker, and a line for each run that ends."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from sb3_span.study.folder import read_stored
from sb3_span.study.queue import DATABASE_ERRORS
from sb3_span.study.status import in_words, remaining_seconds
from sb3_span.study.supervisor import News, Supervisor

LINES = {
    "finished": "[green]done[/]     {key}  return {mean_return:.1f}",
    "failed": "[red]failed[/]   {key}  {why}",
    "died": "[yellow]died[/]     {key}  {why}; it continues from its checkpoint",
    "lost": "[yellow]lost[/]     {key}  {why}",
    "stopped": "[yellow]stopped[/]  {key}  saved; the same command continues it",
}
# Counting reads every record of the study.
SECONDS_BETWEEN_COUNTS = 20.0


def watch(supervisor: Supervisor, console: Console) -> None:
    """
    Run a study to its end, or until Ctrl-C, which saves the runs under way. A second Ctrl-C does not wait for that.

    :param supervisor: The study's supervisor, not started yet
    :param console: The console to show it on
    """
    view = _View(supervisor, console)
    options = {"auto_refresh": console.is_terminal, "refresh_per_second": 4, "transient": True}
    with Live(console=console, get_renderable=view.render, **options):  # type: ignore[arg-type]
        try:
            supervisor.start()
            while supervisor.workers:
                try:
                    for news in supervisor.listen(timeout=0.5):
                        view.note(news)
                except KeyboardInterrupt:
                    if supervisor.stopping:
                        raise
                    console.print("Saving the runs under way; Ctrl-C again to end at once.")
                    supervisor.stop()
        except BaseException:  # workers would continue without a listener
            supervisor.kill()
            raise


class _View:
    def __init__(self, supervisor: Supervisor, console: Console) -> None:
        self._supervisor, self._console = supervisor, console
        self._plan = supervisor.queue.plan
        self._started = time.monotonic()
        self._next_count = 0.0
        self._done, self._left = 0, ""

    def note(self, news: News) -> None:
        self._next_count = 0.0
        if news.name in LINES:
            details = {name: escape(value) if isinstance(value, str) else value for name, value in news.details.items()}
            self._console.print(LINES[news.name].format(**{"key": news.run.key, **details}), highlight=False)

    def render(self) -> Group:
        self._count()
        everything = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("runs"), expand=True
        )
        everything.add_task(f"[bold]{escape(self._plan.name)}[/]", total=len(self._plan.runs), completed=self._done)
        workers = Table.grid(padding=(0, 2), expand=True)
        for ratio in (3, 3, 2, 2):
            workers.add_column(ratio=ratio, no_wrap=True)
        for worker in list(self._supervisor.workers):
            run, mean_return = worker.run, worker.mean_return  # another thread changes them
            if run is None:
                workers.add_row(f"[dim]{escape(worker.why_waiting)}[/]")
                continue
            bar = Progress(BarColumn(bar_width=None), expand=True)
            bar.add_task("", total=run.steps, completed=worker.step)
            score = "" if mean_return is None else f"return {mean_return:.1f}"
            workers.add_row(run.key, bar, f"{worker.step:,} / {run.steps:,}", score)
        elapsed = in_words(time.monotonic() - self._started)
        return Group(everything, workers, f"[dim]{elapsed} so far{self._left}[/]")

    def _count(self) -> None:
        if time.monotonic() < self._next_count:
            return
        self._next_count = time.monotonic() + SECONDS_BETWEEN_COUNTS
        try:
            states = self._supervisor.queue.states()
        except DATABASE_ERRORS:
            return  # keep the last count
        self._done = sum(state.name == "done" for state in states.values())
        seconds = remaining_seconds(self._plan, read_stored(self._supervisor.folder, self._plan).records).values()
        known = [value for value in seconds if value is not None]
        if len(known) == len(seconds):
            left = in_words(sum(known) / max(1, len(self._supervisor.workers)))
            self._left = f", about {left} left"
