"""What a policy computes, as C: from its layers to statements and constants."""

import numpy as np

from sb3_span.deploy.c_header import size
from sb3_span.deploy.layers import Affine, Layer, LayerNorm, Linear, OneHot, Splines, read_layers
from sb3_span.deploy.policy import DeterministicPolicy

PER_LINE = 8
LARGEST_FLOAT = float(np.finfo(np.float32).max)
TINY = 1e-20  # a step above zero, for weights that are all equal


class Body:
    """
    A policy's computation, layer by layer, with the constants and buffers that it needs.

    :param policy: A policy whose observations are one vector
    :param int8: Whether weights are stored in bytes
    """

    def __init__(self, policy: DeterministicPolicy, int8: bool) -> None:
        self._int8 = int8
        self.constants: list[str] = []
        self.constant_bytes = 0
        self.lines: list[str] = []
        self.summary: list[str] = []
        self._most_taps = 0
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

    @property
    def stack_bytes(self) -> int:
        return 4 * (sum(self.buffers.values()) + self._most_taps)

    def constant(self, name: str, values: np.ndarray) -> str:
        """
        :return: An expression for the numbers inside a loop over ``i``: a single number when all are equal
        """
        if np.ptp(values) == 0:
            return literal(values.flat[0])
        return f"{self.array(name, values)}[i]"

    def array(self, name: str, values: np.ndarray, shape: str = "") -> str:
        return self._declare("float", name, list(map(literal, values.ravel().tolist())), shape, 4)

    def _bytes(self, name: str, values: np.ndarray, shape: str) -> str:
        return self._declare("int8_t", name, [str(round(value)) for value in values.ravel().tolist()], shape, 1)

    def _declare(self, kind: str, name: str, numbers: list[str], shape: str, item_bytes: int) -> str:
        lines = "".join(f"\n    {', '.join(numbers[i : i + PER_LINE])}," for i in range(0, len(numbers), PER_LINE))
        comment = f" /* {shape} */" if shape else ""
        self.constants.append(f"static const {kind} {name}[{len(numbers)}] = {{{comment}{lines}\n}};")
        self.constant_bytes += item_bytes * len(numbers)
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
        to, shape = self._buffer_for(n_out), f"{n_out} x {n_in}"
        if self._int8:
            step = np.maximum(np.abs(layer.weight).max(1), TINY) / 127
            weight = self._bytes(f"weight_{number}", layer.weight / step[:, None], shape)
            call = f"linear_int8({self._at}, {n_in}, {weight}, {self.array(f'step_{number}', step)}"
        else:
            call = f"linear({self._at}, {n_in}, {self.array(f'weight_{number}', layer.weight, shape)}"
        self.lines.append(f"{call}, {self.array(f'bias_{number}', layer.bias)}, {to}, {n_out});")
        self.summary.append(f"linear {n_in} to {n_out}")
        self._at, self._width = to, n_out

    def _write_splines(self, layer: Splines, number: int) -> None:
        n_z, n_basis, n_modes = layer.coefficients.shape
        width = -(-n_z // layer.group) * n_modes
        to, shape = self._buffer_for(width), f"{n_z} x {n_basis} x {n_modes}"
        of = f"{width} products of {'up to ' * (n_z % layer.group > 0)}{layer.group} splines"
        own = to if layer.group == n_z else f"{to} + i / {layer.group} * {n_modes}"
        if layer.slope is None:
            first = f"b_spline_values({self._at}[i], {layer.degree}, {n_basis}, value)"
            self.summary.append(f"{of}, {n_basis} B-splines of degree {layer.degree} each")
        else:
            slope = self.array(f"slope_{number}", layer.slope)
            first = f"bump_values({self._at}[i], {slope}[i], {n_basis}, {layer.taps}, value)"
            self.summary.append(f"{of}, {n_basis} bumps each")
        if self._int8:
            low, high = layer.coefficients.min((1, 2)), layer.coefficients.max((1, 2))
            centre, step = (low + high) / 2, np.maximum(high - low, TINY) / 254
            quantized = (layer.coefficients - centre[:, None, None]) / step[:, None, None]
            table = self._bytes(f"coefficients_{number}", quantized, shape)
            scales = f"{self.array(f'centre_{number}', centre)}[i], {self.array(f'step_{number}', step)}[i], "
        else:
            table, scales = self.array(f"coefficients_{number}", layer.coefficients, shape), ""
        row = f"{table} + (i * {n_basis} + first) * {n_modes}"
        self.lines += [
            f"for (int i = 0; i < {width}; i++) {to}[i] = 1.0f;",
            f"for (int i = 0; i < {n_z}; i++) {{ /* each z: its basis functions that are not zero, and their coefficients */",
            f"    float value[{layer.taps}];",
            f"    int32_t first = {first};",
            f"    multiply{'_int8' * self._int8}(value, {layer.taps}, {scales}{row}, {own}, {n_modes});",
            "}",
        ]
        self._most_taps = max(self._most_taps, layer.taps)
        self._at, self._width = to, width

    def _write_affine(self, layer: Affine, number: int) -> None:
        to = self._here()
        # The shift in two floats: the difference of an observation and a mean much larger than it stays exact.
        shift = layer.shift.astype(np.float32).astype(np.float64)
        x = f"{self._at}[i]"
        for name, values in ("shift", shift), ("shift_rest", layer.shift - shift):
            if np.any(values):
                x += f" - {self.constant(f'{name}_{number}', values)}"
        x = f"({x}) * {self.constant(f'gain_{number}', layer.gain)}"
        if np.any(layer.offset):
            x += f" + {self.constant(f'offset_{number}', layer.offset)}"
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
        """The buffer without the present values."""
        name = "b" if self._at == "a" else "a"
        self._buffers[name] = max(self._buffers[name], width)
        return name

    def _here(self) -> str:
        """Where to change the present values in place; the caller's observations must not change."""
        return self._buffer_for(self._width) if self._at == "observation" else self._at


def literal(value: float) -> str:
    """A number as a C float constant with the same bits."""
    return f"{np.float32(min(max(value, -LARGEST_FLOAT), LARGEST_FLOAT))}f"
