"""
Looking at networks: which fit a budget, what an agent has learned, an agent at work.

Needs the extra ``zoo``, for matplotlib and rich.
"""

from sb3_span.inspection.budget import print_budget
from sb3_span.inspection.plotting import NetworkWarning, plot
from sb3_span.inspection.watching import returns, save_gif, show, watch
from sb3_span.saved import load_agent

__all__ = ["NetworkWarning", "load_agent", "plot", "print_budget", "returns", "save_gif", "show", "watch"]
