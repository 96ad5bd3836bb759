"""
gym is installed with d3rlpy, and imported by Stable-Baselines3 wherever it is: then it tells everybody to leave it.

Nobody here uses it, so it is asked to keep quiet, before Stable-Baselines3 is imported.
"""

import contextlib
import importlib

with contextlib.suppress(ImportError):
    importlib.import_module("gym_notices.notices").notices.clear()
