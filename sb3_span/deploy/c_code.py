"""A policy as C99: ``policy.h`` and ``policy.c``."""

import numpy as np
from gymnasium import spaces

from sb3_span.deploy.c_body import Body
from sb3_span.deploy.c_header import action_type, observation_type, write_header
from sb3_span.deploy.c_parts import needed_parts
from sb3_span.deploy.policy import DeterministicPolicy


def write_c(policy: DeterministicPolicy, check: str, int8: bool = False) -> dict[str, str]:
    """
    :param policy: A policy whose observations are one vector
    :param check: The result of the export's check, for the comment in ``policy.h``
    :param int8: Whether weights are stored in bytes
    :return: The files ``policy.h`` and ``policy.c``
    """
    body = Body(policy, int8)
    act = _act(policy, body)
    stack = body.stack_bytes + (0 if isinstance(policy.action_space, spaces.Box) else 4 * body.n_scores)
    memory = f"{body.constant_bytes:,} bytes of constants{', weights in bytes' * int8}; {stack:,} bytes of arrays on the stack"
    header = write_header(policy, "; ".join(body.summary), memory, body.n_scores, check)
    return {"policy.h": header, "policy.c": _source(body, act)}


# gcc does not fuse in its standard modes, and warns about the pragma.
NOTHING_FUSED = """#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* the same bits on every processor */
#endif"""


def _source(body: Body, act: list[str]) -> str:
    parts = needed_parts("\n".join(act))
    macros = [part for part in parts if part.startswith("#define")]
    functions = [part for part in parts if not part.startswith("#define")]
    includes = ['#include "policy.h"']
    if any("sqrtf" in part for part in parts):
        includes += ["", "#include <math.h>"]
    title = "/* A trained policy; policy.h describes it. First the functions that it calls, then its weights. */"
    sections = [title, "\n".join(includes), NOTHING_FUSED, "\n".join(macros), *functions, *body.constants, *act]
    return "\n\n".join(section for section in sections if section) + "\n"


def _act(policy: DeterministicPolicy, body: Body) -> list[str]:
    """The public functions: for discrete actions the scores and the action, for continuous ones only the action."""
    space, n = policy.action_space, body.n_scores
    arguments = f"const {observation_type(policy.observation_space)} *observation"
    result = f"{action_type(space)} *action"
    buffers = [f"float {', '.join(f'{name}[{width}]' for name, width in body.buffers.items())};"]
    if isinstance(space, spaces.Box):
        refuse = f"if (any_nan({body.scores}, {n})) return POLICY_NOT_A_NUMBER;"
        lines = [*buffers, *body.lines, refuse, *_bound(space, policy, body), "return POLICY_OK;"]
        return [_function(f"int policy_act({arguments}, {result})", lines)]
    copy = f"for (int i = 0; i < {n}; i++) scores[i] = {body.scores}[i];"
    result_code = f"return any_nan(scores, {n}) ? POLICY_NOT_A_NUMBER : POLICY_OK;"
    scores = _function(f"int policy_scores({arguments}, float *scores)", [*buffers, *body.lines, copy, result_code])
    lines = [f"float scores[{n}];", "if (policy_scores(observation, scores) != POLICY_OK) return POLICY_NOT_A_NUMBER;"]
    if isinstance(space, spaces.MultiBinary):
        lines.append(f"for (int i = 0; i < {n}; i++) action[i] = scores[i] > 0.0f;")
    else:
        start = 0
        for k, choices in enumerate(_choices(space)):
            lines.append(f"action[{k}] = largest(scores{f' + {start}' if start else ''}, {choices});")
            start += choices
    return [scores, _function(f"int policy_act({arguments}, {result})", [*lines, "return POLICY_OK;"])]


def _choices(space: spaces.Space) -> list[int]:
    return [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec.ravel()]  # type: ignore[attr-defined]


def _bound(space: spaces.Box, policy: DeterministicPolicy, body: Body) -> list[str]:
    """An action within the space's bounds, as ``predict`` computes it."""
    action = f"{body.scores}[i]"
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    if policy.squash_output:
        width = body.constant("action_range", high - low)
        action = f"{body.constant('action_low', low)} + 0.5f * ({action} + 1.0f) * {width}"
    elif np.isfinite([low, high]).any():
        action = f"clip({action}, {body.constant('action_low', low)}, {body.constant('action_high', high)})"
    return [f"for (int i = 0; i < {body.n_scores}; i++) action[i] = {action};"]


def _function(signature: str, lines: list[str]) -> str:
    return "\n".join([f"{signature} {{", *(f"    {line}" for line in lines), "}"])
