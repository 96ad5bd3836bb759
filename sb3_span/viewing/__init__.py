"""
Seeing networks: which fit a budget, what an agent has learned, an agent at work.

Needs the extra ``zoo``, for matplotlib and rich.
"""

from sb3_span.saved import load_agent
from sb3_span.viewing.budget import print_budget
from sb3_span.viewing.plotting import NetworkWarning, plot
from sb3_span.viewing.watching import returns, save_gif, show, watch

__all__ = ["NetworkWarning", "load_agent", "plot", "print_budget", "returns", "save_gif", "show", "watch"]
