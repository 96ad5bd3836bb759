"""Gradient clipping for algorithms that have no such option: SAC, TD3, DDPG and TQC clip nothing in SB3."""

import functools
from numbers import Real
from typing import Any

import torch as th
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule


class _Clipped(th.optim.Optimizer):
    """Mixed into an optimizer class, in front of it: clips the norm of all gradients together, then steps."""

    unclipped_class: type[th.optim.Optimizer]

    def __init__(self, params: Any, max_grad_norm: float, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        # Unlike the parameter groups, the defaults are pickled and yet not replaced by load_state_dict.
        self.defaults["max_grad_norm"] = max_grad_norm

    def step(self, closure: Any = None) -> Any:
        assert closure is None, "a closure computes gradients inside the step, after they were clipped"
        params = (param for group in self.param_groups for param in group["params"])
        _clip([param.grad for param in params if param.grad is not None], self.defaults["max_grad_norm"])
        return super().step()

    def __reduce__(self) -> Any:
        # The class is made at run time, so pickle cannot find it by its name.
        return _new_clipped, (self.unclipped_class,), self.__getstate__()


def _clip(gradients: list[th.Tensor], max_norm: float) -> None:
    """``torch.nn.utils.clip_grad_norm_`` with fewer operations, for gradients that are all on one device."""
    if not gradients:
        return
    norm = th.linalg.vector_norm(th.stack(th._foreach_norm(gradients))).item()
    if not norm <= max_norm:  # nor is a NaN
        th._foreach_mul_(gradients, max_norm / (norm + 1e-6))


@functools.cache
def clipped(optimizer_class: type[th.optim.Optimizer]) -> type[th.optim.Optimizer]:
    """
    :param optimizer_class: Any optimizer, such as ``th.optim.Adam``
    :return: The same with one more argument, ``max_grad_norm``
    """
    return type(f"Clipped{optimizer_class.__name__}", (_Clipped, optimizer_class), {"unclipped_class": optimizer_class})


def _new_clipped(optimizer_class: type[th.optim.Optimizer]) -> th.optim.Optimizer:
    cls = clipped(optimizer_class)  # type: ignore[arg-type]
    return cls.__new__(cls)


class GradientClipping(BasePolicy):
    """
    Mixed into a policy of SB3, in front of it.

    :param max_grad_norm: Clip the gradients of each optimizer's parameters to this norm; None does not clip
    """

    def __init__(self, *args: Any, max_grad_norm: float | None = None, **kwargs: Any) -> None:
        is_number = isinstance(max_grad_norm, Real) and not isinstance(max_grad_norm, bool)
        if max_grad_norm is not None and not (is_number and max_grad_norm > 0):
            raise ValueError(
                f"max_grad_norm is {max_grad_norm!r}; it must be a positive number, or None to leave the gradients "
                "as they are. Try 10.0."
            )
        self.max_grad_norm = max_grad_norm
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        asked_for = self.optimizer_class, self.optimizer_kwargs
        if self.max_grad_norm is not None:
            self.optimizer_class = clipped(self.optimizer_class)  # type: ignore[arg-type]
            self.optimizer_kwargs = {**self.optimizer_kwargs, "max_grad_norm": self.max_grad_norm}
        super()._build(lr_schedule)  # type: ignore[misc]
        # What is saved with the policy is what the user asked for.
        self.optimizer_class, self.optimizer_kwargs = asked_for

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        data["max_grad_norm"] = self.max_grad_norm
        return data
