"""The C code of this room, where it was built."""

import importlib
from typing import Any

try:
    extension: Any = importlib.import_module("sb3_span.algorithms.native._updates")
except ImportError:
    extension = None
