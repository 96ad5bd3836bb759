"""A warning for observations that are too large for a SPAN network to tell apart."""

import warnings
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

LARGE = 1e3
NO_BOUND = 1e30  # such a bound is only the largest float


def warn_of_bounds(space: spaces.Space) -> None:
    """
    :param space: Observations, whose bounds, if any, say how large they may be
    """
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else [space]
    boxes = [part for part in parts if isinstance(part, spaces.Box) and part.dtype.kind == "f"]  # type: ignore[union-attr]
    bounds = [np.abs(bound[np.abs(bound) < NO_BOUND]) for part in boxes for bound in (part.low, part.high)]
    _warn(max((float(bound.max()) for bound in bounds if bound.size), default=0.0), "may be as large as")


def warn_of_observations(observations: Any) -> None:
    """
    :param observations: The first ones in training: an array, or a dict of arrays
    """
    parts = observations.values() if isinstance(observations, dict) else [observations]
    arrays = [np.asarray(part) for part in parts if part is not None]
    _warn(max((float(np.abs(part).max()) for part in arrays if part.dtype.kind == "f" and part.size), default=0.0), "reach")


class WarnsOfObservations(BasePolicy):
    """Mixed into a network of SB3, in front of it: looks at the first batch that it is trained with."""

    has_looked = False

    def extract_features(self, obs: Any, *args: Any, **kwargs: Any) -> Any:
        if self.training and not self.has_looked:
            self.has_looked = True
            parts = obs if isinstance(obs, dict) else {"": obs}
            warn_of_observations({key: part.detach().cpu() for key, part in parts.items() if isinstance(part, th.Tensor)})
        return super().extract_features(obs, *args, **kwargs)


def _warn(largest: float, verb: str) -> None:
    if LARGE < largest < np.inf:
        warnings.warn(
            f"Observations {verb} {largest:.2g}. A SPAN network squeezes them into (0, 1) with a sigmoid, which cannot tell "
            "such numbers apart: normalise them, for instance with VecNormalize(env), or scale them in the environment.",
            stacklevel=3,
        )
