"""Names and numbers as people read them."""

import re
from typing import Any

import numpy as np
import pandas as pd

NOTHING = "-"


def label(method: str) -> str:
    """A method's name for readers: ``mlp-large`` is MLP-large."""
    return re.sub(r"\b(span|mlp)\b", lambda match: match[0].upper(), method)


def short_number(value: float) -> str:
    """1500 as 1.5k, 1000000 as 1M."""
    if not np.isfinite(value):
        return NOTHING
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def seeds(n: int, planned: int) -> str:
    return str(n) if n == planned else f"{n} of {planned}"


def steps_range(steps: float, max_steps: float) -> str:
    if steps == max_steps or np.isnan(steps):
        return short_number(steps)
    return f"{short_number(steps)} to {short_number(max_steps)}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def number(value: float, nothing: str = NOTHING) -> str:
    """Three or four significant digits: 6,099, 491, 38.2, 0.43."""
    if not np.isfinite(value):
        return nothing
    digits = 0 if abs(value) >= 99.95 or value == round(value) else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{digits}f}"


def mean_std(mean: float, std: float, nothing: str = NOTHING) -> str:
    if np.isnan(mean):
        return nothing
    return number(mean) if np.isnan(std) else f"{number(mean)} ± {number(std)}"


def p_value(p: float) -> str:
    return NOTHING if np.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.3f}" if p >= 0.001 else f"{p:.4f}"


def steps_and_success(steps: float, success: float, nothing: str = NOTHING) -> str:
    if np.isnan(success):
        return nothing
    return f"{short_number(steps) if success else NOTHING} ({percent(success)})"


def count(value: Any) -> str:
    return "" if pd.isna(value) else f"{int(value):,}"


def fixed(value: float, digits: int = 1, nothing: str = NOTHING) -> str:
    if np.isnan(value):
        return nothing
    return f"{value:,.{digits}f}" if np.isfinite(value) else "∞" if value > 0 else "-∞"


def interval(point: float, low: float, high: float) -> str:
    if np.isnan(point):
        return ""
    return f"{point:.3f}" if np.isnan(low) else f"{point:.3f} [{low:.3f}, {high:.3f}]"
