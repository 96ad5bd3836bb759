"""
How many parameters networks have, and the shape that comes closest to a given number.

Everything is counted in closed form, so that a search over thousands of shapes takes milliseconds.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from torch import nn

from sb3_span.nn.arch import SPANArch

# Networks may exceed the budget by this share; those within it on either side count as equally close.
TOLERANCE = 0.02

# The splines to choose from, in the order in which they are preferred.
SPLINES: tuple[dict[str, Any], ...] = (
    dict(basis="kernel"),
    dict(basis="bspline", degree=1),
    dict(basis="bspline", degree=2),
    dict(basis="bspline", degree=3),
)
LEAST_ELEMENTS = dict(kernel=2, bspline=1)
MOST_ELEMENTS = 256

# Modes for each element of a shape that is called balanced: as in the paper's network for Hopper.
BALANCE = SPANArch().nmodes / SPANArch().nelems

# Latent dimensions to fall back to, when W_pre alone has more parameters than the budget.
SMALL_LATENT_DIMS = (64, 32, 16, 8, 4, 2, 1)


def count_trainable(modules: Iterable[nn.Module]) -> int:
    """
    :param modules: Modules, which may share parameters
    :return: Number of trainable parameters, each counted once
    """
    params = {id(param): param for module in modules for param in module.parameters() if param.requires_grad}
    return sum(param.numel() for param in params.values())


def count_span(input_dim: int, span_arch: SPANArch | Mapping[str, Any] | None, output_dim: int) -> int:
    """
    :param input_dim: Number of features that enter
    :param span_arch: The network's shape
    :param output_dim: Number of outputs of the linear head; 0 for no head
    :return: Number of parameters of a SPAN network with a linear head
    """
    arch = SPANArch.make(span_arch)
    latent_dim = arch.resolve_latent_dim(input_dim)
    preprocess = {"dense": (input_dim + 1) * latent_dim, "layernorm": 2 * input_dim, "batchnorm": 2 * input_dim}
    scales = latent_dim if arch.basis == "kernel" else 0
    coefficients = latent_dim * arch.n_basis * arch.nmodes
    head = (arch.count_modes(input_dim) + 1) * output_dim
    return preprocess.get(arch.preprocess, 0) + scales + coefficients + head


def count_mlp(input_dim: int, widths: Sequence[int], output_dim: int) -> int:
    """
    :param input_dim: Number of features that enter
    :param widths: The hidden layers
    :param output_dim: Number of outputs
    :return: Number of parameters of an MLP
    """
    sizes = [input_dim, *widths, output_dim]
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


@dataclass(frozen=True)
class Role:
    """
    Networks of one shape, such as an actor or twin critics.

    :param input_dim: Number of features that enter each of them
    :param output_dim: Number of outputs of each
    :param n_networks: How many there are
    """

    input_dim: int
    output_dim: int
    n_networks: int = 1

    def count_span(self, span_arch: SPANArch | Mapping[str, Any] | None) -> int:
        """The parameters of all of them as SPAN networks of this shape."""
        return self.n_networks * count_span(self.input_dim, span_arch, self.output_dim)

    def count_mlp(self, widths: Sequence[int]) -> int:
        """The parameters of all of them as MLPs with these hidden layers."""
        return self.n_networks * count_mlp(self.input_dim, widths, self.output_dim)


class Candidate(NamedTuple):
    """A shape, and the number of parameters that all networks together have with it."""

    span_arch: dict[str, Any]
    params: int


def span_candidates(count: Callable[[dict[str, Any]], int], budget: int) -> list[Candidate]:
    """
    For each kind of spline and each number of elements, the number of modes that comes closest to the budget.

    No candidate is more than 2 % over. Those within 2 % of the budget come first, and among them those with about 10 modes to
    8 elements, kernel splines before B-splines. The others follow by their distance. Modes are products over all dimensions.

    When W_pre alone is larger than the budget, the candidates have fewer latent dimensions than inputs.

    :param count: The number of parameters with a ``span_arch``
    :param budget: The number to come close to
    :return: Candidates, best first
    """
    latent_options: list[dict[str, Any]] = [{}, *(dict(latent_dim=latent_dim) for latent_dim in SMALL_LATENT_DIMS)]
    for latent in latent_options:
        found = [
            (_rank(candidate, budget, order), candidate)
            for order, spline in enumerate(SPLINES)
            for nelems in range(LEAST_ELEMENTS[spline["basis"]], MOST_ELEMENTS + 1)
            if (candidate := _fit_modes(count, dict(nelems=nelems, **spline, **latent), budget)) is not None
        ]
        if found:
            return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])]
    smallest = count(dict(nmodes=1, nelems=2, latent_dim=1))
    raise ValueError(f"The budget is {budget:,} parameters; the smallest SPAN networks here have {smallest:,}. Raise it.")


def _fit_modes(count: Callable[[dict[str, Any]], int], options: dict[str, Any], budget: int) -> Candidate | None:
    """The closest number of modes that is at most 2 % over the budget; None when a single mode is beyond that."""
    one = count(dict(nmodes=1, **options))
    step = count(dict(nmodes=2, **options)) - one  # each further mode adds as many
    limit = math.floor((1 + TOLERANCE) * budget)
    if one > limit:
        return None
    nmodes = 1 + min(max(0, round((budget - one) / step)), (limit - one) // step)
    return Candidate(dict(nmodes=nmodes, **options), one + (nmodes - 1) * step)


def _rank(candidate: Candidate, budget: int, order: int) -> tuple[float, ...]:
    distance = abs(candidate.params - budget) / budget
    arch = candidate.span_arch
    imbalance = abs(math.log2(arch["nmodes"] / arch["nelems"] / BALANCE))
    if distance > TOLERANCE:
        return (1, distance, imbalance, order)
    # Kernel splines first, unless only lopsided ones are that close; then the balance, roughly, and the distance.
    return (0, imbalance > 1, order, round(2 * imbalance), distance)


def match_mlps(targets: Sequence[tuple[Role, int]]) -> list[list[int]]:
    """
    MLPs with two hidden layers, as wide as each other or one apart, that come closest to the given counts.

    Each role is matched separately: the actor by an actor of its size, the critics by critics. Where two shapes are
    equally close, the one that makes up for earlier roles is chosen.

    :param targets: Each role, and the number of parameters that its networks should have together
    :return: The hidden layers of each role
    """
    matched = []
    debt = 0
    for role, target in targets:
        off, widths = min(_near(role, target), key=lambda choice: (abs(choice[0]), abs(debt + choice[0])))
        debt += off
        matched.append(widths)
    return matched


def _near(role: Role, target: int) -> list[tuple[int, list[int]]]:
    """Shapes of about as many parameters, each with its difference from the target."""
    width = 1
    while role.count_mlp([width + 1, width + 1]) <= target:
        width += 1
    shapes = [[width, width], [width, width + 1], [width + 1, width], [width + 1, width + 1]]
    return [(role.count_mlp(shape) - target, shape) for shape in shapes]
