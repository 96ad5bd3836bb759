"""Finds misspelt options of a study's runs before the first run begins."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from rl_zoo3.utils import ALGOS

from sb3_span.nn import SPANArch
from sb3_span.study.plan import Run
from sb3_span.study.study_file import OFFLINE_ALGORITHMS

# Keys of a Zoo file's entry other than the algorithm's arguments.
ZOO_OPTIONS = {
    "callback", "env_kwargs", "env_wrapper", "frame_stack", "monitor_kwargs", "n_envs", "n_timesteps", "noise_std",
    "noise_type", "normalize", "vec_env_wrapper",
}  # fmt: skip


def check_options(runs: Iterable[Run]) -> None:
    """
    :param runs: The runs, whose option names and SPAN shapes are checked
    """
    for run in runs:
        if run.algo in OFFLINE_ALGORITHMS:
            continue
        allowed = ZOO_OPTIONS | (set(inspect.signature(ALGOS[run.algo].__init__).parameters) - {"self", "env"})
        for option in run.hyperparams:
            if option not in allowed:
                raise ValueError(f"{run.key}: {run.algo} has no option {option!r}; allowed are {sorted(allowed)}.")
        policy_kwargs = run.hyperparams.get("policy_kwargs")
        span_arch = policy_kwargs.get("span_arch") if isinstance(policy_kwargs, Mapping) else None
        if isinstance(span_arch, Mapping):
            _check_shapes(run, span_arch)


def _check_shapes(run: Run, span_arch: Mapping[str, Any]) -> None:
    by_role = any(isinstance(value, Mapping) for value in span_arch.values())
    for shape in span_arch.values() if by_role else (span_arch,):
        try:
            SPANArch.make(shape)
        except ValueError as error:
            raise ValueError(f"{run.key}: {error}") from error
