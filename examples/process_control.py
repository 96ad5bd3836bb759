"""
PPO with SPAN learns to run a four-tank plant in half a minute, and is compared with a tuned PID and with nonlinear MPC.

Needs ``pip install -c constraints.txt -e '.[zoo,process]'``.
"""

import numpy as np
from sb3_span import PPO
from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_controllers import NMPC, PID, Agent, Controller
from sb3_span.plants.process_episodes import play
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize

PLANT = "SPANFourTanks-v0"  # or SPANReactor-v0, SPANExtraction-v0
training = VecNormalize(make_vec_env(PLANT, n_envs=8, seed=0), norm_obs=False)
policy_kwargs = dict(lr_scale=1.0)
model = PPO(
    "SPANPolicy",
    training,
    learning_rate=LinearSchedule(1.5e-3, 0.0, 1.0),
    n_steps=128,
    gamma=0.97,
    policy_kwargs=policy_kwargs,
    seed=0,
    device="cpu",
)
model.learn(25_000)

env = ProcessEnv(PLANT)  # the same as gym.make(PLANT).unwrapped
controllers: dict[str, Controller] = {"SPAN": Agent(model), "PID": PID(), "NMPC": NMPC(env)}
for name, controller in controllers.items():
    episodes = [play(env, controller, seed).measures() for seed in range(5)]
    mean = {measure: np.mean([episode[measure] for episode in episodes]) for measure in episodes[0]}
    print(
        f"{name:5} return {mean['return']:.2f}, ISE {mean['ise']:.2f}, "
        f"error at rest {100 * mean['offset']:.1f} %, violations {mean['violations']:.1f} steps"
    )
