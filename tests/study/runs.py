"""Small runs that train for real, in seconds."""

from sb3_span.study.plan import Plan, Run

PPO = {"policy": "sb3_span.SPANActorCriticPolicy", "n_envs": 4, "n_steps": 32, "batch_size": 64, "n_epochs": 2}
SAC = {"policy": "sb3_span.SPANPolicy", "learning_starts": 100, "buffer_size": 100_000, "batch_size": 32}
SPAN = {"policy_kwargs": {"span_arch": {"nmodes": 2, "nelems": 3}}}


def ppo_run(steps=1000, seed=0, **hyperparams):
    return make_run("CartPole-v1", "ppo", {**PPO, **SPAN, **hyperparams}, steps, seed)


def sac_run(steps=600, seed=0, env="Pendulum-v1", **hyperparams):
    return make_run(env, "sac", {**SAC, **SPAN, **hyperparams}, steps, seed)


def make_run(env, algo, hyperparams, steps, seed):
    hyperparams = {**hyperparams, "n_timesteps": steps}
    return Run(env, algo, "span", seed, steps, eval_freq=200, n_eval_episodes=3, hyperparams=hyperparams)


def make_plan(*runs, name="test"):
    """A plan, and a study's file that reads as the same."""
    resolved = {
        "name": name,
        "environments": {run.env: {"algo": run.algo, "steps": run.steps} for run in runs},
        "methods": {"span": {"hyperparams": {run.env: dict(run.hyperparams) for run in runs}}},
        "seeds": sorted({run.seed for run in runs}),
        "evaluation": {"every": 200, "episodes": 3},
    }
    return Plan(name, list(runs), resolved)
