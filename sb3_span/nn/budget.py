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

# Modes for each element of one product over all dimensions that is called balanced: the paper's network for Hopper.
BALANCE = SPANArch().nmodes / SPANArch().nelems
MOST_GROUPS = 256

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


def span_candidates(
    count: Callable[[dict[str, Any]], int], budget: int, default_arch: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """
    Shapes that come close to a budget: the default one with more or fewer dimensions and modes, and for each kind of spline
    and each number of elements one product over all dimensions. Each has the number of modes that comes closest.

    No candidate is more than 2 % over. Those within 2 % of the budget come first: those of the default's kind,
    then kernel splines, then B-splines, the most balanced of each kind ahead. The others follow by their distance.

    When W_pre alone is larger than the budget, the products are over fewer latent dimensions than there are inputs.

    :param count: The number of parameters with a ``span_arch``
    :param budget: The number to come close to
    :param default_arch: A shape with ``group_size``, ``latent_dim`` and ``nmodes``: the first candidates have its group size
        and splines. None for products over all dimensions only
    :return: Candidates, best first
    """
    found = _groups(count, budget, default_arch) if default_arch else []
    latent_options: list[dict[str, Any]] = [{}, *(dict(latent_dim=latent_dim) for latent_dim in SMALL_LATENT_DIMS)]
    products: list[_Ranked] = []
    for latent in latent_options:
        for order, spline in enumerate(SPLINES, start=1):
            for nelems in range(LEAST_ELEMENTS[spline["basis"]], MOST_ELEMENTS + 1):
                candidate = _fit_modes(count, dict(nelems=nelems, **spline, **latent), budget)
                if candidate is not None:
                    balance = candidate.span_arch["nmodes"] / nelems / BALANCE
                    products.append(_rank(candidate, budget, order, balance))
        if products:
            break
    found += products
    if found:
        return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])]
    smallest = count(dict(nmodes=1, nelems=2, latent_dim=1))
    raise ValueError(f"The budget is {budget:,} parameters; the smallest SPAN networks here have {smallest:,}. Raise it.")


_Ranked = tuple[tuple[float, ...], Candidate]


def _groups(count: Callable[[dict[str, Any]], int], budget: int, default_arch: Mapping[str, Any]) -> list[_Ranked]:
    """Shapes of the default's group size and splines, one for each number of groups."""
    size = default_arch["group_size"]
    usual = default_arch["nmodes"] / (default_arch["latent_dim"] / size)  # modes of a group for each group
    found = []
    for n_groups in range(1, MOST_GROUPS + 1):
        candidate = _fit_modes(count, {**default_arch, "latent_dim": size * n_groups}, budget)
        if candidate is None:
            break
        found.append(_rank(candidate, budget, 0, candidate.span_arch["nmodes"] / n_groups / usual))
    return found


def _fit_modes(count: Callable[[dict[str, Any]], int], options: dict[str, Any], budget: int) -> Candidate | None:
    """The closest number of modes that is at most 2 % over the budget; None when a single mode is beyond that."""
    one = count({**options, "nmodes": 1})
    step = count({**options, "nmodes": 2}) - one  # each further mode adds as many
    limit = math.floor((1 + TOLERANCE) * budget)
    if one > limit:
        return None
    nmodes = 1 + min(max(0, round((budget - one) / step)), (limit - one) // step)
    return Candidate({**options, "nmodes": nmodes}, one + (nmodes - 1) * step)


def _rank(candidate: Candidate, budget: int, order: int, balance: float) -> _Ranked:
    """
    :param order: Of the kind of shape, the preferred one first
    :param balance: 1 for a balanced shape; 2 and 1/2 are equally far from it
    """
    distance = abs(candidate.params - budget) / budget
    imbalance = abs(math.log2(balance))
    if distance > TOLERANCE:
        return (1, distance, imbalance, order), candidate
    # The preferred kind first, unless only lopsided ones are that close; then the balance, roughly, and the distance.
    return (0, imbalance > 1, order, round(2 * imbalance), distance), candidate


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
