"""
Retrain the agents in this folder, and print the rows of its README's table.

    python examples/agents/train.py                                    # all of them
    python examples/agents/train.py CartPole-v1 --output other/folder  # one, to another folder

They are SPAN's runs of zoo_configs/tuned.yml, as they are at the end of training. What is printed about an agent is measured
afterwards, in other episodes.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from sb3_span.inspection.watching import returns
from sb3_span.policies.budget import count_parameters
from sb3_span.saved import find_vecnormalize, load_agent, load_statistics
from sb3_span.saved.names import MODEL
from sb3_span.saved.shared_file import save_shared
from sb3_span.study.plan import Run, read_plan
from sb3_span.study.run import train
from stable_baselines3.common.base_class import BaseAlgorithm

FOLDER = Path(__file__).resolve().parent
STUDY = FOLDER.parents[1] / "zoo_configs" / "tuned.yml"


def make(run: Run, output: Path) -> tuple[BaseAlgorithm, Path]:
    """
    Train an agent.

    :return: The agent, and its file, with the statistics that its observations are normalised with, if they are
    """
    path = output / f"{run.env}.safetensors"
    with tempfile.TemporaryDirectory() as folder:
        train(run, Path(folder))
        model = load_agent(Path(folder, MODEL))
        statistics = find_vecnormalize(Path(folder, MODEL))
        save_shared(model, path, None if statistics is None else load_statistics(statistics), run.env)
    return model, path


def main() -> None:
    runs = {(run.env, run.seed): run for run in read_plan(STUDY).runs if run.method.startswith("span")}
    env_ids = list(dict.fromkeys(env_id for env_id, _ in runs))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("env_ids", nargs="*", metavar="ENV", help=f"out of {', '.join(env_ids)}; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder for the agents")
    args = parser.parse_args()
    for env_id in args.env_ids or env_ids:
        if (env_id, args.seed) not in runs:
            parser.error(f"{STUDY.name} has no {env_id!r} with seed {args.seed}; it has {', '.join(env_ids)}")
    args.output.mkdir(parents=True, exist_ok=True)
    rows = ["| file | kB | algorithm | parameters | steps | seed | return, 100 episodes |", "|---|---|---|---|---|---|---|"]
    for env_id in args.env_ids or env_ids:
        model, path = make(runs[env_id, args.seed], args.output)
        scores = returns(model, env_id, 100, find_vecnormalize(path))
        cells = (
            path.name,
            f"{path.stat().st_size / 1000:.0f}",
            type(model).__name__,
            f"{count_parameters(model.policy):,}",
            f"{model.num_timesteps:,}",
            args.seed,
            f"{statistics.mean(scores):.1f} ± {statistics.pstdev(scores):.1f}",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
