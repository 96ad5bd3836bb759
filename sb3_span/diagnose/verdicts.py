"""What is out of line, in plain words."""

import math
from collections.abc import Mapping

# Beyond these a number is reported in a sentence.
OFF = 0.5  # of the return
HIDDEN = 0.2  # of the return from a state on, behind a time limit
WIDE = 1.5  # outside a batch, relative to inside
UNUSED = 0.1  # of (0, 1)
FLAT = 0.3  # of the latent numbers
DEAD = 0.25  # of the features
ALIKE = 0.25  # of the features, that the effective rank is
START = 1.0  # what SB3 learns the entropy coefficient from
QUIET = 0.01  # standard deviation of actions


def verdicts(numbers: Mapping[str, float], is_normalized: bool) -> list[str]:
    """
    :param numbers: A diagnosis's numbers, and the mean and spread of returns of random actions
    :param is_normalized: Whether the agent sees normalised observations
    :return: A sentence for each that is out of line
    """
    score, chance = numbers["episode_score"], numbers["random_score"]
    learns = score > chance + 2 * numbers["random_spread"]
    no_better = f"It does no better than chance: a return of {in_words(score)}, random actions {in_words(chance)}."
    found = [] if learns else [no_better]
    found += [*_bias(numbers), *_acting(numbers)]
    if broken := [name for name, value in numbers.items() if not math.isfinite(value)]:
        found.append(f"Not finite: {', '.join(broken)}. The networks have diverged, or an update changes nothing.")
    if numbers["interference"] > WIDE:
        found.append(
            f"An update moves the critic's values {numbers['interference']:.2f} times as far outside its batch as inside: "
            "what it learns in one place, it forgets in others."
        )
    for role in ("critic", "actor"):
        if f"{role}/features" in numbers:
            found += _features(role, numbers)
        if not learns:  # agents that do learn may use any part of (0, 1)
            found += _latents(role, numbers, "" if is_normalized else " Normalise the observations.")
    return found


def _bias(numbers: Mapping[str, float]) -> list[str]:
    found = []
    value, came = numbers["value"], numbers["return"]
    # Twice the spread: with a few episodes a smaller difference means nothing.
    if abs(value - came) > max(OFF * abs(came), 2 * numbers["return_spread"]):
        word = "over" if value > came else "under"
        found.append(f"The critics expect {in_words(value)}, the actual return is {in_words(came)}: {word}estimation.")
    if numbers["unseen_tail"] > HIDDEN:
        found.append(
            f"The time limit hides up to {100 * numbers['unseen_tail']:.0f} % of the return: "
            "compare value and return with caution."
        )
    return found


def _acting(numbers: Mapping[str, float]) -> list[str]:
    found = []
    if numbers.get("ent_coef", 0.0) > START:
        found.append(f"The entropy coefficient has grown to {numbers['ent_coef']:.2g}: the bonus outweighs the rewards.")
    if numbers.get("policy_std", 1.0) < QUIET:
        found.append(f"The policy's standard deviation is {numbers['policy_std']:.2g}: it no longer explores.")
    return found


def _features(role: str, numbers: Mapping[str, float]) -> list[str]:
    found = []
    n, dead, rank = (numbers[f"{role}/{name}"] for name in ("features", "dead_features", "effective_rank"))
    if dead > DEAD * n:
        found.append(f"{dead:.0f} of the {role}'s {n:.0f} features are dead: constant over the states seen.")
    if rank < ALIKE * n:
        found.append(f"The {role}'s {n:.0f} features are alike: their effective rank is {rank:.1f}.")
    return found


def _latents(role: str, numbers: Mapping[str, float], advice: str) -> list[str]:
    found = []
    if numbers.get(f"{role}/z_range", 1.0) < UNUSED:
        used = 100 * numbers[f"{role}/z_range"]
        found.append(f"The {role}'s latent dimensions use only {used:.0f} % of (0, 1).{advice}")
    if numbers.get(f"{role}/z_saturated", 0.0) > FLAT:
        flat = 100 * numbers[f"{role}/z_saturated"]
        found.append(f"{flat:.0f} % of the {role}'s latent numbers are saturated.{advice}")
    return found


def in_words(value: float) -> str:
    """A number in words."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"
