"""
Every agent of a study and its references on the same episodes:

    python docs/process_measure.py studies/process --output results/process

writes ``episodes.csv``, a row for each episode, and ``trajectories.csv.gz``, the first episode of each plant step by step,
with the agents of the first seed. Models are unpickled: only for studies that you trust.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_span.atomic_files import written_whole
from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_controllers import NMPC, PID, Agent, Controller, Fixed
from sb3_span.plants.process_episodes import Episode, play
from sb3_span.plants.process_plants import PLANTS
from sb3_span.saved import load_agent
from sb3_span.study.folder import read_stored
from sb3_span.study.records import MODEL

# Seeds of the episodes. Neither training nor the tuning of the PID controllers has them.
FIRST = 2000


def controllers(env: ProcessEnv, study: Path) -> Iterator[tuple[str, int, Controller]]:
    """
    :return: Method, seed of its training (0 for the references), controller
    """
    yield "nmpc", 0, NMPC(env)
    yield "pid", 0, PID()
    yield "fixed", 0, Fixed()
    for key, record in sorted(read_stored(study).records.items()):
        if record.settings["env"] == env.plant.env_id and record.finished:
            yield record.settings["method"], record.settings["seed"], Agent(load_agent(study / "runs" / key / MODEL))


def table_of(episode: Episode, env: ProcessEnv) -> pd.DataFrame:
    """
    :return: A row for each quantity and step
    """
    plant = env.plant
    columns = {
        **{each.name: episode.controlled[:, i] for i, each in enumerate(plant.set_points)},
        **{f"{each.name} set point": episode.set_points[:, i] for i, each in enumerate(plant.set_points)},
        **{each.name: episode.inputs[:, i] for i, each in enumerate(plant.inputs)},
    }
    table = pd.DataFrame(columns)
    table.insert(0, "time", (table.index + 1) * env.sample_time)
    return table.melt("time", var_name="quantity")


def measure(study: Path, output: Path, episodes: int) -> None:
    """
    :param study: The folder of a study with its models
    :param output: The folder for the two files
    :param episodes: For each controller
    """
    rows: list[dict[str, Any]] = []
    trajectories: dict[tuple[str, str], pd.DataFrame] = {}
    for env_id in PLANTS:
        env = ProcessEnv(env_id)
        for method, seed, controller in controllers(env, study):
            for number in range(FIRST, FIRST + episodes):
                episode = play(env, controller, number)
                rows.append({"env": env_id, "method": method, "seed": seed, "episode": number, **episode.measures()})
                if (env_id, method) not in trajectories:
                    names = {"env": env_id, "method": method}
                    table = table_of(episode, env).assign(**names)
                    trajectories[env_id, method] = table[[*names, "quantity", "time", "value"]]
            print(f"{env_id} {method} seed {seed}: return {pd.DataFrame(rows[-episodes:])['return'].mean():.3f}", flush=True)
    output.mkdir(parents=True, exist_ok=True)
    with written_whole(output / "episodes.csv") as path:
        pd.DataFrame(rows).to_csv(path, index=False, float_format="%.6g")
    with written_whole(output / "trajectories.csv.gz") as path:
        table = pd.concat(trajectories.values())
        table.to_csv(path, index=False, float_format="%.5g", compression={"method": "gzip", "mtime": 0})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="evaluate a study's agents, NMPC and PID on the same episodes")
    parser.add_argument("study", type=Path)
    parser.add_argument("--output", type=Path, default=Path("results/process"))
    parser.add_argument("--episodes", type=int, default=10)
    arguments = parser.parse_args()
    measure(arguments.study, arguments.output, arguments.episodes)
