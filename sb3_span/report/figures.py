"""The figures: learning curves, interquartile means, performance profiles, ablations. One environment each."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from sb3_span.report.formats import label, short_number
from sb3_span.report.load import Run, Study
from sb3_span.report.measures import return_at
from sb3_span.report.scores import AGGREGATE
from sb3_span.report.style import (
    INK,
    PALETTE,
    Picture,
    end_labels,
    method_colors,
    new_figure,
    save,
)
from sb3_span.scores.references import expert_scores

TIME_POINTS = 200


class Figures:
    """
    Draws a study's figures into a folder.

    :param study: The study
    :param folder: Folder for the PNG and SVG files; None to write none
    """

    def __init__(self, study: Study, folder: Path | None) -> None:
        self.study = study
        self.folder = folder
        self.colors = {method: PALETTE[i][0] for method, i in method_colors(study.methods).items()}

    def learning_curves(self) -> list[Picture]:
        """Mean return and one standard deviation over the steps, of all runs, finished or not."""
        pictures = []
        for env in self.study.envs:
            curves = {
                method: _curve_over_steps(runs) for method in self.study.methods if (runs := self.study.select(env, method))
            }
            if not curves:
                continue
            figure, axes = new_figure()
            self._draw_curves(axes, env, curves)
            axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
            axes.set_xlabel(f"environment steps, {_seeds(len(self.study.select(env, method)) for method in curves)}")
            pictures.append(save(figure, self.folder, f"curves_{env}", f"Learning curves on {env} over environment steps"))
        return pictures

    def time_curves(self) -> list[Picture]:
        """The same over minutes of training, of finished runs, in the environments where two methods have some."""
        pictures = []
        for env in self.study.envs:
            curves = {
                method: _curve_over_minutes(runs)
                for method in self.study.methods
                if (runs := self.study.finished(env, method))
            }
            if len(curves) < 2:
                continue
            figure, axes = new_figure()
            self._draw_curves(axes, env, curves)
            axes.set_xlabel(f"minutes of training, {_seeds(len(self.study.finished(env, method)) for method in curves)}")
            pictures.append(save(figure, self.folder, f"time_{env}", f"Learning curves on {env} over minutes of training"))
        return pictures

    def _draw_curves(self, axes: Axes, env: str, curves: dict[str, pd.DataFrame]) -> None:
        """
        :param curves: For each method: x, mean, std, low and high of the runs, and whether it includes all runs
        """
        ends = []
        for method, curve in curves.items():
            color = self.colors[method]
            # No further than any run: beyond a bound such as CartPole's 500 there are no returns.
            low = (curve["mean"] - curve["std"]).clip(lower=curve["low"])
            high = (curve["mean"] + curve["std"]).clip(upper=curve["high"])
            axes.fill_between(curve["x"], low, high, color=color, alpha=0.16, lw=0)
            complete = curve["complete"].to_numpy()
            axes.plot(curve["x"], curve["mean"].where(complete), color=color)
            if not complete.all():  # joined to the full line
                axes.plot(
                    curve["x"], curve["mean"].where(~complete | ~np.append(complete[1:], True)), color=color, lw=1, alpha=0.6
                )
            ends.append((curve["x"].iloc[-1], curve["mean"].iloc[-1], label(method), color))
        if env in expert_scores():
            axes.axhline(expert_scores()[env], color=INK, lw=1, ls="--", alpha=0.6)
            axes.text(
                0.01, expert_scores()[env], "expert", transform=axes.get_yaxis_transform(), va="bottom", fontsize=9, alpha=0.8
            )
        axes.set_xlim(0, max(end[0] for end in ends))
        axes.set_title(env)
        axes.set_ylabel("return")
        end_labels(axes, ends)

    def interquartile_means(self, iqm: pd.DataFrame) -> list[Picture]:
        """
        :param iqm: See :func:`sb3_span.report.scores.iqm`
        """
        if iqm.empty:
            return []
        groups = list(dict.fromkeys(iqm["env"]))[::-1]
        methods = [method for method in self.study.methods if method in set(iqm["method"])]
        n_columns = min(len(methods), 3)
        n_lines = math.ceil(len(methods) / n_columns)
        figure, axes = new_figure(5.4, 0.9 + 0.2 * n_lines + (0.22 + 0.13 * len(methods)) * len(groups))
        for i, method in enumerate(methods):
            rows = iqm[iqm.method == method].set_index("env")
            offset = min(0.22, 0.8 / len(methods)) * ((len(methods) - 1) / 2 - i)
            for group in rows.index:
                y, row = groups.index(group) + offset, rows.loc[group]
                axes.plot([row.low, row.high], [y, y], color=self.colors[method], lw=5, alpha=0.35, solid_capstyle="butt")
                axes.plot(row.iqm, y, "o", color=self.colors[method], ms=5.5)
            axes.plot([], [], "o-", color=self.colors[method], lw=4, label=label(method))
        axes.axvline(1, color=INK, lw=1, ls="--", alpha=0.6)
        axes.set_yticks(range(len(groups)), groups)
        if AGGREGATE in groups:
            axes.axhline(groups.index(AGGREGATE) + 0.5, color=INK, lw=0.8)
        axes.grid(axis="y", visible=False)
        axes.set_ylim(-0.6, len(groups) - 0.4)
        axes.set_xlabel("normalised score: 0 random, 1 expert")
        figure.legend(loc="outside upper center", ncols=n_columns, frameon=False)
        return [save(figure, self.folder, "iqm", "Interquartile means of normalised final scores with 95 % intervals")]

    def performance_profiles(self, profiles: pd.DataFrame) -> list[Picture]:
        """
        :param profiles: See :func:`sb3_span.report.scores.profiles`
        """
        pictures = []
        for group in dict.fromkeys(profiles["env"]):
            figure, axes = new_figure()
            for method in self.study.methods:
                rows = profiles[(profiles.env == group) & (profiles.method == method)]
                if rows.empty:
                    continue
                color = self.colors[method]
                axes.fill_between(rows["tau"], rows["low"], rows["high"], color=color, alpha=0.16, lw=0, step="pre")
                axes.step(rows["tau"], rows["share"], where="pre", color=color, label=label(method))
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            axes.set(ylim=(-0.02, 1.02), xlim=(-0.2, 1.2), ylabel="runs at or above it")
            axes.set_xlabel(f"normalised score, {_seeds(profiles.loc[profiles.env == group, 'seeds'])}")
            axes.set_title(group)
            figure.legend(loc="outside upper center", ncols=3, frameon=False, labelcolor="linecolor", handlelength=1)
            pictures.append(save(figure, self.folder, f"profile_{group}", f"Performance profile of {group}"))
        return pictures

    def ablations(self, cells: pd.DataFrame) -> list[Picture]:
        """
        Box plots with whiskers over the whole range, one option each, every seed a dot.

        :param cells: See :func:`sb3_span.report.scores.ablations`
        """
        pictures = []
        single = cells[~cells["option"].str.contains(" + ", regex=False)] if len(cells) else cells
        for (env, method, option), rows in single.groupby(["env", "method", "option"], sort=False):
            figure, axes = new_figure(4.6, 3.3)
            line = {"color": self.colors[method], "linewidth": 1.6}
            axes.boxplot(
                rows["returns"], whis=(0, 100), widths=0.5, boxprops=line, medianprops=line, whiskerprops=line, capprops=line
            )
            for place, returns in enumerate(rows["returns"], start=1):
                axes.plot([place] * len(returns), returns, "o", color=self.colors[method], ms=4, alpha=0.6)
            axes.set_xticks(range(1, len(rows) + 1), rows["value"])
            for tick, is_base in zip(axes.get_xticklabels(), rows["base"], strict=True):
                tick.set_fontweight("bold" if is_base else "normal")
            axes.grid(axis="x", visible=False)
            axes.set(xlabel=f"{option}, {_seeds(rows['seeds'])}", ylabel="final return")
            axes.set_title(f"{env}, {label(method)}")
            name = f"ablation_{env}_{method}_{option}"
            pictures.append(save(figure, self.folder, name, f"Final returns on {env} by {option}"))
        return pictures


def _seeds(counts: Iterable[int]) -> str:
    least, most = min(counts := list(counts)), max(counts)
    return f"{most} seed{'s' if most > 1 else ''}" if least == most else f"{least} to {most} seeds"


def _curve_over_steps(runs: list[Run]) -> pd.DataFrame:
    """
    :return: x (steps), mean, std (0 for a single run), low and high of the runs, and whether all runs got that far
    """
    curves = pd.DataFrame({i: pd.Series(run.means, index=run.steps) for i, run in enumerate(runs)}).sort_index()
    # Runs of different settings may be evaluated at different steps: between its evaluations a run keeps the last one.
    curves = curves.ffill(limit_area="inside")
    return pd.DataFrame(
        {
            "x": curves.index,
            "mean": curves.mean(axis=1),
            "std": curves.std(axis=1).fillna(0),
            "low": curves.min(axis=1),
            "high": curves.max(axis=1),
            "complete": curves.notna().all(axis=1),
        }
    ).reset_index(drop=True)


def _curve_over_minutes(runs: list[Run]) -> pd.DataFrame:
    """The same over minutes, up to the runs' median; a run that ended earlier keeps its last evaluation."""
    start = max(run.seconds[0] for run in runs)
    seconds = np.linspace(start, max(start, np.median([run.final_seconds for run in runs])), TIME_POINTS)
    curves = pd.DataFrame([[return_at(run, second) for run in runs] for second in seconds])
    values = {"x": seconds / 60, "mean": curves.mean(axis=1), "std": curves.std(axis=1).fillna(0)}
    ends = {"low": curves.min(axis=1), "high": curves.max(axis=1)}
    return pd.DataFrame({**values, **ends, "complete": curves.notna().all(axis=1)})
