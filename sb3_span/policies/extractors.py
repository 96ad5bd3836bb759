"""From observations to features."""

from collections.abc import Mapping
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor, FlattenExtractor, NatureCNN
from stable_baselines3.common.type_aliases import PyTorchObs

from sb3_span.nn import SPAN, SPANArch

# The smallest image, in pixels a side, that goes through NatureCNN's three convolutions.
NATURE_CNN_SIDE = 36


def default_features_extractor_class(
    observation_space: spaces.Space, normalized_image: bool = False
) -> type[BaseFeaturesExtractor]:
    """
    The extractor that SB3's Mlp, Cnn and MultiInput policies would use for these observations.

    :param observation_space: The policy's observation space; images are channel-first at this point
    :param normalized_image: Whether images come as floats, already normalised
    """
    if isinstance(observation_space, spaces.Dict):
        return CombinedExtractor
    if is_image_space(observation_space, normalized_image=normalized_image):
        assert observation_space.shape is not None
        if min(observation_space.shape[1:]) >= NATURE_CNN_SIDE:
            return NatureCNN
    return FlattenExtractor


class SPANFeaturesExtractor(BaseFeaturesExtractor):
    """
    A SPAN body as features extractor, for any SB3 algorithm: its modes are the features.

    Images go through NatureCNN first, Dict observations through CombinedExtractor. With an MLP policy and ``net_arch=[]``
    the algorithm's linear heads read the modes directly.

    :param observation_space: The observation space of the environment
    :param span_arch: The network's shape, a dict with the fields of ``SPANArch``
    :param normalized_image: Whether images come as floats, already normalised
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        span_arch: Mapping[str, Any] | None = None,
        normalized_image: bool = False,
    ) -> None:
        arch = SPANArch.make(span_arch)
        base_class = default_features_extractor_class(observation_space, normalized_image)
        options = {} if base_class is FlattenExtractor else {"normalized_image": normalized_image}
        base = base_class(observation_space, **options)
        super().__init__(observation_space, features_dim=arch.count_modes(base.features_dim))
        self.base = base
        self.span = SPAN(base.features_dim, arch)

    def forward(self, observations: PyTorchObs) -> th.Tensor:
        return self.span(self.base(observations))
