"""What the algorithms with native code have in common."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_span.algorithms.actor import POLICIES, NativeActor, why_not_act
from sb3_span.algorithms.extension import extension
from sb3_span.algorithms.plan import Plan
from sb3_span.algorithms.stepping import listens
from sb3_span.nn.checks import Unsupported
from sb3_span.policies.optimizers import used_learning_rate
from sb3_span.policies.options import SPANOptions
from sb3_span.policies.saturation import warn_of_observations

NATIVE = ("_plan", "_why_not", "_has_logged", "_collecting", "_native_actor", "_is_learning", "_is_certain")


class WithNativeCode(BaseAlgorithm):
    """
    Mixed into an algorithm of SB3, in front of it: its update, its exploration and ``predict``, in C.

    That works on a plan, which has the addresses of the agent's tensors. It is made when ``learn`` starts, or with the first
    update, and rebuilt when something has changed, which is looked for whenever user code may have run. Who replaces methods
    of a policy at run time takes SB3's class.
    """

    build_plan: Callable[[Any], Any]
    _plan: Any = None
    _why_not: str | None = None  # there is no plan
    _has_logged = False
    _collecting: Any = None  # the plan by which experience is being collected
    _native_actor: NativeActor | None = None
    _is_learning = False  # by code of this package and SB3's alone, but for callbacks
    _is_certain = False  # and no callback has run since the plan was found to hold

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[safe-super]
        if self.device.type != "cpu" and extension is not None and isinstance(self.policy, SPANOptions):
            name = type(self).__name__
            warnings.warn(
                f"The networks are on {self.device}, and sb3_span.{name} updates them in C on the CPU only: there it is SB3's "
                f"own {name}, which takes several times as long for networks this small. Give device='cpu'.",
                stacklevel=2,
            )

    def native_status(self) -> str:
        """
        :return: Whether this agent is trained in C, and if not, why not
        """
        self._ready_plan()
        name = type(self).__name__
        if self._why_not is not None:
            return f"{name} runs in PyTorch: {self._why_not}."
        why_not = self._why_not_act()
        if why_not is None and getattr(self, "action_noise", None) is not None:
            why_not = f"action_noise ({type(self.action_noise).__name__}) is added to them"
        if why_not is not None:
            return f"{name} runs in C, but its actions are drawn by PyTorch: {why_not}."
        return f"{name} runs in C."

    def _ready_plan(self) -> Any:
        """
        :return: A plan that fits the agent as it is now; None where SB3's own code has to do it. That is not asked again
            before the next ``learn``.
        """
        if not self._is_certain:
            if self._why_not is None and (self._plan is None or not self._plan.holds(self)):
                self._make_plan()
            self._is_certain = self._is_learning
        return self._plan

    def _has_run(self, callback: BaseCallback, name: str) -> None:
        """A callback's function of this name has been called: it may have changed anything."""
        if self._is_certain and listens(callback, name):
            self._is_certain = False

    def _make_plan(self) -> Plan | None:
        self._plan = self._why_not = None
        try:
            self._plan = type(self).build_plan(self)
        except Unsupported as reason:
            self._give_up(reason)
        return self._plan

    def _give_up(self, reason: Unsupported) -> None:
        """SB3's own code goes on."""
        self._plan, self._why_not = None, str(reason)

    def _why_not_act(self) -> str | None:
        """Why SB3 has to draw the actions, where the update is native."""
        if type(self).predict is not WithNativeCode.predict:
            return f"{type(self).__name__} has a predict of its own"
        return why_not_act(self.policy)

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        """SB3's ``learn``."""
        self._is_learning = type(self).__bases__[0] is WithNativeCode
        try:
            return super().learn(*args, **kwargs)  # type: ignore[safe-super]
        finally:
            self._is_learning = self._is_certain = False

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        # Saved with the model: whoever loads it then knows whether it needs the statistics of a VecNormalize.
        normalization = self.get_vec_normalize_env()
        self.trained_on_normalized_observations = normalization is not None and normalization.norm_obs
        self._why_not = self._native_actor = None
        if not self._has_logged:
            self._has_logged = True
            status = self.native_status()
            logging.getLogger("sb3_span").log(logging.INFO if self._why_not is None else logging.WARNING, status)
        done = super()._setup_learn(*args, **kwargs)
        self._is_certain = False  # callbacks come next
        if isinstance(self.policy, SPANOptions):
            warn_of_observations(self._last_obs)
        return done

    def _update_learning_rate(self, optimizers: list[th.optim.Optimizer] | th.optim.Optimizer) -> None:
        super()._update_learning_rate(optimizers)
        # SB3 logs the rate that was asked for; of a SPAN policy it may be a part of the one that is used (lr_scale).
        first = optimizers[0] if isinstance(optimizers, list) else optimizers
        self.logger.record("train/learning_rate", used_learning_rate(first))

    def set_parameters(self, *args: Any, **kwargs: Any) -> None:
        super().set_parameters(*args, **kwargs)
        self._plan = self._why_not = self._native_actor = None
        self._is_certain = False

    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """SB3's ``predict``, in C where the action is the best one and the networks are known."""
        if deterministic and isinstance(self.policy, POLICIES):
            if self._native_actor is None or self._native_actor.policy is not self.policy:
                self._native_actor = NativeActor(self.policy)
            actions = self._native_actor.predict(observation)
            if actions is not None:
                return actions, state
        return super().predict(observation, state, episode_start, deterministic)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in NATIVE}

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *NATIVE]
