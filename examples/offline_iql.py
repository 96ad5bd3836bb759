"""
IQL with SPAN from a data set of Minari: trained, evaluated and saved. Needs the extra `offline`.

By default on the door of the Adroit hand, a few minutes; `--dataset` names another one.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from sb3_span.offline import REFERENCE_SCORES, SPANIQLConfig, evaluate, load_minari, normalized_score
from sb3_span.offline.evaluation import make_envs

# isort: split
import d3rlpy
from d3rlpy.logging import NoopAdapterFactory

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="D4RL/door/expert-v2")
parser.add_argument("--steps", type=int, default=20_000)
parser.add_argument("--episodes", type=int, default=100)
args = parser.parse_args()

d3rlpy.seed(0)
# Not d3rlpy.datasets.get_minari, which pairs observations with the wrong actions.
dataset, env = load_minari(args.dataset, download=True)
# SPAN for actor, critic and value, in the paper's sizes; any other algorithm of d3rlpy accepts SPANEncoderFactory as well.
algo = SPANIQLConfig().create()
algo.fit(dataset, n_steps=args.steps, n_steps_per_epoch=args.steps, logger_adapter=NoopAdapterFactory(), show_progress=True)

with TemporaryDirectory() as folder:
    algo.save(str(Path(folder) / "door.d3"))
    algo = d3rlpy.load_learnable(str(Path(folder) / "door.d3"))
returns = evaluate(algo, make_envs(env, args.episodes), args.episodes, seed=0)
print(f"return {returns.mean():.0f} +- {returns.std():.0f} over {args.episodes} episodes")
env_id = env.spec.id if env.spec else ""
if env_id in REFERENCE_SCORES:
    print(f"normalised score {normalized_score(env_id, returns).mean():.1f}: 0 for a random policy, 100 for an expert")
