"""
PPO with SPAN learns to control a car's suspension, in a minute or two; then it drives on roads and a car that it has not seen.

Needs ``pip install -c constraints.txt -e '.[zoo]'``. The study behind docs/suspension.md is zoo_configs/suspension.yml.
"""

import sb3_span.plants  # noqa: F401  (registers QuarterCar-v0)
from sb3_span import PPO
from sb3_span.plants.ride import ride
from sb3_span.plants.suspension import QuarterCarEnv
from sb3_span.plants.suspension_control import lqr, passive, skyhook
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize

# Roads of class C and D, 260 to 380 kg, at 15 to 25 m/s; a command every 10 ms.
env = VecNormalize(make_vec_env("QuarterCar-v0", n_envs=8, seed=0), norm_obs=False, gamma=0.98)
model = PPO(
    "SPANPolicy",
    env,
    n_steps=256,
    learning_rate=LinearSchedule(1e-3, 0.0, 1.0),
    gamma=0.98,
    # Commands begin small: the force limit, 1,500 N, would throw the car about.
    policy_kwargs=dict(log_std_init=-1.5),
    seed=0,
    device="cpu",
)
model.learn(100_000)

controllers = {
    "passive": passive,
    "skyhook": skyhook(),
    "SPAN": lambda observations, envs: model.predict(observations, deterministic=True)[0],
    "LQR": lqr(),  # knows the whole state, which a car does not measure
}
# Other roads, a heavier car, and ten times as many commands a second.
roads = ("A", "B", "E", "bump")
cars = [QuarterCarEnv(road=road, body_mass=420.0, speed=20.0, substeps=1) for road in roads]
print(f"weighted acceleration in m/s2  {'  '.join(f'{road:>5}' for road in roads)}")
for name, controller in controllers.items():
    rides = ride(cars, controller, seeds=[0] * len(cars))
    print(f"{name:29}  {'  '.join(f'{each.weighted:5.2f}' for each in rides)}")
