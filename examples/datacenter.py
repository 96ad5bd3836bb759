"""
SAC with SPAN controls the cooling of a data centre, simulated by EnergyPlus: three days of July, five times. Half a minute.

Needs Python 3.12 and ``pip install -c constraints-hvac.txt -e '.[hvac,zoo]'``. The paper's ten years are a command:
``sb3-span hvac train``.
"""

import numpy as np
from sb3_span.hvac import BuildingEnv
from sb3_span.hvac.controllers import Controller, fixed, rule
from sb3_span.hvac.monthly import monthly
from sb3_span.hvac.years import simulate
from stable_baselines3 import SAC

# 41 readings of the building, two set points. The same as make_env(...) and gym.make("sb3_span.hvac:SPANDataCenter-v0", ...).
env = BuildingEnv("SPANDataCenter-v0", first_day="07-01", last_day="07-03")
policy_kwargs = dict(span_arch=dict(nmodes=10, nelems=8), max_grad_norm=10.0)
model = SAC("SPANPolicy", env, batch_size=128, learning_starts=400, policy_kwargs=policy_kwargs, seed=0, device="cpu")
model.learn(5 * env.n_steps)


def agent(observation: np.ndarray, env: BuildingEnv) -> np.ndarray:
    return model.predict(observation, deterministic=True)[0]


controllers: dict[str, Controller] = {"SPAN": agent, "rule": rule, "fixed": fixed}
for name, controller in controllers.items():
    days = simulate(env, controller)
    july = monthly(days, env.site.building).iloc[0]
    print(
        f"{name:6} return {days['reward'].sum():5.0f}, {july['power'] / 1000:.1f} kW, {100 * july['outside']:.1f} % too warm"
    )
