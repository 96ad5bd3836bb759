"""
The notice of the old gym, which nobody here uses: d3rlpy installs it, and Stable-Baselines3 imports it wherever it is.

Importing it prints a page that tells everybody to leave it. Whoever imports sb3_span before Stable-Baselines3 is spared that;
warnings of all kinds stay as they are.
"""

import contextlib
import importlib

with contextlib.suppress(ImportError):
    importlib.import_module("gym_notices.notices").notices.clear()
