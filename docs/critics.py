"""
What short products do for SAC's critics on Walker2d-v5: the picture of docs/diagnose.md, and the numbers next to it.

    python docs/critics.py results/diagnose

trains what is missing there: SPAN whose modes multiply three latent dimensions or all of them, and the MLP, with tuned
settings at a rate that does not fall, seeds 0 to 2, 40,000 steps. That takes some minutes on two cores. It draws
docs/images/critics.png and prints the table.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize

import sb3_span
from sb3_span.diagnose import DiagnosticsCallback
from sb3_span.diagnose.runs import ENT_COEF, RETURN, STEP, VALUE, draw_runs
from sb3_span.inspection.figure import save_figure
from sb3_span.policies.sac import ClippedMlpPolicy

ENV, STEPS, EVERY, SEEDS = "Walker2d-v5", 40_000, 5_000, range(3)
SINGLE = "diagnose/interference_single"
COMMON: dict[str, Any] = dict(batch_size=128, learning_starts=1000, tau=0.02, gradient_steps=2, device="cpu")
GROUPS = dict(group_size=3, latent_dim=27, nmodes=6, nelems=4)
PRODUCT = dict(pi=dict(nmodes=18, nelems=4), qf=dict(nmodes=9, nelems=4))  # as many parameters
METHODS: dict[str, tuple[Any, float, dict[str, Any]]] = {
    "SPAN, groups of three": (sb3_span.SPANPolicy, 2e-3, dict(span_arch=GROUPS, lr_scale=1.0, max_grad_norm=1.0)),
    "SPAN, one product": (sb3_span.SPANPolicy, 2e-3, dict(span_arch=PRODUCT, lr_scale=1.0, max_grad_norm=1.0)),
    "MLP": (ClippedMlpPolicy, 2e-3, dict(net_arch=dict(pi=[23, 23], qf=[30, 30]), max_grad_norm=10.0)),
}


def file_of(folder: Path, method: str, seed: int) -> Path:
    return folder / f"{method.replace(',', '').replace(' ', '-').lower()}-{seed}" / "progress.csv"


def train(folder: Path, method: str, seed: int) -> None:
    th.set_num_threads(1)
    file = file_of(folder, method, seed)
    if file.exists():
        return
    policy, rate, policy_kwargs = METHODS[method]
    env = VecNormalize(make_vec_env(ENV, seed=seed), norm_reward=False)
    model = sb3_span.SAC(policy, env, learning_rate=rate, seed=seed, policy_kwargs=policy_kwargs, **COMMON)
    unfinished = folder / f".{file.parent.name}"
    model.set_logger(configure(str(unfinished), ["csv"]))
    model.learn(STEPS, callback=DiagnosticsCallback(every=EVERY), log_interval=10**9)
    model.logger.close()
    rows = pd.read_csv(unfinished / "progress.csv").dropna(subset=[VALUE])
    (unfinished / "progress.csv").write_text(rows[[STEP, VALUE, RETURN, ENT_COEF, SINGLE]].to_csv(index=False))
    unfinished.rename(file.parent)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    cases = [(method, seed) for seed in SEEDS for method in METHODS]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(train, [folder] * len(cases), *zip(*cases, strict=True)))
    runs = [(method, file_of(folder, method, seed)) for method, seed in cases]
    save_figure(draw_runs(runs, f"SAC on {ENV}: what the critics expect, and what comes"), Path("docs/images/critics.png"))
    for method in METHODS:
        last = pd.concat([pd.read_csv(file_of(folder, method, seed)).tail(1) for seed in SEEDS])
        cells = [
            f"{last[name].median():,.2f} ({last[name].min():,.2f} to {last[name].max():,.2f})"
            for name in (VALUE, RETURN, ENT_COEF, SINGLE)
        ]
        print(f"| {method} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
