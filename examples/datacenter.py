"""
SAC with SPAN controls the cooling of a data centre, simulated by EnergyPlus. Three weeks of July, about two minutes.

Needs Python 3.12 and ``pip install -c constraints-hvac.txt -e '.[hvac,zoo]'``. The paper's ten years are one command:
``sb3-span hvac train``.
"""

from stable_baselines3 import SAC

from sb3_span import SPANPolicy
from sb3_span.hvac import make_env
from sb3_span.hvac.controllers import Controller, fixed, rule
from sb3_span.hvac.monthly import monthly
from sb3_span.hvac.years import simulate

days = dict(first_day="07-01", last_day="07-07")
env = make_env(**days)  # 41 readings of the building, two set points
model = SAC(
    SPANPolicy,
    env,
    batch_size=128,
    learning_starts=500,
    policy_kwargs=dict(span_arch=dict(nmodes=10, nelems=8), max_grad_norm=10.0),
    seed=0,
    device="cpu",
)
model.learn(3 * env.unwrapped.n_steps, progress_bar=True)  # type: ignore[attr-defined]


def agent(observation, env):
    return model.predict(observation, deterministic=True)[0]


controllers: dict[str, Controller] = {"SPAN": agent, "rule": rule, "fixed": fixed}
for name, controller in controllers.items():
    week = simulate(env.unwrapped, controller)  # type: ignore[arg-type]
    july = monthly(week, env.unwrapped.site.building).iloc[0]  # type: ignore[attr-defined]
    print(f"{name:6}return {week['reward'].sum():6.0f}, {july['power'] / 1000:.1f} kW, {100 * july['outside']:.1f} % too warm")
