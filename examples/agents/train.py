"""
Train the agents in this folder anew, and print the rows of its README's table.

    python examples/agents/train.py                                    # all of them
    python examples/agents/train.py CartPole-v1 --output other/folder  # one, somewhere else

agents.yml has the hyperparameters. Training stops at the first evaluation that is good enough, or keeps the best one. What is
printed about an agent is measured afterwards, in other episodes.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import torch as th
import yaml
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.save_util import recursive_getattr

from sb3_span.policies.budget import count_parameters
from sb3_span.viewing.watching import returns
from sb3_span.zoo import make_agent

FOLDER = Path(__file__).resolve().parent
HYPERPARAMS = FOLDER / "agents.yml"
EVALUATIONS = 20
GOOD_ENOUGH = {"CartPole-v1": 500, "Acrobot-v1": -82, "LunarLander-v3": 230, "InvertedPendulum-v5": 1000, "Pendulum-v1": -160}


def train(env_id: str, steps: int, seed: int) -> BaseAlgorithm:
    """The first agent of a training run that is good enough, or its best."""
    model = make_agent(HYPERPARAMS, env_id, seed)
    every = steps // EVALUATIONS // model.n_envs
    eval_env = make_vec_env(env_id, n_envs=10, seed=1000 + seed)
    with tempfile.TemporaryDirectory() as folder:
        stop = StopTrainingOnRewardThreshold(GOOD_ENOUGH[env_id])
        evaluate = EvalCallback(eval_env, stop, n_eval_episodes=20, eval_freq=every, best_model_save_path=folder)
        model.learn(steps, callback=evaluate)
        return type(model).load(Path(folder, "best_model"), device="cpu")


LAST_SEEN = ["_last_obs", "_last_original_obs", "_last_episode_starts", "ep_info_buffer", "ep_success_buffer"]


def save(model: BaseAlgorithm, path: Path) -> None:
    """A small file: without the optimizers' moments, and without what the agent saw last."""
    names, _ = model._get_torch_save_params()
    for name in names:
        if name.endswith("optimizer"):
            recursive_getattr(model, name).state.clear()
    model.save(path, exclude=LAST_SEEN)


def main() -> None:
    recipes = {name: entry for name, entry in yaml.safe_load(HYPERPARAMS.read_text()).items() if "n_timesteps" in entry}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("env_ids", nargs="*", metavar="ENV", help=f"out of {', '.join(recipes)}; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder for the agents")
    args = parser.parse_args()
    for env_id in args.env_ids:
        if env_id not in recipes:
            parser.error(f"agents.yml has no {env_id!r}; it has {', '.join(recipes)}")
    th.set_num_threads(1)
    args.output.mkdir(parents=True, exist_ok=True)
    rows = ["| file | kB | algorithm | parameters | steps | seed | return, 100 episodes |", "|---|---|---|---|---|---|---|"]
    for env_id in args.env_ids or recipes:
        model = train(env_id, recipes[env_id]["n_timesteps"], args.seed)
        path = args.output / f"{env_id}.zip"
        save(model, path)
        scores = returns(model, env_id, 100)
        size = path.stat().st_size / 1000
        algorithm = type(model).__name__
        score = f"{statistics.mean(scores):.1f} ± {statistics.pstdev(scores):.1f}"
        cells = (
            path.name,
            f"{size:.0f}",
            algorithm,
            f"{count_parameters(model.policy):,}",
            f"{model.num_timesteps:,}",
            args.seed,
            score,
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
