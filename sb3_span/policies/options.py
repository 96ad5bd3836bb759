"""How every SPAN policy reads its options, whatever the algorithm."""

from collections.abc import Mapping
from typing import Any, ClassVar

from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule

from sb3_span.nn import SPANArch
from sb3_span.policies.extractors import default_features_extractor_class
from sb3_span.policies.optimizers import GradientClipping, optimizers_of, parts_of, read_lr_scale, scale_learning_rates
from sb3_span.policies.saturation import warn_of_bounds

MLP_OPTIONS = ("net_arch", "activation_fn")
# With one of these in span_arch, the others have the paper's values instead of those of the policy's default shape.
SHAPE = {"nmodes", "nelems", "basis", "degree", "latent_dim", "group_size", "preprocess"}


def split_by_role(
    span_arch: Mapping[str, Any] | None, roles: tuple[str, ...], defaults: Mapping[str, Any] | None = None
) -> dict[str, SPANArch]:
    """
    Read ``span_arch``: one shape for all networks, or one for each role, as in SB3's ``net_arch``.

    :param span_arch: What the user passed
    :param roles: The roles that the algorithm's networks have
    :param defaults: The default shape, where it is not ``SPANArch``'s
    :return: The shape of each role's network
    """
    if not isinstance(span_arch, Mapping) or not any(
        key in roles or isinstance(value, Mapping | SPANArch) for key, value in span_arch.items()
    ):
        arch = _make_arch(span_arch, defaults)
        return {role: arch for role in roles}
    for key in span_arch:
        if key not in roles:
            raise ValueError(
                f"span_arch has the key {key!r}; the networks here are {list(roles)}. Give either one set of options for "
                f"all of them, or one dict each: span_arch=dict({', '.join(f'{role}=dict(nmodes=10)' for role in roles)})."
            )
    archs = {}
    for role in roles:
        try:
            archs[role] = _make_arch(span_arch.get(role), defaults)
        except ValueError as error:
            raise ValueError(f"In span_arch[{role!r}]: {error}") from None
    return archs


def _make_arch(options: Any, defaults: Mapping[str, Any] | None) -> SPANArch:
    """The policy's default shape, unless ``span_arch`` names a part of it: then the rest are ``SPANArch``'s own defaults."""
    if options is None or (isinstance(options, Mapping) and SHAPE.isdisjoint(options)):
        options = {**(defaults or {}), **(options or {})}
    return SPANArch.make(options)


class SPANOptions(BasePolicy):
    """
    Mixed into a policy of SB3, in front of it: has ``span_arch`` in place of SB3's ``net_arch``, chooses a features
    extractor that fits the observations, scales learning rates, and remembers every option when the policy is saved.
    """

    span_roles: ClassVar[tuple[str, ...]]
    default_lr_scale: ClassVar[float | Mapping[str, float]] = 1.0
    default_arch: ClassVar[Mapping[str, Any]] = dict(group_size=3, latent_dim=48, nmodes=8, nelems=4)

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule,
        span_arch: Mapping[str, Any] | None = None,
        lr_scale: float | Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        for option in MLP_OPTIONS:
            if option in kwargs:
                raise ValueError(
                    f"{type(self).__name__} got {option}={kwargs[option]!r}, which shapes an MLP; a SPAN network has no such "
                    f"option. Pass span_arch=dict(nmodes=..., nelems=...) instead, or choose 'MlpPolicy' to train an MLP."
                )
        shape = {name: kwargs[name] for name in kwargs if name in SPANArch.__dataclass_fields__}
        if shape:
            options = ", ".join(f"{name}={value!r}" for name, value in shape.items())
            raise ValueError(f"{type(self).__name__} got {options}, which belongs in span_arch: span_arch=dict({options}).")
        if "max_grad_norm" in kwargs and not isinstance(self, GradientClipping):
            raise ValueError(
                f"{type(self).__name__} got max_grad_norm={kwargs['max_grad_norm']!r}, which is the algorithm's option here. "
                "Pass max_grad_norm to the algorithm."
            )
        warn_of_bounds(observation_space)
        # SB3 builds the networks inside super().__init__, so this has to be there before.
        self.archs = split_by_role(span_arch, self.span_roles, self.default_arch)
        self.lr_scale = read_lr_scale(self.default_lr_scale if lr_scale is None else lr_scale)
        if kwargs.get("features_extractor_class") is None:
            kwargs["features_extractor_class"] = default_features_extractor_class(
                observation_space, normalized_image=not kwargs.get("normalize_images", True)
            )
        super().__init__(observation_space, action_space, lr_schedule, net_arch=[], **kwargs)
        if any(factor != 1.0 for factor in self.lr_scale.values()):
            for optimizer in optimizers_of(self):
                scale_learning_rates(optimizer, parts_of(self), self.lr_scale)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """torch's own, but an agent that was saved with another default shape is told how to load."""
        try:
            return super().load_state_dict(state_dict, *args, **kwargs)
        except RuntimeError as error:
            saved = [value.shape for name, value in state_dict.items() if name.endswith("coefficients")]
            if "size mismatch" not in str(error) or not saved:
                raise
            shape = f"dict(nmodes={saved[0][3]}, nelems={saved[0][2]})"
            raise RuntimeError(  # a ValueError would be misread by SB3's load
                f"The saved networks have another shape: {saved[0][3]} modes of {saved[0][2]} basis functions on "
                f"{saved[0][1]} latent dimensions. If they have the default shape of an earlier version, load the agent with "
                f"custom_objects=dict(policy_kwargs=dict(span_arch={shape})), and save it again."
            ) from error

    def make_network(
        self, network_class: type, role: str, kwargs: dict[str, Any], features_extractor: BaseFeaturesExtractor | None = None
    ) -> Any:
        """
        One of the policy's networks, made as SB3 makes its own.

        :param network_class: Accepts ``span_arch`` and the arguments of SB3's network
        :param role: Whose shape it has
        :param kwargs: What SB3 would pass to its own network
        :param features_extractor: The extractor that it shares with another network; None for its own
        """
        kwargs = {key: value for key, value in kwargs.items() if key not in MLP_OPTIONS}
        return network_class(span_arch=self.archs[role], **self._update_features_extractor(kwargs, features_extractor)).to(
            self.device
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        for option in MLP_OPTIONS:
            del data[option]
        data["lr_scale"] = self.lr_scale
        data["span_arch"] = {role: arch.to_dict() for role, arch in self.archs.items()}
        # SB3 leaves this out: an unshared policy would be loaded as a shared one and act differently.
        if hasattr(self, "share_features_extractor"):  # DQN and QR-DQN have one network, and nothing to share
            data["share_features_extractor"] = self.share_features_extractor
        return data
