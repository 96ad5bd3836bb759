"""``policy.h``: an exported policy's description, its observations and actions."""

import itertools
import math
import textwrap
from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from sb3_span.deploy.policy import DeterministicPolicy
from sb3_span.version import __version__

WIDTH = 120


def observation_type(space: spaces.Space) -> str:
    """The C type of an observation's numbers."""
    return "int32_t" if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else "float"


def action_type(space: spaces.Space) -> str:
    """The C type of an action's numbers."""
    return "float" if isinstance(space, spaces.Box) else "int32_t"


def size(space: spaces.Space) -> int:
    """How many numbers an observation or action has."""
    assert space.shape is not None
    return math.prod(space.shape)


def write_header(policy: DeterministicPolicy, network: str, memory: str, n_scores: int, check: str) -> str:
    """
    :param policy: The policy
    :param network: Its layers in words
    :param memory: The memory it needs, in words
    :param n_scores: Number of scores
    :param check: The result of the export's check
    """
    observation, action = policy.observation_space, policy.action_space
    notes = {
        "Policy": f"{policy.policy_name}: {network}",
        "Observation": f"{_describe(observation)}, {_units(policy)}",
        "Action": f"{_describe(action)}, in the environment's own order and units; the deterministic one",
        "Returns": "POLICY_OK; or POLICY_NOT_A_NUMBER, and the action is left as it was, when an observation is not a number "
        "(NaN) or leads to one that is not. Compile without -ffast-math, which removes the check",
        "Memory": f"{memory}; no other",
        "Check": check,
    }
    first = f"A trained policy, written by sb3_span {__version__}. To change it, export it again."
    lines = [f"/* {first}", " *"]
    for name, text in notes.items():
        lines += textwrap.wrap(text, WIDTH, initial_indent=f" * {name + ':':13}", subsequent_indent=f" * {'':13}")
    takes = f"const {observation_type(observation)} *observation"
    lines += [
        " *",
        " * It keeps nothing between calls, so it may be called from several threads and interrupts at once.",
        " */",
        "#ifndef POLICY_H",
        "#define POLICY_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define POLICY_OBSERVATION_SIZE {size(observation)}",
        f"#define POLICY_ACTION_SIZE {size(action)}",
        *([] if isinstance(action, spaces.Box) else [f"#define POLICY_SCORES_SIZE {n_scores}"]),
        "",
        "#define POLICY_OK 0",
        "#define POLICY_NOT_A_NUMBER 1",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"int policy_act({takes}, {action_type(action)} *action);",
        *_scores_declaration(action, takes),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _scores_declaration(action: spaces.Space, takes: str) -> list[str]:
    if isinstance(action, spaces.Box):
        return []
    why = "/* The scores by which policy_act decides; to exclude actions that are not allowed, choose among them yourself. */"
    return ["", why, f"int policy_scores({takes}, float *scores);"]


def _units(policy: DeterministicPolicy) -> str:
    space = policy.observation_space
    assert space.shape is not None
    if is_image_space(space):  # VecTransposeImage has transposed channel-last images
        units = f"in the environment's own units, channel first: shape {space.shape}, row by row"
    else:
        shape = f" of shape {space.shape}, row by row" if len(space.shape) > 1 else ""
        units = f"in the environment's own order and units{shape}"
    return f"{units}; policy_act normalises them, as VecNormalize did in training" if policy.normalization else units


def _describe(space: spaces.Space) -> str:
    """Number, type and bounds of an observation's or action's numbers."""
    if isinstance(space, spaces.Box):
        low, high = space.low.ravel(), space.high.ravel()
        bounds = [_interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]
        return f"{_count(size(space), 'float')}: {_runs(bounds)}"
    if isinstance(space, spaces.MultiBinary):
        return f"{_count(size(space), 'number')}: {_runs(['0 or 1'] * size(space))}"
    choices = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()  # type: ignore[attr-defined]
    return f"{_count(size(space), 'integer')}: {_runs([f'0 to {n - 1}' for n in choices])}"


def _count(n: int, kind: str) -> str:
    return f"{n} {kind}{'s' * (n != 1)}"


def _interval(low: float, high: float) -> str:
    if np.isfinite([low, high]).all():
        return f"{low:.6g} to {high:.6g}"
    return f"{low:.6g} or more" if np.isfinite(low) else f"{high:.6g} or less" if np.isfinite(high) else "any"


def _runs(texts: Sequence[str]) -> str:
    """Numbered, equal neighbours together: ``[0..2] any, [3] 0 to 1``."""
    found, start = [], 0
    for text, group in itertools.groupby(texts):
        end = start + len(list(group)) - 1
        found.append(f"[{start}] {text}" if start == end else f"[{start}..{end}] {text}")
        start = end + 1
    return ", ".join(found)
