"""A policy as a list of plain layers, numbers without torch, from which the C code is written."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from sb3_span.deploy.policy import DeterministicPolicy, OneOfStack, QuantileMean
from sb3_span.nn import SPAN
from sb3_span.nn.preprocess import BatchNorm, Clamp, DenseSigmoid, MinMax, NormSigmoid
from sb3_span.policies.extractors import SPANFeaturesExtractor


@dataclass(frozen=True)
class OneHot:
    """Each number of the input as a one-hot vector."""

    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Linear:
    """``weight x + bias``; weight has the shape (O, I)."""

    weight: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True)
class Affine:
    """``(x - shift) * gain + offset``, number by number."""

    shift: np.ndarray
    gain: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Pointwise:
    """A function of ``policy_parts.h`` for each number, with further arguments."""

    function: str
    arguments: tuple[float, ...] = ()


@dataclass(frozen=True)
class LayerNorm:
    epsilon: float


@dataclass(frozen=True)
class Splines:
    """
    The products of splines that are SPAN's modes.

    :param coefficients: Shape (D, N, M)
    :param degree: Degree of the B-splines; 0 for bumps
    :param slope: How much steeper each dimension's bumps are than B-splines, shape (D,); None for B-splines
    :param taps: How many basis functions can be above zero at one point
    :param group: Number of dimensions that a mode multiplies
    """

    coefficients: np.ndarray
    degree: int
    slope: np.ndarray | None
    taps: int
    group: int


Layer = OneHot | Linear | Affine | Pointwise | LayerNorm | Splines


def read_layers(policy: DeterministicPolicy) -> list[Layer]:
    """
    :param policy: A policy whose observations are one vector
    :return: Its layers, from the environment's flattened observation to the scores
    """
    layers = _read_preparation(policy) + _read(policy.network)
    for layer in layers:
        for name, value in vars(layer).items():
            if isinstance(value, np.ndarray) and not np.isfinite(value).all():
                raise ValueError(
                    f"The policy's {type(layer).__name__} layer has a {name} that is not finite: training has diverged. "
                    "Export an earlier checkpoint."
                )
    return layers


def _read_preparation(policy: DeterministicPolicy) -> list[Layer]:
    space = policy.observation_space
    layers: list[Layer] = []
    if isinstance(space, spaces.Dict):
        raise ValueError(
            f"The policy observes a Dict with the keys {list(space.spaces)}; C export supports one vector. Export to ONNX, "
            "where each key is an input, or train on flattened observations (gymnasium.wrappers.FlattenObservation)."
        )
    if "" in policy.normalization:
        by = policy.normalization[""]
        mean, gain = by.mean.ravel(), 1 / by.std.ravel()
        layers = [Affine(mean, gain, np.zeros_like(mean)), Pointwise("clip", (-by.clip, by.clip))]
    if isinstance(space, spaces.Discrete):
        return [*layers, OneHot((int(space.n),))]
    if isinstance(space, spaces.MultiDiscrete):
        return [*layers, OneHot(tuple(int(n) for n in space.nvec))]
    if policy.normalize_images and is_image_space(space):
        assert space.shape is not None
        ones = np.ones(math.prod(space.shape))
        layers.append(Affine(0 * ones, ones / 255, 0 * ones))
    return layers


def _read(module: nn.Module) -> list[Layer]:
    """The layers of a part of the network."""
    for kind, reader in READERS.items():
        if type(module) is kind:
            return reader(module)
    raise ValueError(
        f"The policy has a {type(module).__name__}, which C export does not support; it supports "
        f"{', '.join(sorted(kind.__name__ for kind in READERS if kind.__module__.startswith('torch')))}, and SPAN networks. "
        "Export to ONNX, which supports all of torch."
    )


def _read_sequential(module: Any) -> list[Layer]:
    layers: list[Layer] = []
    for part in module:
        if isinstance(part, QuantileMean):
            layers[-1] = _mean_of_quantiles(layers[-1], part.n_quantiles)
        else:
            layers += _read(part)
    return layers


def _mean_of_quantiles(layer: Layer, n_quantiles: int) -> Layer:
    """The mean of a linear layer's outputs is a linear layer too, and a smaller one."""
    assert isinstance(layer, Linear)
    rows = layer.weight.reshape(n_quantiles, -1, layer.weight.shape[1])
    return replace(layer, weight=rows.mean(0), bias=layer.bias.reshape(n_quantiles, -1).mean(0))


def _read_span(span: SPAN, index: int = 0) -> list[Layer]:
    arch = span.arch
    coefficients = _numbers(span.coefficients)[index]
    if span.scale is None:
        splines = Splines(coefficients, arch.degree, None, arch.degree + 1, span.group_size)
    else:
        slope = _numbers(span.scale)[index] / (arch.nelems - 1)
        # A bump is above zero on an open interval of 3 / slope grid points.
        smallest = max(float(np.abs(slope).min()), 1e-6)
        splines = Splines(coefficients, 0, slope, min(arch.nelems, math.ceil(3 / smallest)), span.group_size)
    layers = [*_read_preprocess(span.preprocess, index), splines]
    if span.head is not None:
        layers.append(Linear(_numbers(span.head.weight)[index], _numbers(span.head.bias)[index]))
    return layers


def _read_preprocess(module: nn.Module, index: int) -> list[Layer]:
    sigmoid = Pointwise("sigmoid")
    if type(module) is DenseSigmoid:
        return [Linear(_numbers(module.weight)[index], _numbers(module.bias)[index]), sigmoid]
    if type(module) is NormSigmoid:
        own = Affine(np.zeros(module.weight.shape[1]), _numbers(module.weight)[index], _numbers(module.bias)[index])
        return [Pointwise("clip", (-module.LARGEST, module.LARGEST)), _read_norm(module.norm), own, sigmoid]
    if type(module) is MinMax:
        low, high = _numbers(module.running_min), _numbers(module.running_max)
        known = high > low
        gain = 1 / np.where(known, high - low, np.inf)
        return [Affine(np.where(known, low, 0), gain, np.where(known, 0, 0.5)), Pointwise("clip", (0.0, 1.0))]
    assert type(module) is Clamp
    return [Pointwise("clip", (0.0, 1.0))]


def _read_norm(module: nn.Module) -> Layer:
    if isinstance(module, BatchNorm):
        assert module.running_mean is not None and module.running_var is not None
        mean = _numbers(module.running_mean)
        return Affine(mean, 1 / np.sqrt(_numbers(module.running_var) + module.eps), np.zeros_like(mean))
    assert isinstance(module, nn.LayerNorm)
    return LayerNorm(module.eps)


def _read_linear(module: Any) -> list[Layer]:
    weight = _numbers(module.weight)
    return [Linear(weight, np.zeros(len(weight)) if module.bias is None else _numbers(module.bias))]


def _numbers(tensor: th.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


READERS: dict[type[nn.Module], Callable[[Any], list[Layer]]] = {
    nn.Sequential: _read_sequential,
    nn.Linear: _read_linear,
    nn.Flatten: lambda module: [],
    nn.Identity: lambda module: [],
    nn.ReLU: lambda module: [Pointwise("relu")],
    nn.LeakyReLU: lambda module: [Pointwise("leaky_relu", (module.negative_slope,))],
    nn.ELU: lambda module: [Pointwise("elu", (module.alpha,))],
    nn.SiLU: lambda module: [Pointwise("silu")],
    nn.Sigmoid: lambda module: [Pointwise("sigmoid")],
    nn.Tanh: lambda module: [Pointwise("hyperbolic_tangent")],
    nn.Hardtanh: lambda module: [Pointwise("clip", (module.min_val, module.max_val))],
    FlattenExtractor: lambda module: [],
    SPANFeaturesExtractor: lambda module: _read(module.base) + _read_span(module.span),
    SPAN: _read_span,
    OneOfStack: lambda module: _read_span(module.stack, module.index),
}
