"""The options of a SPAN network, and the check of their values."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any, Union

BASES = ("kernel", "bspline")
PREPROCESSES = ("dense", "layernorm", "batchnorm", "minmax", "none")

# An observation wider than this (CNN features, an LSTM's state) is projected down: W_pre is
# latent_dim x input_dim, and its square would dwarf the rest of the network.
WIDE_INPUT = 128
WIDE_LATENT_DIM = 64

# Options of earlier versions, and what they did.
REMOVED = {"bounded": "modes through tanh", "mode_norm": "modes through layer normalisation"}


@dataclass(frozen=True)
class SPANArch:
    """
    The shape of one SPAN network: what SB3's ``net_arch`` is to an MLP.

    :param nmodes: Number of modes M; with ``group_size``, those of each group
    :param nelems: Number of spline elements for each latent dimension
    :param basis: ``"kernel"``: ``nelems`` quadratic bumps with one learned width for each dimension;
        ``"bspline"``: ``nelems + degree + 2`` B-splines on fixed uniform knots
    :param degree: Polynomial degree of the splines; the kernel basis is quadratic
    :param latent_dim: Number of latent dimensions D that the observation is mapped to.
        By default that of the observation, or 64 when it has more than 128
    :param preprocess: How the observation gets into [0, 1]: ``"dense"`` (a linear layer and a sigmoid),
        ``"layernorm"`` or ``"batchnorm"`` (followed by a sigmoid), ``"minmax"`` (running bounds), ``"none"`` (clamped)
    :param slope: How steep the splines are when training starts, as straight lines: one of each mode goes through zero in the
        middle with one to two times this slope, the others have random slopes of this standard deviation, divided by the
        square root of the number of dimensions that are multiplied
    :param group_size: Number of latent dimensions that a mode multiplies. The dimensions are split into groups of this size,
        the last of which may be smaller, and each group has its own ``nmodes`` modes; the linear head reads all of them.
        None is one group of all dimensions, as in the paper

    These defaults are the paper's. The policies' default shape is another: docs/options.md
    """

    nmodes: int = 10
    nelems: int = 8
    basis: str = "kernel"
    degree: int = 2
    latent_dim: int | None = None
    preprocess: str = "dense"
    slope: float = 2.5
    group_size: int | None = None

    def __post_init__(self) -> None:
        _check_choice("basis", self.basis, BASES)
        _check_choice("preprocess", self.preprocess, PREPROCESSES)
        _check_integer("nmodes", self.nmodes, 1, "Try 10.")
        if self.basis == "kernel":
            _check_integer("nelems", self.nelems, 2, "Try 4 or 8, or basis='bspline', which accepts 1.")
            if self.degree != 2 or not isinstance(self.degree, Integral):
                raise ValueError(
                    f"span_arch['degree'] is {self.degree!r}; the kernel basis is quadratic and supports only degree 2. "
                    "Leave degree out, or choose basis='bspline', which supports any degree from 1."
                )
        else:
            _check_integer("nelems", self.nelems, 1, "Try 2 or 4.")
            _check_integer("degree", self.degree, 1, "1 is piecewise linear, 2 quadratic, 3 cubic.")
        if not isinstance(self.slope, Real) or isinstance(self.slope, bool) or not 0 < self.slope < math.inf:
            raise ValueError(f"span_arch['slope'] is {self.slope!r}; it must be a positive number. Leave it out for 2.5.")
        if self.group_size is not None:
            _check_integer("group_size", self.group_size, 1, "Try 2, or leave it out for products over all dimensions.")
        if self.latent_dim is not None:
            _check_integer("latent_dim", self.latent_dim, 1, "Leave it out to keep the observation's size.")
            if self.preprocess != "dense":
                raise ValueError(
                    f"span_arch['latent_dim'] is {self.latent_dim!r} with preprocess={self.preprocess!r}; only the dense "
                    "preprocessing can change the number of dimensions. Leave latent_dim out, or choose preprocess='dense'."
                )
        for field in fields(self):  # Python's numbers in place of numpy's, which cannot be scripted or written to JSON
            value = getattr(self, field.name)
            if isinstance(value, Real) and not isinstance(value, bool):
                object.__setattr__(self, field.name, int(value) if isinstance(value, Integral) else float(value))

    @classmethod
    def make(cls, options: Union["SPANArch", Mapping[str, Any], None] = None) -> "SPANArch":
        """
        Turn a user's ``span_arch`` into a checked ``SPANArch``.

        :param options: A dict with any of the fields above, or None for the defaults
        """
        if isinstance(options, cls):
            without_removed(vars(options))  # one that an earlier version has pickled
            return options
        allowed = [field.name for field in fields(cls)]
        if options is None:
            options = {}
        if not isinstance(options, Mapping):
            raise ValueError(
                f"span_arch is {options!r}; it must be a dict with keys from {allowed}, "
                "for instance span_arch=dict(nmodes=10, nelems=8)."
            )
        options = without_removed(options)
        for key in options:
            if key not in allowed:
                raise ValueError(f"span_arch has an unknown key {key!r}; allowed are {allowed}. Remove or rename it.")
        return cls(**options)

    def resolve_latent_dim(self, input_dim: int) -> int:
        """
        :param input_dim: Number of features that enter the network
        :return: Number of latent dimensions D
        """
        if self.latent_dim is not None:
            return self.latent_dim
        if self.preprocess == "dense" and input_dim > WIDE_INPUT:
            return WIDE_LATENT_DIM
        return input_dim

    def resolve_group_size(self, input_dim: int) -> int:
        """
        :param input_dim: Number of features that enter the network
        :return: Number of latent dimensions of a group
        """
        latent_dim = self.resolve_latent_dim(input_dim)
        return latent_dim if self.group_size is None else min(self.group_size, latent_dim)

    def count_modes(self, input_dim: int) -> int:
        """
        :param input_dim: Number of features that enter the network
        :return: Number of modes W of all groups, the width of the latent vector that the linear head reads
        """
        return -(-self.resolve_latent_dim(input_dim) // self.resolve_group_size(input_dim)) * self.nmodes

    @property
    def n_basis(self) -> int:
        """Number of basis functions N for each latent dimension."""
        return self.nelems if self.basis == "kernel" else self.nelems + self.degree + 2

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it is written to disk."""
        return asdict(self)


def without_removed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those of earlier versions, which saved models may name. One that was used is refused."""
    for name, meaning in REMOVED.items():
        if options.get(name):
            raise ValueError(
                f"span_arch has {name}={options[name]!r} ({meaning}), which this version no longer has: modes of two or three "
                f"dimensions (group_size) learn more. Leave {name} out, and retrain a model that was saved with it."
            )
    return {key: value for key, value in options.items() if key not in REMOVED}


def _check_integer(name: str, value: Any, minimum: int, advice: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"span_arch[{name!r}] is {value!r}; it must be an integer of at least {minimum}. {advice}")


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"span_arch[{name!r}] is {value!r}; choose one of {list(allowed)}.")
