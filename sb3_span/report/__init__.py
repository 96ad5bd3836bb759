"""From the evaluations of runs to conclusions."""

from sb3_span.scores.thresholds import steps_to_threshold

__all__ = ["steps_to_threshold"]
