"""A clock for the queue and its database: time passes when a test says so."""

import threading
import types
from datetime import timedelta

from optuna.storages._rdb.models import TrialHeartbeatModel
from sqlalchemy.orm import Session


class Clock:
    """
    What the queue of this process takes for the time, and the age of signs of life in its database.

    :param monkeypatch: pytest's
    """

    def __init__(self, monkeypatch):
        self.now = 1e9
        monkeypatch.setattr("sb3_span.study.queue.time", types.SimpleNamespace(time=lambda: self.now, sleep=self._sleep))

    def _sleep(self, seconds):
        self.now += seconds

    def advance(self, queue, seconds):
        """Signs of life are written with the database's own time, so they become older instead."""
        self.now += seconds
        make_older(queue, seconds)


def make_older(queue, seconds):
    """Move every sign of life in a queue's database into the past."""
    with Session(queue._storage.engine) as session, session.begin():
        for beat in session.query(TrialHeartbeatModel):
            beat.heartbeat -= timedelta(seconds=seconds)


class StopAfter(threading.Event):
    """
    A worker's stop, for which a pause is over as soon as it begins, by the clock.

    :param seconds: After so many it is set
    """

    def __init__(self, clock, queue, seconds):
        super().__init__()
        self._clock, self._queue, self._end = clock, queue, clock.now + seconds

    def wait(self, timeout=None):
        self._clock.advance(self._queue, timeout)
        if self._clock.now > self._end:
            self.set()
        return self.is_set()
