"""
SPAN against an MLP of the same size: PPO on CartPole-v1, a few seeds side by side.

    make quickstart
    python examples/quickstart.py --seeds 0 1 2 3 4 --eval-every 5000 --eval-episodes 30

Both methods run with the paper's hyperparameters, from hyperparams/span.yml and hyperparams/mlp.yml. Prints a table,
and writes the learning curves as a picture and as CSV.
"""

import argparse
import csv
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Manager, get_context
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch as th
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from sb3_span.report import steps_to_threshold
from sb3_span.zoo import make_agent
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

ENV_ID = "CartPole-v1"
SOLVED = 475
METHODS = {"span": "SPAN", "mlp": "MLP"}
COLORS = {"span": "#1b6ca8", "mlp": "#c8553d"}
HYPERPARAMS = Path(__file__).resolve().parent.parent / "hyperparams"


class Evaluate(BaseCallback):
    """Every so many steps, play some deterministic episodes and report the mean return."""

    def __init__(self, every: int, episodes: int, seed: int, report: Any) -> None:
        super().__init__()
        self.every, self.episodes, self.report = every, episodes, report
        self.eval_env = make_vec_env(ENV_ID, n_envs=episodes, seed=1000 + seed)
        self.next_step = every
        self.rows: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.next_step:
            self.next_step += self.every
            mean, _ = evaluate_policy(self.model, self.eval_env, n_eval_episodes=self.episodes, deterministic=True)
            assert isinstance(mean, float)
            self.rows.append((self.num_timesteps, float(mean)))
            self.report.put(self.rows[-1])
        return True


def train(method: str, seed: int, args: argparse.Namespace, report: Any) -> dict[str, Any]:
    """One run, in its own process."""
    th.set_num_threads(1)
    model = make_agent(HYPERPARAMS / f"{method}.yml", ENV_ID, seed)
    evaluate = Evaluate(args.eval_every, args.eval_episodes, seed, report)
    start = time.monotonic()
    model.learn(args.steps, callback=evaluate)
    return {
        "method": method,
        "seed": seed,
        "rows": evaluate.rows,
        "parameters": sum(param.numel() for param in model.policy.parameters()),
        "seconds": time.monotonic() - start,
    }


def run_all(args: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("return {task.fields[score]:>5}"),
        TimeRemainingColumn(),
        console=console,
    )
    with Manager() as manager, ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        runs = []
        for seed in args.seeds:
            for method in METHODS:
                report = manager.Queue()
                color = COLORS[method]
                bar = progress.add_task(f"[{color}]{METHODS[method]:4}[/] seed {seed}", total=args.steps, score="")
                runs.append((pool.submit(train, method, seed, args, report), report, bar))
        with Live(progress, console=console, refresh_per_second=4):
            while True:
                # Asked before the reports are read: what a run reported before it ended is shown.
                all_done = all(future.done() for future, _, _ in runs)
                for _, report, bar in runs:
                    while not report.empty():
                        step, score = report.get()
                        progress.update(bar, completed=step, score=f"{score:.0f}")
                if all_done:
                    return [future.result() for future, _, _ in runs]
                time.sleep(0.2)


def summarise(results: list[dict[str, Any]], args: argparse.Namespace) -> Table:
    table = Table(title=f"PPO on {ENV_ID}: {args.steps:,} steps, seeds {', '.join(map(str, args.seeds))}")
    for column in ("", "parameters", "solved", "steps to solve (median)", "final return", "seconds a run"):
        table.add_column(column, justify="left" if not column else "right")
    for method, name in METHODS.items():
        runs = [result for result in results if result["method"] == method]
        reached = []
        for run in runs:
            steps, means = zip(*run["rows"], strict=True)
            if (step := steps_to_threshold(steps, means, SOLVED)) is not None:
                reached.append(step)
        finals = [run["rows"][-1][1] for run in runs]
        spread = f" ± {statistics.stdev(finals):.0f}" if len(finals) > 1 else ""
        table.add_row(
            name,
            str(runs[0]["parameters"]),
            f"{len(reached)} of {len(runs)}",
            f"{statistics.median(reached):,.0f}" if reached else "-",
            f"{statistics.mean(finals):.0f}{spread}",
            f"{statistics.mean(run['seconds'] for run in runs):.0f}",
        )
    table.caption = f"solved: five evaluations in a row at {SOLVED} or more, {args.eval_episodes} episodes each"
    return table


def draw(results: list[dict[str, Any]], args: argparse.Namespace, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for method, name in METHODS.items():
        runs = [result["rows"] for result in results if result["method"] == method]
        parameters = next(result["parameters"] for result in results if result["method"] == method)
        for rows in runs:
            axes.plot(*zip(*rows, strict=True), color=COLORS[method], alpha=0.3, linewidth=1)
        means = [(rows[0][0], statistics.mean(score for _, score in rows)) for rows in zip(*runs, strict=True)]
        axes.plot(*zip(*means, strict=True), color=COLORS[method], linewidth=2.5, label=f"{name}, {parameters} parameters")
    axes.axhline(SOLVED, color="0.5", linewidth=1, linestyle=":")
    axes.text(1.01, SOLVED, "solved", color="0.4", va="center", fontsize=9, transform=axes.get_yaxis_transform())
    axes.set(xlabel="environment steps", ylabel="return", ylim=(0, 515), xlim=(0, args.steps))
    axes.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:.0f}k" if steps else "0")
    axes.set_title(f"PPO on {ENV_ID}, mean of {len(args.seeds)} seeds (thin lines: each seed)", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--eval-every", type=int, default=5_000)
    parser.add_argument("--eval-episodes", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="training runs at a time")
    parser.add_argument("--output", type=Path, default=Path("quickstart"), help="folder for the picture and the CSV")
    args = parser.parse_args()
    if args.steps < args.eval_every:
        parser.error(f"--steps {args.steps} ends before the first evaluation, at --eval-every {args.eval_every}")

    console = Console()
    args.output.mkdir(parents=True, exist_ok=True)
    results = run_all(args, console)
    with (args.output / "evaluations.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "seed", "step", "mean_return"])
        for result in results:
            writer.writerows([result["method"], result["seed"], *row] for row in result["rows"])
    draw(results, args, args.output / "cartpole.png")
    console.print(summarise(results, args))
    console.print(f"Learning curves: {args.output / 'cartpole.png'}, evaluations: {args.output / 'evaluations.csv'}")


if __name__ == "__main__":
    main()
