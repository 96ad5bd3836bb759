"""A policy as an ONNX graph."""

import contextlib
import io
import json
import logging
import warnings
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from torch import nn

from sb3_span.deploy.policy import DeterministicPolicy, Observation
from sb3_span.version import __version__

try:
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401  torch's exporter is made of it
except ImportError as error:
    raise ValueError(f"ONNX export needs packages that are not installed ({error}): pip install 'sb3_span[deploy]'") from error

OPSET = 18
NAME = "observation"  # of the only input, if observations are no dict


class _Graph(nn.Module):
    """The policy with separate inputs, and for discrete actions the scores as a second output."""

    def __init__(self, policy: DeterministicPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *inputs: th.Tensor) -> tuple[th.Tensor, ...]:
        space = self.policy.observation_space
        named = dict(zip(space.spaces, inputs, strict=True)) if isinstance(space, spaces.Dict) else inputs[0]
        actions, scores = self.policy(named)
        return (actions,) if isinstance(self.policy.action_space, spaces.Box) else (actions, scores)


def build_onnx(policy: DeterministicPolicy) -> "onnx.ModelProto":
    """
    :param policy: Any policy without memory
    :return: A checked graph with one input for each part of the observation and a batch of any size; outputs ``action`` and,
        for discrete actions, ``scores``
    """
    examples = tuple(th.zeros((2, *shape), dtype=dtype) for shape, dtype in _inputs(policy).values())
    outputs = ["action"] if isinstance(policy.action_space, spaces.Box) else ["action", "scores"]
    numbered = [f"{NAME}_{i}" for i in range(len(examples))]
    model = trace(_Graph(policy), examples, numbered, outputs)
    _rename(model, dict(zip(numbered, _input_names(policy), strict=True)))
    properties = {
        "producer": f"sb3_span {__version__}",
        "policy": policy.policy_name,
        "observation_space": describe_space(policy.observation_space),
        "action_space": describe_space(policy.action_space),
        "normalized": "VecNormalize is in the graph" if policy.normalization else "no",
    }
    onnx.helper.set_model_props(model, properties)
    onnx.checker.check_model(model, full_check=True)
    return model


def trace(module: nn.Module, examples: tuple[th.Tensor, ...], inputs: list[str], outputs: list[str]) -> "onnx.ModelProto":
    """
    :param module: A module with separate inputs
    :param examples: An example of each, with a batch of two
    :param inputs: Their names
    :param outputs: The names of the outputs
    :return: The graph, for a batch of any size
    """
    with _quiet():
        program = th.onnx.export(
            module.eval(),
            examples,
            dynamo=True,
            opset_version=OPSET,
            input_names=inputs,
            output_names=outputs,
            # A module whose inputs are *args has all of them in one tuple.
            dynamic_shapes=(tuple({0: th.export.Dim("batch")} for _ in examples),),
        )
    assert program is not None
    model = program.model_proto
    _remove_traces(model)
    return model


def add_note(model: "onnx.ModelProto", name: str, text: str) -> None:
    entry = model.metadata_props.add()
    entry.key, entry.value = name, text


class OnnxPolicy:
    """
    An exported graph in onnxruntime: observations to actions.

    :param policy: The policy that was exported
    :param model: The graph
    """

    def __init__(self, policy: DeterministicPolicy, model: "onnx.ModelProto") -> None:
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self._inputs = dict(zip(_input_names(policy), _inputs(policy).items(), strict=True))

    def __call__(self, observation: Observation) -> np.ndarray:
        parts = observation if isinstance(observation, dict) else {NAME: observation}
        feed = {
            name: parts[key].astype(th.empty(0, dtype=dtype).numpy().dtype) for name, (key, (_, dtype)) in self._inputs.items()
        }
        return np.asarray(self._session.run(["action"], feed)[0])


def describe_space(space: spaces.Space) -> str:
    """A space as JSON: its kind, shape, type and bounds, null if there is none."""
    return json.dumps(_describe(space))


def _describe(space: spaces.Space) -> dict[str, Any]:
    kind = type(space).__name__
    if isinstance(space, spaces.Dict):
        return {"kind": kind, "spaces": {key: _describe(part) for key, part in space.spaces.items()}}
    if isinstance(space, spaces.Discrete):
        return {"kind": kind, "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": kind, "nvec": space.nvec.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": kind, "shape": list(space.shape)}
    assert isinstance(space, spaces.Box)
    bounds = {}
    for name, values in ("low", space.low), ("high", space.high):
        numbers = [float(value) if np.isfinite(value) else None for value in values.ravel()]
        bounds[name] = numbers[0] if len(set(numbers)) == 1 else numbers  # an image has thousands of equal ones
    return {"kind": kind, "shape": list(space.shape), "dtype": str(space.dtype), **bounds}


def _inputs(policy: DeterministicPolicy) -> dict[str, tuple[tuple[int, ...], th.dtype]]:
    """Shape and type of each input: floats in single precision, images in bytes, choices as whole numbers."""
    space = policy.observation_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {NAME: space}
    found = {}
    for name, part in parts.items():
        assert part.shape is not None
        if isinstance(part, spaces.Discrete | spaces.MultiDiscrete):
            dtype = th.int64
        else:
            dtype = th.uint8 if part.dtype == np.uint8 else th.float32
        found[name] = (part.shape, dtype)
    return found


def _input_names(policy: DeterministicPolicy) -> list[str]:
    """A name for an input: part of an observation may have the name of an output, which a graph does not allow."""
    keys, names = list(_inputs(policy)), []
    for key in keys:
        name = key
        while name in ("action", "scores") or (name != key and name in keys):
            name = f"{NAME}_{name}"
        names.append(name)
    return names


def _rename(model: "onnx.ModelProto", inputs: dict[str, str]) -> None:
    """
    Give the inputs their names, and another name to values inside the graph that have one of them.

    :param inputs: From the present names to the new ones
    """
    graph = model.graph
    inner = {name for node in graph.node for name in node.output} | {entry.name for entry in graph.initializer}
    new = inputs | {name: f"{name}_inside" for name in inner & set(inputs.values())}
    while clashes := {old for old, name in new.items() if old not in inputs and name in inner | set(inputs.values())}:
        new |= {old: f"{new[old]}_" for old in clashes}
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new.get(name, name) for name in names]
    for entry in (*graph.input, *graph.value_info, *graph.initializer):
        entry.name = new.get(entry.name, entry.name)


def _remove_traces(model: "onnx.ModelProto") -> None:
    """Remove what the exporter records for each operation: the place in the source code, with the paths on this disk."""
    graph = model.graph
    for owner in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer, graph):
        del owner.metadata_props[:]
    for node in graph.node:
        node.doc_string = ""


@contextlib.contextmanager
def _quiet() -> Any:
    """Silence the exporter's messages; the result is checked afterwards."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
