"""What the algorithms with native code have in common."""

import warnings
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_span.algorithms.actor import POLICIES, NativeActor
from sb3_span.algorithms.native_code import NativeCode, extension
from sb3_span.policies.options import SPANOptions

NATIVE = ("_native", "_native_actor")


class WithNativeCode(BaseAlgorithm):
    """
    Mixed into an algorithm of SB3, in front of it: its update, and ``predict``, in C. What that works with is made anew for a
    new policy, and never saved.
    """

    native_class: type[NativeCode]
    _native: NativeCode | None = None
    _native_actor: NativeActor | None = None

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[safe-super]
        if self.device.type != "cpu" and extension is not None and isinstance(self.policy, SPANOptions):
            name = type(self).__name__
            warnings.warn(
                f"The networks are on {self.device}, and sb3_span.{name} updates them in C on the CPU only: there it is SB3's "
                f"own {name}, which takes several times as long for networks this small. Give device='cpu'.",
                stacklevel=2,
            )

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        # Saved with the model: whoever loads it then knows whether it needs the statistics of a VecNormalize.
        normalization = self.get_vec_normalize_env()
        self.trained_on_normalized_observations = normalization is not None and normalization.norm_obs
        return super()._setup_learn(*args, **kwargs)

    def _prepare_native(self) -> Any:
        """
        :return: The native update, ready; None where SB3's own has to do it
        """
        if self._native is None or self._native.policy is not self.policy:
            self._native = self.native_class(self)
        return self._native if self._native.prepare() else None

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
