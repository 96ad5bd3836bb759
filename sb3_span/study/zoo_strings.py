"""
The strings that the RL Zoo evaluates as Python, such as ``"dict(net_arch=[64, 64], activation_fn=nn.Tanh)"``, read as data.

Only what hyperparameter files need is supported: numbers, words, lists, ``dict(...)``, and the classes of a few names.
Nothing is executed.
"""

import ast
from typing import Any

import torch as th
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

# The entries of a hyperparameter file that the Zoo evaluates when they are strings.
EVALUATED = ("normalize", "policy_kwargs", "replay_buffer_class", "replay_buffer_kwargs", "monitor_kwargs")
CLASSES = {"HerReplayBuffer": HerReplayBuffer, "RMSpropTFLike": RMSpropTFLike}
MODULES = {f"{name}.{part}": getattr(th, part) for name in ("th", "torch") for part in ("nn", "optim")} | {"nn": th.nn}
KINDS = (th.nn.Module, th.optim.Optimizer)
MAX_LENGTH = 10_000


class NotPlainError(ValueError):
    """A string that only Python itself could evaluate."""


def read_zoo_string(text: str) -> Any:
    """
    :param text: A string of a hyperparameter file
    :return: The value that the Zoo would evaluate it to
    """
    try:
        if len(text) > MAX_LENGTH:
            raise NotPlainError(f"{len(text)} letters")
        return _read(ast.parse(text.strip(), mode="eval").body)
    except (NotPlainError, SyntaxError, RecursionError, MemoryError) as error:
        raise NotPlainError(
            f"{text[:200]!r} is more than plain data ({error}). Supported are numbers, words, lists, dict(...), and names "
            "such as nn.ReLU"
        ) from error


def _read(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _read(node.operand)
        if isinstance(value, int | float):
            return -value
    if isinstance(node, ast.List | ast.Tuple):
        values = [_read(element) for element in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {_read(key): _read(value) for key, value in zip(node.keys, node.values, strict=True) if key is not None}
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict" and not node.args and all(k.arg for k in node.keywords):
        return {keyword.arg: _read(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.Name | ast.Attribute):
        return _class(ast.unparse(node))
    raise NotPlainError(f"it has {ast.unparse(node)[:100]!r}")


def _class(name: str) -> type:
    if name in CLASSES:
        return CLASSES[name]
    module, _, last = name.rpartition(".")
    found = getattr(MODULES.get(module), last, None)
    if isinstance(found, type) and issubclass(found, KINDS):
        return found
    raise NotPlainError(f"it has the name {name[:100]!r}")
