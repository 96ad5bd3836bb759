"""The SPAN body as an encoder of d3rlpy, whose own linear heads read the modes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch as th
from d3rlpy.models.encoders import EncoderFactory, register_encoder_factory
from d3rlpy.models.torch import Encoder, EncoderWithAction
from torch.nn import functional

from sb3_span.nn import SPAN, SPANArch
from sb3_span.nn.arch import without_removed


class SPANEncoder(Encoder):
    """
    From observations to modes.

    :param input_dim: Size of an observation
    :param arch: The network's shape
    """

    def __init__(self, input_dim: int, arch: SPANArch) -> None:
        super().__init__()
        self.span = SPAN(input_dim, arch)

    def forward(self, x: th.Tensor) -> th.Tensor:
        """
        :param x: Observations, shape (B, input_dim)
        :return: Modes, shape (B, W)
        """
        return self.span(x)


class SPANEncoderWithAction(EncoderWithAction):
    """
    From observations and actions to modes.

    :param input_dim: Size of an observation
    :param action_size: Size of an action, or the number of discrete ones
    :param arch: The network's shape
    :param discrete_action: Whether actions are numbers of discrete ones
    """

    def __init__(self, input_dim: int, action_size: int, arch: SPANArch, discrete_action: bool) -> None:
        super().__init__()
        self.span = SPAN(input_dim + action_size, arch)
        self._n_discrete = action_size if discrete_action else None

    def forward(self, x: th.Tensor, action: th.Tensor) -> th.Tensor:
        """
        :param x: Observations, shape (B, input_dim)
        :param action: Shape (B, A); discrete ones as numbers, shape (B, 1)
        :return: Modes, shape (B, W)
        """
        if self._n_discrete is not None:
            action = functional.one_hot(action.view(-1).long(), self._n_discrete).to(x.dtype)
        return self.span(th.cat([x, action], dim=1))


@dataclass
class SPANEncoderFactory(EncoderFactory):
    """
    SPAN for any algorithm of d3rlpy, instead of ``VectorEncoderFactory``.

    The fields are those of :class:`sb3_span.SPANArch`.
    """

    nmodes: int = SPANArch.nmodes
    nelems: int = SPANArch.nelems
    basis: str = SPANArch.basis
    degree: int = SPANArch.degree
    latent_dim: int | None = SPANArch.latent_dim
    preprocess: str = SPANArch.preprocess
    slope: float = SPANArch.slope
    group_size: int | None = SPANArch.group_size

    def __post_init__(self) -> None:
        self._arch()

    def create(self, observation_shape: Sequence[int]) -> SPANEncoder:
        return SPANEncoder(_vector_size(observation_shape), self._arch())

    def create_with_action(
        self, observation_shape: Sequence[int], action_size: int, discrete_action: bool = False
    ) -> SPANEncoderWithAction:
        return SPANEncoderWithAction(_vector_size(observation_shape), action_size, self._arch(), discrete_action)

    @staticmethod
    def get_type() -> str:
        return "span"

    @classmethod
    def deserialize_from_dict(cls, dict_config: dict[str, Any]) -> "SPANEncoderFactory":
        return super().deserialize_from_dict(without_removed(dict_config))

    def _arch(self) -> SPANArch:
        return SPANArch(**asdict(self))


def _vector_size(observation_shape: Sequence[int]) -> int:
    if len(observation_shape) != 1 or not isinstance(observation_shape[0], int):
        raise ValueError(
            f"Observations have the shape {tuple(observation_shape)}; SPANEncoderFactory supports vectors. Flatten them, or "
            "choose d3rlpy's PixelEncoderFactory for images."
        )
    return observation_shape[0]


register_encoder_factory(SPANEncoderFactory)
