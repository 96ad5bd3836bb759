"""What SB3's policies lack: clipped gradients (for SAC and similar algorithms), learning rates by part."""

import functools
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import torch as th
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule

from sb3_span.nn import SPAN

# What can have its own learning rate: the parts of the SPAN networks, whose heads are the layers that read the modes, and all
# else that the policy trains: features extractors, LSTMs, and a standard deviation that does not depend on the state.
SPAN_PARTS = ("preprocess", "coefficients", "scale", "head")
PARTS = (*SPAN_PARTS, "other")
# SB3's names for the linear layers that read the modes, where they are not SPAN's own.
HEADS = {"action_net", "value_net", "mu", "log_std"}


class Adapted(th.optim.Optimizer):
    """
    Mixed into an optimizer class, in front of it: clips all gradients together, scales learning rates, steps.

    Its options are in ``defaults``. Unlike the parameter groups these are pickled, yet not replaced by load_state_dict: the
    present options count, whatever a checkpoint was trained with.
    """

    plain_class: type[th.optim.Optimizer]

    def step(self, closure: Any = None) -> Any:
        assert closure is None, "a closure computes gradients inside the step, after they were clipped"
        max_grad_norm, lr_scale = self.defaults.get("max_grad_norm"), self.defaults.get("lr_scale")
        if max_grad_norm is not None:
            params = (param for group in self.param_groups for param in group["params"])
            _clip([param.grad for param in params if param.grad is not None], max_grad_norm)
        if lr_scale is None:
            return super().step()
        # SB3 sets the learning rate, saves and loads the optimizer with one group: there are several during the step only.
        whole = _only_group(self)
        groups = _split(whole, lr_scale)
        self.param_groups[:] = groups  # in place: an optimizer inside of this one may have the same list
        try:
            return super().step()
        finally:
            # Counters that an optimizer keeps in its groups are the same in all of them.
            whole.update((key, value) for key, value in groups[0].items() if key not in ("params", "lr"))
            self.param_groups[:] = [whole]

    step.hooked = True  # type: ignore[attr-defined]  # torch's hooks are in the step of the class behind

    def __repr__(self) -> str:
        """Shows the learning rates that are used."""
        lr_scale, whole = self.defaults.get("lr_scale"), list(self.param_groups)
        if lr_scale is None or len(whole) != 1:
            return super().__repr__()
        self.param_groups[:] = _split(whole[0], lr_scale)
        try:
            return super().__repr__()
        finally:
            self.param_groups[:] = whole

    def __reduce__(self) -> Any:
        # The class is made at run time, so pickle cannot find it by its name.
        return _new_adapted, (self.plain_class,), self.__getstate__()


def _only_group(optimizer: th.optim.Optimizer) -> dict[str, Any]:
    if len(optimizer.param_groups) != 1:
        raise ValueError(
            f"The optimizer has {len(optimizer.param_groups)} groups of parameters; lr_scale needs one, as SB3 makes it. "
            "Set policy_kwargs=dict(lr_scale=1.0) to use your own groups."
        )
    return optimizer.param_groups[0]


def _split(group: dict[str, Any], lr_scale: list[float]) -> list[dict[str, Any]]:
    """Split a group of parameters by their factors of the learning rate."""
    groups: dict[float, dict[str, Any]] = {}
    for param, factor in zip(group["params"], lr_scale, strict=True):
        if factor not in groups:
            groups[factor] = {**group, "params": [], "lr": group["lr"] * factor}
        groups[factor]["params"].append(param)
    return list(groups.values())


def _clip(gradients: list[th.Tensor], max_norm: float) -> None:
    """``torch.nn.utils.clip_grad_norm_`` with fewer operations, for gradients that are all on one device."""
    if not gradients:
        return
    norm = th.linalg.vector_norm(th.stack(th._foreach_norm(gradients))).item()
    if not norm <= max_norm:  # nor is a NaN
        th._foreach_mul_(gradients, max_norm / (norm + 1e-6))


@functools.cache
def _adapted(optimizer_class: type[th.optim.Optimizer]) -> type[th.optim.Optimizer]:
    return type(f"Adapted{optimizer_class.__name__}", (Adapted, optimizer_class), {"plain_class": optimizer_class})


def _new_adapted(optimizer_class: type[th.optim.Optimizer]) -> th.optim.Optimizer:
    cls = _adapted(optimizer_class)  # type: ignore[arg-type]
    return cls.__new__(cls)


def _adapt(optimizer: th.optim.Optimizer) -> None:
    if not isinstance(optimizer, Adapted):
        optimizer.__class__ = _adapted(type(optimizer))  # type: ignore[arg-type]


def clip_gradients(optimizer: th.optim.Optimizer, max_grad_norm: float) -> None:
    """
    Make the optimizer clip the norm of all its gradients together before each step.

    :param optimizer: Any of torch's, such as ``Adam``
    :param max_grad_norm: The largest norm that is not clipped
    """
    _adapt(optimizer)
    optimizer.defaults["max_grad_norm"] = max_grad_norm


def scale_learning_rates(
    optimizer: th.optim.Optimizer, parts: Mapping[th.nn.Parameter, str], lr_scale: Mapping[str, float]
) -> None:
    """
    Make the optimizer train each part with its own multiple of the learning rate.

    :param optimizer: Any of torch's, with one group of parameters
    :param parts: The part that each parameter belongs to
    :param lr_scale: For each part the factor
    """
    _adapt(optimizer)
    optimizer.defaults["lr_scale"] = [lr_scale[parts[param]] for param in _only_group(optimizer)["params"]]


def used_learning_rate(optimizer: th.optim.Optimizer) -> float:
    """The learning rate that most of an optimizer's parameters are trained with."""
    lr_scale = optimizer.defaults.get("lr_scale")
    groups = optimizer.param_groups if lr_scale is None else _split(_only_group(optimizer), lr_scale)
    return max(groups, key=lambda group: sum(param.numel() for param in group["params"]))["lr"]


def parts_of(module: th.nn.Module) -> dict[th.nn.Parameter, str]:
    """The part that each parameter of a policy belongs to."""
    parts = dict.fromkeys(module.parameters(), "other")
    for name, layer in module.named_modules():
        path = name.split(".")
        is_features = any("features_extractor" in part for part in path)  # the user's, whatever the names in it
        if isinstance(layer, th.nn.Linear) and not is_features and not HEADS.isdisjoint(path):
            parts.update(dict.fromkeys(layer.parameters(), "head"))
    for span in module.modules():
        if isinstance(span, SPAN):
            parts.update(dict.fromkeys(span.parameters(), "head"))
            parts.update(dict.fromkeys(span.preprocess.parameters(), "preprocess"))
            parts[span.coefficients] = "coefficients"
            if span.scale is not None:
                parts[span.scale] = "scale"
    return parts


def read_lr_scale(lr_scale: Any) -> dict[str, float]:
    """
    :param lr_scale: What the user passed: a number, or one for each of some parts
    :return: One for each part
    """
    given = lr_scale if isinstance(lr_scale, Mapping) else dict.fromkeys(PARTS, lr_scale)
    for part, factor in given.items():
        is_number = isinstance(factor, Real) and not isinstance(factor, bool)
        if part not in PARTS or not (is_number and 0 <= factor < float("inf")):
            raise ValueError(
                f"lr_scale is {lr_scale!r}; it must be a number that multiplies the learning rate, or a dict with a number "
                f"for any of the parts {list(PARTS)}, for instance lr_scale=dict(coefficients=10.0); the others have 1."
            )
    return {part: float(given.get(part, 1.0)) for part in PARTS}


def optimizers_of(policy: BasePolicy) -> Iterator[th.optim.Optimizer]:
    """A policy's own optimizer, or those of its actor and critic; not one inside a user's features extractor."""
    for owner in (policy, getattr(policy, "actor", None), getattr(policy, "critic", None)):
        if isinstance(optimizer := getattr(owner, "optimizer", None), th.optim.Optimizer):
            yield optimizer


class GradientClipping(BasePolicy):
    """
    Mixed into a policy of SB3, in front of it.

    :param max_grad_norm: Clip the gradients of each optimizer's parameters to this norm; None does not clip
    """

    def __init__(self, *args: Any, max_grad_norm: float | None = None, **kwargs: Any) -> None:
        is_number = isinstance(max_grad_norm, Real) and not isinstance(max_grad_norm, bool)
        if max_grad_norm is not None and not (is_number and max_grad_norm > 0):
            raise ValueError(
                f"max_grad_norm is {max_grad_norm!r}; it must be a positive number, or None for no clipping. Try 10.0."
            )
        self.max_grad_norm = max_grad_norm
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]
        if self.max_grad_norm is not None:
            for optimizer in optimizers_of(self):
                clip_gradients(optimizer, self.max_grad_norm)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        data["max_grad_norm"] = self.max_grad_norm
        return data
