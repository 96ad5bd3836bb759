"""Many training runs: what to run, the queue, one run, its evaluation."""

from sb3_span.study.plan import Plan, Run, read_plan
from sb3_span.study.records import Record, read_record

__all__ = ["Plan", "Record", "Run", "read_plan", "read_record"]
