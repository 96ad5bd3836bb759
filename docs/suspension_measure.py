"""
The agents of the study zoo_configs/suspension.yml on roads and cars that they have not seen, and in C:

    python docs/suspension_measure.py studies/suspension results/suspension

writes rides.csv (every drive of every controller), traces.csv.gz and densities.csv (what the pictures show), device.csv (the
best agents in C in the loop, here and on an emulated Cortex-M4) and agent.safetensors (the best SPAN agent). Some minutes.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch as th
from scipy.signal import welch

from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.device import run_on_device
from sb3_span.deploy.in_the_loop import PolicyInTheLoop
from sb3_span.deploy.policy import DeterministicPolicy
from sb3_span.plants.ride import drive, ride
from sb3_span.plants.roads import ROADS
from sb3_span.plants.suspension import ACCELERATION, ENV_ID, QuarterCarEnv
from sb3_span.plants.suspension_control import Controller, lqr, output_feedback, passive, skyhook
from sb3_span.saved import Trained, load_trained
from sb3_span.saved.shared_file import save_shared
from sb3_span.study.records import read_settings, run_folders

# Trained on classes C and D with 260 to 380 kg, at 15 to 25 m/s.
SPEED, MASSES, SEEDS = 20.0, (240.0, 320.0, 420.0), (10_000, 10_001)
SECONDS = 6.0
# The best agent is chosen on roads and cars as in training, the same for all; the study's evaluations differ between seeds.
CHOOSING_SEEDS = range(20_000, 20_020)
REFERENCES: dict[str, Callable[[], Controller]] = {
    "passive": lambda: passive,
    "skyhook": skyhook,
    "linear": output_feedback,
    "lqr": lqr,
}


def make_env(road: str, mass: float, seconds: float = SECONDS) -> QuarterCarEnv:
    return QuarterCarEnv(road=road, body_mass=mass, speed=SPEED, seconds=seconds, substeps=1)


def controller_of(trained: Trained) -> Controller:
    policy = DeterministicPolicy(trained.policy, trained.vecnormalize)
    return lambda observations, envs: policy.predict(observations)


def measure_rides(controller: Controller) -> list[dict[str, Any]]:
    cases = [(road, mass, seed) for road in ROADS if road != "bump" for mass in MASSES for seed in SEEDS]
    cases += [("bump", mass, SEEDS[0]) for mass in MASSES]
    measured = ride([make_env(road, mass) for road, mass, _ in cases], controller, [seed for *_, seed in cases])
    return [dict(road=r, body_mass=m, seed=s, **asdict(each)) for (r, m, s), each in zip(cases, measured, strict=True)]


def trace(controller: Controller, road: str, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """
    :return: Heights of the road and body accelerations, shapes (T,)
    """
    env = make_env(road, 320.0, seconds)
    outputs, _ = drive([env], controller, [SEEDS[0]])
    return env.heights[1:], outputs[0, :, ACCELERATION]


def measure_in_the_loop(method: str, trained: Trained) -> dict[str, Any]:
    """A drive at 1 kHz on a road and with a car that are new to the agent, with its C code as the controller."""
    policy, accelerations, instructions = DeterministicPolicy(trained.policy, trained.vecnormalize), [], []
    env = make_env("B", 420.0)

    def accelerate(controller: Controller) -> np.ndarray:
        outputs, rewards = drive([env], controller, [SEEDS[0]])
        costs.append(-float(rewards[0, 1000:].mean()))
        return outputs[0, :, ACCELERATION]

    costs: list[float] = []
    for on_device in (False, True):
        with PolicyInTheLoop(policy, on_device) as loop:
            accelerations.append(accelerate(lambda observations, envs, act=loop: np.array([act(observations[0])])))
            instructions = loop.instructions
    predicted = accelerate(controller_of(trained))
    recorded = np.random.default_rng(0).uniform(-2, 2, (500, 5)).astype(np.float32)
    device = run_on_device(policy, write_c(policy, ""), recorded)
    return {
        "method": method,
        "steps": len(instructions),
        "cost": costs[0],
        "same_on_device": bool((accelerations[0] == accelerations[1]).all()),
        "difference_to_predict": float(np.abs(accelerations[0] - predicted).max()),
        "instructions": float(np.mean(instructions)),
        "most_instructions": max(instructions),
        "flash": device.flash,
        "ram": device.ram,
    }


def main(study: Path, output: Path) -> None:
    th.set_num_threads(1)
    output.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, make in REFERENCES.items():
        rows += [dict(method=name, agent="", **row) for row in measure_rides(make())]
        print(name, flush=True)
    best: dict[str, tuple[float, Path]] = {}
    choosing = [QuarterCarEnv() for _ in CHOOSING_SEEDS]
    for folder in run_folders(study):
        settings, controller = read_settings(folder), controller_of(load_trained(folder))
        method = settings["method"]
        cost = float(np.mean([each.cost for each in ride(choosing, controller, CHOOSING_SEEDS)]))
        best[method] = min(best.get(method, (np.inf, folder)), (cost, folder))
        rows += [dict(method=method, agent=settings["seed"], **row) for row in measure_rides(controller)]
        print(folder.name, cost, flush=True)
    pd.DataFrame(rows).to_csv(output / "rides.csv", index=False, float_format="%.5g")

    agents = {method: load_trained(folder) for method, (_, folder) in best.items()}
    save_shared(agents["span"].policy, output / "agent.safetensors", agents["span"].vecnormalize, ENV_ID)
    in_the_loop = [
        measure_in_the_loop(method, trained) | {"agent": best[method][1].name} for method, trained in agents.items()
    ]
    pd.DataFrame(in_the_loop).to_csv(output / "device.csv", index=False, float_format="%.6g")

    controllers = {name: make() for name, make in REFERENCES.items()} | {"span": controller_of(agents["span"])}
    traces, densities = [], {}
    for name, controller in controllers.items():
        for road, seconds in (("bump", 4.0), ("B", 6.0)):
            heights, accelerations = trace(controller, road, seconds)
            times = 1e-3 * np.arange(1, len(heights) + 1)
            traces.append(
                pd.DataFrame(dict(controller=name, road=road, time=times, height=heights, acceleration=accelerations))
            )
        frequencies, densities[name] = welch(trace(controller, "B", 60.0)[1][1000:], 1000.0, nperseg=8192)
    pd.concat(traces)[lambda table: table.index % 4 == 0].to_csv(output / "traces.csv.gz", index=False, float_format="%.5g")
    table = pd.DataFrame({"frequency": frequencies, **densities})
    table[(table.frequency > 0.2) & (table.frequency < 50)].to_csv(output / "densities.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    main(arguments.study, arguments.output)
