"""A policy's layers as C99: ``policy.h`` and ``policy.c``."""

import numpy as np
from gymnasium import spaces

from sb3_span.deploy.c_header import action_type, observation_type, size, write_header
from sb3_span.deploy.c_parts import needed_parts
from sb3_span.deploy.layers import Affine, Layer, LayerNorm, Linear, OneHot, Splines, read_layers
from sb3_span.deploy.policy import DeterministicPolicy

PER_LINE = 8
LARGEST_FLOAT = float(np.finfo(np.float32).max)


def write_c(policy: DeterministicPolicy, check: str) -> dict[str, str]:
    """
    :param policy: A policy whose observations are one vector
    :param check: What the check of the export has found, for the comment in ``policy.h``
    :return: The files ``policy.h`` and ``policy.c``
    """
    body = Body(policy)
    act = _act(policy, body)
    n_stack = (
        sum(body.buffers.values()) + body.most_taps + (0 if isinstance(policy.action_space, spaces.Box) else body.n_scores)
    )
    header = write_header(policy, "; ".join(body.summary), body.n_constants, n_stack, body.n_scores, check)
    return {"policy.h": header, "policy.c": _source(body, act)}


def _source(body: "Body", act: list[str]) -> str:
    parts = needed_parts("\n".join(act))
    macros = [part for part in parts if part.startswith("#define")]
    if body.most_taps:
        macros.append(f"#define MOST_TAPS {body.most_taps}")
    functions = [part for part in parts if not part.startswith("#define")]
    includes = ['#include "policy.h"']
    if any("sqrtf" in part for part in parts):
        includes += ["", "#include <math.h>"]
    title = "/* A trained policy; policy.h says what it is. First the functions that it is made of, then its weights. */"
    sections = [title, "\n".join(includes), "\n".join(macros), *functions, *body.constants, *act]
    return "\n\n".join(section for section in sections if section) + "\n"


class Body:
    """The functions' bodies, written layer by layer, and the constants and buffers that they need."""

    def __init__(self, policy: DeterministicPolicy) -> None:
        self.constants: list[str] = []
        self.n_constants = 0
        self.lines: list[str] = []
        self.summary: list[str] = []
        self.most_taps = 0
        self._buffers = {"a": 0, "b": 0}
        layers = read_layers(policy)
        self._at, self._width = "observation", size(policy.observation_space)
        for number, layer in enumerate(layers, start=1):
            self._write(layer, number)
        self.scores, self.n_scores = self._at, self._width

    @property
    def buffers(self) -> dict[str, int]:
        """The arrays on the stack."""
        return {name: width for name, width in self._buffers.items() if width}

    def constant(self, name: str, values: np.ndarray, shape: str) -> str:
        """
        :return: How the numbers are called in an expression inside a loop over ``i``: one number alone, when all are the same
        """
        if np.ptp(values) == 0:
            return literal(values.flat[0])
        return f"{self.array(name, values, shape)}[i]"

    def array(self, name: str, values: np.ndarray, shape: str) -> str:
        numbers = list(map(literal, values.ravel().tolist()))
        lines = "".join(f"\n    {', '.join(numbers[i : i + PER_LINE])}," for i in range(0, len(numbers), PER_LINE))
        comment = f" /* {shape} */" if shape else ""
        self.constants.append(f"static const float {name}[{values.size}] = {{{comment}{lines}\n}};")
        self.n_constants += values.size
        return name

    def _write(self, layer: Layer, number: int) -> None:
        if isinstance(layer, OneHot):
            self._write_one_hot(layer)
        elif isinstance(layer, Linear):
            self._write_linear(layer, number)
        elif isinstance(layer, Splines):
            self._write_splines(layer, number)
        elif isinstance(layer, LayerNorm):
            to = self._buffer_for(self._width)
            self.lines.append(f"layer_norm({self._at}, {self._width}, {literal(layer.epsilon)}, {to});")
            self._at = to
        elif isinstance(layer, Affine):
            self._write_affine(layer, number)
        else:
            self._write_pointwise(layer.function, layer.arguments)

    def _write_one_hot(self, layer: OneHot) -> None:
        to = self._buffer_for(sum(layer.sizes))
        start = 0
        for k, n in enumerate(layer.sizes):
            place = f"{to}[{start} + i]" if start else f"{to}[i]"
            self.lines.append(f"for (int i = 0; i < {n}; i++) {place} = i == observation[{k}] ? 1.0f : 0.0f;")
            start += n
        self._at, self._width = to, start

    def _write_linear(self, layer: Linear, number: int) -> None:
        n_out, n_in = layer.weight.shape
        to = self._buffer_for(n_out)
        weight = self.array(f"weight_{number}", layer.weight, f"{n_out} x {n_in}")
        bias = self.array(f"bias_{number}", layer.bias, "")
        self.lines.append(f"linear({self._at}, {n_in}, {weight}, {bias}, {to}, {n_out});")
        self.summary.append(f"linear {n_in} to {n_out}")
        self._at, self._width = to, n_out

    def _write_splines(self, layer: Splines, number: int) -> None:
        n_z, n_basis, n_modes = layer.coefficients.shape
        to = self._buffer_for(n_modes)
        values = self.array(f"coefficients_{number}", layer.coefficients, f"{n_z} x {n_basis} x {n_modes}")
        if layer.slope is None:
            call = f"b_splines({self._at}, {n_z}, {layer.degree}, {n_basis}, {values}, {to}, {n_modes});"
            self.summary.append(f"{n_modes} products of {n_z} splines, {n_basis} B-splines of degree {layer.degree} each")
        else:
            slope = self.array(f"slope_{number}", layer.slope, "")
            call = f"bump_splines({self._at}, {n_z}, {slope}, {n_basis}, {layer.taps}, {values}, {to}, {n_modes});"
            self.summary.append(f"{n_modes} products of {n_z} splines, {n_basis} bumps each")
        self.lines.append(call)
        self.most_taps = max(self.most_taps, layer.taps)
        self._at, self._width = to, n_modes

    def _write_affine(self, layer: Affine, number: int) -> None:
        to = self._here()
        # The shift in two floats: the difference of an observation and a mean much larger than it stays exact.
        shift = layer.shift.astype(np.float32).astype(np.float64)
        x = f"{self._at}[i]"
        for name, values in ("shift", shift), ("shift_rest", layer.shift - shift):
            if np.any(values):
                x += f" - {self.constant(f'{name}_{number}', values, '')}"
        x = f"({x}) * {self.constant(f'gain_{number}', layer.gain, '')}"
        if np.any(layer.offset):
            x += f" + {self.constant(f'offset_{number}', layer.offset, '')}"
        self._loop(f"{to}[i] = {x};")
        self._at = to

    def _write_pointwise(self, function: str, arguments: tuple[float, ...]) -> None:
        to = self._here()
        self._loop(f"{to}[i] = {function}({', '.join([f'{self._at}[i]', *map(literal, arguments)])});")
        self._at = to
        if function != "clip":
            self.summary[-1:] = [", ".join([*self.summary[-1:], function.replace("_", " ")])]

    def _loop(self, statement: str) -> None:
        self.lines.append(f"for (int i = 0; i < {self._width}; i++) {statement}")

    def _buffer_for(self, width: int) -> str:
        """The buffer that the present values are not in."""
        name = "b" if self._at == "a" else "a"
        self._buffers[name] = max(self._buffers[name], width)
        return name

    def _here(self) -> str:
        """Where to change the present values in place; observations are not the policy's to change."""
        return self._buffer_for(self._width) if self._at == "observation" else self._at


def literal(value: float) -> str:
    """A number as a C float constant that reads back as the same float."""
    return f"{np.float32(min(max(value, -LARGEST_FLOAT), LARGEST_FLOAT))}f"


def _act(policy: DeterministicPolicy, body: Body) -> list[str]:
    """The public functions: for discrete actions the scores and the action, for continuous ones the action alone."""
    space, n = policy.action_space, body.n_scores
    arguments = f"const {observation_type(policy.observation_space)} *observation"
    result = f"{action_type(space)} *action"
    buffers = [f"float {', '.join(f'{name}[{width}]' for name, width in body.buffers.items())};"]
    if isinstance(space, spaces.Box):
        return [_function(f"void policy_act({arguments}, {result})", [*buffers, *body.lines, *_bound(space, policy, body)])]
    copy = f"for (int i = 0; i < {n}; i++) scores[i] = {body.scores}[i];"
    scores = _function(f"void policy_scores({arguments}, float *scores)", [*buffers, *body.lines, copy])
    lines = [f"float scores[{n}];", "policy_scores(observation, scores);"]
    if isinstance(space, spaces.MultiBinary):
        lines.append(f"for (int i = 0; i < {n}; i++) action[i] = scores[i] > 0.0f;")
    else:
        start = 0
        for k, choices in enumerate(_choices(space)):
            lines.append(f"action[{k}] = largest(scores{f' + {start}' if start else ''}, {choices});")
            start += choices
    return [scores, _function(f"void policy_act({arguments}, {result})", lines)]


def _choices(space: spaces.Space) -> list[int]:
    return [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec.ravel()]  # type: ignore[attr-defined]


def _bound(space: spaces.Box, policy: DeterministicPolicy, body: Body) -> list[str]:
    """What ``predict`` does to bring an action into the space's bounds."""
    action = f"{body.scores}[i]"
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    if policy.squash_output:
        width = body.constant("action_range", high - low, "")
        action = f"{body.constant('action_low', low, '')} + 0.5f * ({action} + 1.0f) * {width}"
    elif np.isfinite([low, high]).any():
        low, high = (np.clip(bound, -LARGEST_FLOAT, LARGEST_FLOAT) for bound in (low, high))
        action = f"clip({action}, {body.constant('action_low', low, '')}, {body.constant('action_high', high, '')})"
    return [f"for (int i = 0; i < {body.n_scores}; i++) action[i] = {action};"]


def _function(signature: str, lines: list[str]) -> str:
    return "\n".join([f"{signature} {{", *(f"    {line}" for line in lines), "}"])
