"""The SPAN networks inside a policy: their splines, their modes, and problems with them."""

from dataclasses import dataclass

import torch as th
from stable_baselines3.common.policies import BasePolicy
from torch import nn

from sb3_span.nn import SPAN
from sb3_span.nn.basis import basis_values
from sb3_span.nn.splines import combine
from sb3_span.nn.stacked import pick

# SB3's linear layers that read the modes of a network without its own head, by role.
HEADS = {"pi": ("action_net", "mu"), "vf": ("value_net",)}

# A mode is dead when it moves the outputs by less than this share of what the strongest mode does.
DEAD = 1e-3


@dataclass(frozen=True)
class Network:
    """
    One network of a stack.

    :param role: ``pi``, ``vf`` or ``qf``, or ``features`` for a features extractor
    :param span: The stack
    :param index: Its place in the stack
    :param head: The linear head's weights, shape (outputs, W); None when the layer that reads the modes is not known
    """

    role: str
    span: SPAN
    index: int
    head: th.Tensor | None

    @property
    def scale(self) -> th.Tensor | None:
        """The kernel basis' scales, shape (D,); None for B-splines."""
        return None if self.span.scale is None else self.span.scale[self.index].detach()

    @property
    def weight(self) -> th.Tensor | None:
        """W_pre, shape (D, inputs); None when the preprocessing has no such matrix."""
        return self.span.preprocess.weight[self.index].detach() if self.span.arch.preprocess == "dense" else None  # type: ignore[index]

    @th.no_grad()
    def latent(self, x: th.Tensor) -> th.Tensor:
        """
        :param x: The network's inputs, shape (B, inputs)
        :return: Where that is in the unit cube, shape (B, D)
        """
        return self.span.preprocess(x, self.index)[0]

    def dimensions(self, mode: int) -> range:
        """The latent dimensions whose splines this mode multiplies."""
        first = mode // self.span.arch.nmodes * self.span.group_size
        return range(first, min(first + self.span.group_size, self.span.latent_dim))

    def _values(self, z: th.Tensor) -> th.Tensor:
        """The basis functions, shape (1, B, D, N)."""
        scale = None if self.span.scale is None else pick(self.span.scale, self.index)
        return basis_values(z.unsqueeze(0), scale, self.span.arch.nelems, self.span.arch.degree)

    @th.no_grad()
    def splines(self, z: th.Tensor) -> th.Tensor:
        """
        :param z: Points in the unit cube, shape (B, D)
        :return: The splines of each dimension, shape (B, D, M): those that its group's modes multiply
        """
        return th.einsum("bdn,dnm->bdm", self._values(z)[0], self.span.coefficients[self.index])

    @th.no_grad()
    def modes(self, z: th.Tensor) -> th.Tensor:
        """
        :param z: Points in the unit cube, shape (B, D)
        :return: The products of splines, shape (B, W)
        """
        coefficients = pick(self.span.coefficients, self.index)
        return combine(self._values(z), coefficients, self.span.latent_dim, self.span.group_size)[0]

    def strengths(self, x: th.Tensor) -> th.Tensor:
        """
        How far each mode moves the outputs: its standard deviation over a batch, times its weights in the head.

        :param x: The network's inputs, shape (B, inputs)
        :return: Shape (W,)
        """
        spread = self.modes(self.latent(x)).std(dim=0, correction=0)
        return spread if self.head is None else spread * self.head.norm(dim=0)

    def dead_modes(self, x: th.Tensor) -> list[int]:
        """
        The modes without effect: constant over a batch, or not read by the head.

        :param x: The network's inputs, shape (B, inputs)
        """
        strengths = self.strengths(x)
        return [mode for mode, strength in enumerate(strengths.tolist()) if strength <= DEAD * strengths.max().item()]

    def gaps(self) -> list[int]:
        """The latent dimensions whose bumps are too narrow to overlap: between them every mode is zero."""
        if self.scale is None:
            return []
        # Bumps reach 1.5 / scale to either side, and their centres are 1 / (nelems - 1) apart.
        limit = 3 * (self.span.arch.nelems - 1)
        return [dim for dim, scale in enumerate(self.scale.abs().tolist()) if scale > limit]

    def problems(self, x: th.Tensor) -> list[str]:
        """
        :param x: The network's inputs, shape (B, inputs)
        :return: A sentence for each problem
        """
        found = []
        if dead := self.dead_modes(x):
            are = "is" if len(dead) == 1 else "are"
            found.append(
                f"{len(dead)} of {self.span.n_modes} modes of {self.role!r} {are} dead ({_list(dead)}): constant over the "
                "states seen, or not read by the head. The network has more modes than it uses."
            )
        if gaps := self.gaps():
            found.append(
                f"{self.role!r} has gaps in the latent dimensions {_list(gaps)}: a scale beyond 3 (nelems - 1) = "
                f"{3 * (self.span.arch.nelems - 1)} leaves places between the bumps where all modes are zero. Try fewer "
                "elements, a lower learning rate, or basis='bspline'."
            )
        return found


def _list(indices: list[int]) -> str:
    return ", ".join(str(index + 1) for index in indices)


def find_networks(policy: BasePolicy) -> list[Network]:
    """
    :param policy: Any policy
    :return: Every SPAN network in it, without the targets
    """
    networks = []
    for name, module in policy.named_modules():
        if isinstance(module, SPAN) and "_target" not in name:
            stack = len(module.coefficients)
            # Actor and critic of PPO may be one stack.
            roles = ["pi", "vf"] if name.endswith("pi_vf") else [_role(name)] * stack
            owner = policy.get_submodule(name.partition(".")[0]) if name.startswith("actor.") else policy
            networks += [Network(role, module, index, _head(module, index, owner, role)) for index, role in enumerate(roles)]
    return networks


def _role(name: str) -> str:
    if "features_extractor" in name:
        return "features"
    if name.startswith("actor.") or name.endswith(".pi"):
        return "pi"
    return "vf" if name.endswith(".vf") else "qf"


def _head(span: SPAN, index: int, owner: nn.Module, role: str) -> th.Tensor | None:
    if span.head is not None:
        return span.head.weight[index].detach()
    layers = [getattr(owner, name, None) for name in HEADS.get(role, ())]
    return next((layer.weight.detach() for layer in layers if isinstance(layer, nn.Linear)), None)
