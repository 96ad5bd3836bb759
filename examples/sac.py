"""SAC with a SPAN of chosen shape on Pendulum-v1, saved and loaded. Half a minute: sb3_span.SAC is SB3's with updates in C."""

from pathlib import Path
from tempfile import TemporaryDirectory

from sb3_span import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

policy_kwargs = dict(
    # One dict for all networks, or one each for the actor (pi) and the critics (qf).
    span_arch=dict(pi=dict(nmodes=6, nelems=6), qf=dict(nmodes=10, nelems=8)),
    max_grad_norm=10.0,
)
env = make_vec_env("Pendulum-v1", seed=0)
model = SAC("SPANPolicy", env, policy_kwargs=policy_kwargs, seed=0, device="cpu")
model.learn(15_000)

with TemporaryDirectory() as folder:
    model.save(Path(folder) / "pendulum")
    model = SAC.load(Path(folder) / "pendulum")
mean, std = evaluate_policy(model, env, n_eval_episodes=20)
print(f"return {mean:.0f} +- {std:.0f} (solved is about -150, a random policy has about -1200)")
