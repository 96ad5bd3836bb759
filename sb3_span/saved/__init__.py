"""Saved models: found by file, folder or name, loaded, with the statistics of their observations and their environment."""

from sb3_span.saved.environments import env_name, env_needed, env_of
from sb3_span.saved.find import find_agent, find_model
from sb3_span.saved.load import Trained, load_agent, load_policy, load_trained
from sb3_span.saved.normalization import find_vecnormalize
from sb3_span.saved.shared_file import SharedAgent, load_shared, save_shared
from sb3_span.saved.statistics import load_statistics, save_statistics

__all__ = [
    "SharedAgent",
    "Trained",
    "env_name",
    "env_needed",
    "env_of",
    "find_agent",
    "find_model",
    "find_vecnormalize",
    "load_agent",
    "load_policy",
    "load_shared",
    "load_statistics",
    "load_trained",
    "save_shared",
    "save_statistics",
]
