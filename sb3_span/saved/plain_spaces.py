"""Spaces of Gymnasium as plain data, for files that are read without unpickling."""

from typing import Any

import numpy as np
from gymnasium import spaces

KINDS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple")


def space_to_data(space: spaces.Space) -> dict[str, Any]:
    """
    :param space: One of ``KINDS``
    :return: What JSON can hold
    """
    if isinstance(space, spaces.Box):
        ends = {"low": _shortest(space.low), "high": _shortest(space.high)}
        return {"kind": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **ends}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": {key: space_to_data(part) for key, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_data(part) for part in space.spaces]}
    raise ValueError(f"The space {space} cannot be written as plain data; these can: {', '.join(KINDS)}.")


def space_from_data(data: Any) -> spaces.Space:
    """
    :param data: The result of :func:`space_to_data`
    """
    try:
        kind = data["kind"]
        if kind == "Box":
            shape, dtype = tuple(data["shape"]), np.dtype(data["dtype"])
            low, high = (np.broadcast_to(np.array(data[end], dtype), shape) for end in ("low", "high"))
            return spaces.Box(low, high, shape, dtype.type)
        if kind == "Discrete":
            return spaces.Discrete(data["n"], start=data["start"])
        if kind == "MultiDiscrete":
            return spaces.MultiDiscrete(data["nvec"])
        if kind == "MultiBinary":
            return spaces.MultiBinary(data["n"])
        if kind == "Dict":
            return spaces.Dict({key: space_from_data(part) for key, part in data["spaces"].items()})
        if kind == "Tuple":
            return spaces.Tuple([space_from_data(part) for part in data["spaces"]])
    except (TypeError, KeyError, AttributeError, AssertionError, ValueError) as error:
        raise ValueError(f"{data!r} is not the description of a space ({error!r}).") from error
    raise ValueError(f"{kind!r} is not a known kind of space; these are: {', '.join(KINDS)}.")


def _shortest(ends: np.ndarray) -> Any:
    """One number where all are equal, as in the space of an image."""
    return ends.flat[0].item() if ends.size and (ends == ends.flat[0]).all() else ends.tolist()
