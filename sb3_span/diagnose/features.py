"""How a network represents states: where they are in (0, 1), and what its head reads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch as th
from torch import nn

from sb3_span.diagnose.parts import Network
from sb3_span.inspection.networks import DEAD

# How much of (0, 1) a latent dimension uses is measured on the middle 90 % of the states. Beyond these bounds the sigmoid is
# flat: its slope is below a twelfth of the largest.
QUANTILES = (0.05, 0.95)
FLAT = (0.02, 0.98)


@dataclass
class Seen:
    """
    What a network computed, once for each critic if there are several.

    :param features: What the head read, each of shape (B, M)
    :param latents: Where a SPAN network's inputs are in (0, 1), each of shape (B, D); empty for an MLP
    """

    features: list[th.Tensor] = field(default_factory=list)
    latents: list[th.Tensor] = field(default_factory=list)


@th.no_grad()
def see(network: Network, run: Callable[[], Any]) -> Seen:
    """
    :param network: The network to observe
    :param run: A call that evaluates it, once
    """
    seen = Seen()

    def features(_: nn.Module, args: tuple[th.Tensor, ...]) -> None:
        seen.features.extend(_each(args[0]))

    def latents(_: nn.Module, __: Any, z: th.Tensor) -> None:
        seen.latents.extend(_each(z))

    with _removed(
        *(reader.register_forward_pre_hook(features) for reader in network.readers),
        *(span.preprocess.register_forward_hook(latents) for span in network.spans),
    ):
        run()
    return seen


def _each(tensor: th.Tensor) -> list[th.Tensor]:
    """The networks of a stack."""
    return list(tensor.detach().cpu().unbind()) if tensor.dim() == 3 else [tensor.detach().cpu()]


@contextmanager
def _removed(*hooks: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def effective_rank(features: th.Tensor) -> float:
    """
    How many different features there are: the exponential of the entropy of the singular values (Roy and Vetterli, 2007).

    Each feature is centred and divided by its standard deviation first, since a head can scale it at will: n features that
    are independent give n, n identical ones give 1, constant ones do not count.

    :param features: Shape (B, M)
    :return: 0 to M
    """
    if not features.isfinite().all():
        return float("nan")
    centred = features.double() - features.double().mean(dim=0)
    spread = centred.square().mean(dim=0).sqrt()
    centred = (centred / spread)[:, spread > 0]
    if centred.shape[1] == 0:
        return 0.0
    share = th.linalg.svdvals(centred)
    share = share / share.sum()
    return float(th.exp(-th.xlogy(share, share).sum()))


def dead_features(features: th.Tensor) -> int:
    """
    :param features: Shape (B, M)
    :return: How many are constant over the states, relative to the one that varies most
    """
    spread = features.double().std(dim=0, correction=0)
    return int((spread <= DEAD * spread.max()).sum())


def latent_ranges(z: th.Tensor) -> th.Tensor:
    """
    :param z: Shape (B, D)
    :return: How much of (0, 1) the middle 90 % of the states span in each dimension, shape (D,)
    """
    low, high = th.quantile(z, th.tensor(QUANTILES, dtype=z.dtype), dim=0)
    return high - low


def saturation(z: th.Tensor) -> float:
    """
    :param z: Shape (B, D)
    :return: Share of the numbers where the sigmoid is flat
    """
    return float(((z < FLAT[0]) | (z > FLAT[1])).double().mean())
