"""
No notice of the old gym, which d3rlpy installs and Stable-Baselines3 imports where it is installed.

Importing gym prints a notice that it is unmaintained. Importing sb3_span before Stable-Baselines3 prevents that; all warnings
still appear.
"""

import contextlib
import importlib

with contextlib.suppress(ImportError):
    importlib.import_module("gym_notices.notices").notices.clear()
