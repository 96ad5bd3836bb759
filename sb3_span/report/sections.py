"""A report's sections in order, each with its sentences, tables and figures."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from sb3_span.report import cost, data_sets, measures, scores, tables
from sb3_span.report.figures import Figures
from sb3_span.report.formats import label, short_number, steps_range
from sb3_span.report.load import Study
from sb3_span.report.statistics import IQM_RESAMPLES, MIN_SEEDS
from sb3_span.report.style import STYLE, Picture
from sb3_span.report.tables import Table
from sb3_span.scores.references import expert_scores, paper
from sb3_span.scores.thresholds import SUSTAINED_EVALUATIONS


@dataclass(frozen=True)
class Section:
    """
    :param paragraphs: Plain sentences
    :param points: A list below them
    """

    title: str
    paragraphs: list[str]
    points: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


def build_sections(study: Study, figures_folder: Path | None) -> list[Section]:
    """
    Compute every table and draw every figure.

    :param figures_folder: Where the figures are written; None for tables alone
    """
    figures = Figures(study, figures_folder)
    met = measures.by_threshold(study, measures.arrivals(study))
    with mpl.rc_context(STYLE):
        sections = [status_section(study), _offline(study), _final_scores(study, figures)]
        # Offline runs may have a single evaluation, at the end, and so no learning curve.
        if any(len(run.steps) > 1 for run in study.runs):
            sections += [_curves(study, figures), _learning(study, met), _cost(study, met, figures)]
        sections += [_profiles(study, figures), _ablations(study, figures), _method(study)]
    return [section for section in sections if section.paragraphs or section.tables or section.pictures]


def status_section(study: Study) -> Section:
    points = [f"Failed: {name}: {error}" for name, error in study.failed.items()]
    points += [f"Cannot be read and is left out: {name}: {error}" for name, error in study.broken.items()]
    points += [f"Has returns that are not finite: {run.key}" for run in study.runs if not run.is_finite]
    points += [f"Not in the plan, but reported too: {key}" for key in sorted(study.unplanned - set(study.broken))]
    return Section("Status", [progress(study), *study.remarks], points)


def progress(study: Study) -> str:
    """The study's progress, in a sentence."""
    planned = [run for run in study.runs if run.key not in study.unplanned]
    finished = sum(run.finished for run in planned)
    unfinished = len(planned) - finished
    if study.n_planned is None:
        return f"Found: {_count(finished, 'finished run')}, {unfinished} unfinished."
    if finished == study.n_planned:
        return f"The study is finished: all of its {_runs(finished)} are in this report."
    missing = study.n_planned - len(planned) - len(set(study.broken) - study.unplanned)
    return (
        f"The study is not finished. Finished: {finished} of {_runs(study.n_planned)}; unfinished: {unfinished}; "
        f"no evaluation yet: {missing}. Tables and verdicts may still change."
    )


def _beside_the_paper(study: Study, frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's figures only for the same algorithm, and its aggregate only for the same environments."""
    unlike = _other_algorithms(study)
    if set(scores.scored_environments(study)) != set(paper("networks_online")["env"]):
        unlike.append(scores.AGGREGATE)
    columns = [name for name in frame if name.startswith("paper_")]
    return frame.assign(**{name: frame[name].mask(frame["env"].isin(unlike)) for name in columns})


def _other_algorithms(study: Study) -> list[str]:
    """The environments in which the paper trained with another algorithm."""
    algos = dict(paper("networks_online")[["env", "algo"]].itertuples(index=False))
    return [env for env in study.envs if env in algos and study.algos[env] != {algos[env]}]


def _offline(study: Study) -> Section:
    frame = data_sets.scores(study)
    if frame.empty:
        return Section("Offline scores", [])
    text = "Learned from data sets, and evaluated in the environments that they were collected in."
    return Section("Offline scores", [text], tables=[data_sets.table(frame)])


def _final_scores(study: Study, figures: Figures) -> Section:
    finals = _beside_the_paper(study, scores.final_returns(study))
    iqm = _beside_the_paper(study, scores.iqm(study))
    paragraphs = []
    for other in study.others:
        counts = Counter(finals.loc[finals.other == other, "verdict"])
        shares = ", ".join(f"{what} in {n}" for what, n in sorted(counts.items()))
        ours = f"{label(study.methods[0])} against {label(other)}"
        paragraphs.append(f"{ours}, by final returns in {_count(counts.total(), 'environment')}: {shares}.")
    paragraphs += _without_expert(study, "normalised scores")
    together = scores.scored_environments(study)
    if len(together) < len([env for env in study.envs if env in expert_scores()]):
        over = f"over {', '.join(together)}" if len(together) > 1 else "not possible yet"
        paragraphs.append(
            f"Aggregates are {over}: they include the environments in which every method has a finished run and, where two or "
            f"more have {MIN_SEEDS} seeds of every method, only those."
        )
    shown = [tables.final_returns(finals)] if len(finals) else []
    shown += [tables.iqm(iqm, study.methods[0])] if len(iqm) else []
    return Section("Final scores", paragraphs, tables=shown, pictures=figures.interquartile_means(iqm))


def _curves(study: Study, figures: Figures) -> Section:
    text = (
        "Mean return over seeds and one standard deviation. The line is thin where some seeds are not that far yet, or have "
        "returns that are not finite."
    )
    return Section("Learning curves", [text], pictures=figures.learning_curves())


def _learning(study: Study, met: pd.DataFrame) -> Section:
    paragraphs = [
        f"A threshold is met at the last of {SUSTAINED_EVALUATIONS} evaluations in a row at or above it. Thresholds are "
        "shares of the expert's score; half of a negative score is twice as negative. Only finished runs count.",
        *_without_expert(study, "thresholds"),
        *_other_budgets(study),
    ]
    shown = [tables.anytime(_beside_the_paper(study, measures.anytime(study)))]
    areas = scores.areas(study)
    if len(areas):
        shown.insert(0, tables.areas(areas, study.methods[0]))
    if len(met):
        shown.insert(0, tables.sample_efficiency(_beside_the_paper(study, measures.sample_efficiency(met))))
        shown.insert(1, tables.after_arrival(measures.after_arrival(met)))
    return Section("Sample efficiency", paragraphs, tables=shown)


def _cost(study: Study, met: pd.DataFrame, figures: Figures) -> Section:
    equal_time = measures.equal_time(study)
    shown = [tables.throughput(_beside_the_paper(study, cost.throughput(study)), study.methods[0])]
    if len(met):
        costs = _beside_the_paper(study, cost.costs(met))
        shown += [tables.minutes(costs), tables.expected_cost(costs)]
        if study.others:
            shown.append(tables.cost_ratios(_beside_the_paper(study, cost.cost_ratios(study, costs))))
    shown += [tables.equal_time(equal_time)] if len(equal_time) else []
    machines = machines_of(study)
    paragraphs = [
        f"Measured on {'; '.join(machines)}. Times are those of training, without evaluation. They compare methods only if "
        "all runs had the same machine, and shared it with as many others. Of the paper, with another machine and code, "
        "compare ratios only.",
    ]
    if len(machines) > 1:
        paragraphs.append(f"These times are from {len(machines)} different machines: do not compare them.")
    return Section("Training time and cost", paragraphs, tables=shown, pictures=figures.time_curves())


def _profiles(study: Study, figures: Figures) -> Section:
    profiles = scores.profiles(study)
    if profiles.empty:
        return Section("Performance profiles", [])
    text = (
        "The share of finished runs with at least the normalised final score on the axis, and its 95 % bootstrap interval; "
        "higher is better. A domain has the same number of seeds of each of its environments."
    )
    return Section("Performance profiles", [text], [], [tables.profiles(profiles)], figures.performance_profiles(profiles))


def _ablations(study: Study, figures: Figures) -> Section:
    cells = _beside_the_paper(study, scores.ablations(study))
    if cells.empty:
        return Section("Ablations", [])
    text = (
        "Final returns of finished runs when one option, or several joined by +, is changed and all others are kept. Boxes "
        "span the quartiles, the line is the median, whiskers reach the lowest and the highest seed, dots are seeds. The base "
        "setting is in bold."
    )
    return Section("Ablations", [text], tables=[tables.ablations(cells)], pictures=figures.ablations(cells))


def _method(study: Study) -> Section:
    every = sorted({(run.settings["eval_freq"], run.settings["n_eval_episodes"]) for run in study.runs})
    paragraphs = [
        "Evaluated every " + ", ".join(f"{freq:,} steps with {episodes} episodes" for freq, episodes in every) + ".",
        f"{label(study.methods[0])} is compared with each other method. Nothing is called better or worse on fewer than "
        f"{MIN_SEEDS} seeds of either, or with different budgets. Intervals are from {IQM_RESAMPLES:,} resamples with a fixed "
        "seed: the same records give the same report.",
    ]
    if _other_algorithms(study):
        envs = ", ".join(_other_algorithms(study))
        paragraphs.append(f"The paper trained {envs} with another algorithm: its figures are left out there.")
    versions = Counter(_described(run.settings.get("versions", {})) for run in study.runs)
    points = [f"{_runs(n)}: {described}" for described, n in sorted(versions.items())]
    points += [f"Expert score of {env}: {expert_scores()[env]:g}" for env in study.envs if env in expert_scores()]
    return Section(
        "How it was measured", paragraphs, points, [tables.overview(_beside_the_paper(study, measures.overview(study)))]
    )


def machines_of(study: Study) -> list[str]:
    machines = Counter(_described(run.settings.get("machine", {})) for run in study.runs)
    return [f"{machine} ({_runs(n)})" for machine, n in sorted(machines.items())]


def _described(facts: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items()) or "an unknown set-up"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _runs(n: int) -> str:
    return _count(n, "run")


def _without_expert(study: Study, what: str) -> list[str]:
    unknown = [env for env in study.envs if env not in expert_scores()]
    if not unknown:
        return []
    return [f"No expert score is known for {', '.join(unknown)}: {what} are left out there."]


def _other_budgets(study: Study) -> list[str]:
    budgets = paper("settings").set_index("env")["train_steps"].to_dict()
    ours = {env: study.budgets(env, *study.methods) for env in study.envs if env not in _other_algorithms(study)}
    other = {env: own for env, own in ours.items() if env in budgets and own and own != [budgets[env]]}
    if not other:
        return []
    shown = ", ".join(
        f"{env} {steps_range(own[0], own[-1])} instead of {short_number(budgets[env])}" for env, own in other.items()
    )
    return [f"Budgets differ from the paper's ({shown}), so its shares of the budget are other steps than ours."]
