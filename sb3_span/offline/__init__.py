"""
The network inside d3rlpy, and data sets of Minari.

Importing it registers SPAN with ``d3rlpy.load_learnable``, and lets ``algo.save_policy`` write ONNX again.
"""

try:
    import d3rlpy  # noqa: F401
    import gymnasium_robotics  # noqa: F401
    import minari  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"Offline learning needs d3rlpy, Minari and gymnasium-robotics: {error}. "
        "Install them with: pip install 'sb3_span[offline]'"
    ) from error

from sb3_span.offline.adroit import REFERENCE_SCORES, normalized_score
from sb3_span.offline.encoder import SPANEncoderFactory
from sb3_span.offline.evaluation import evaluate
from sb3_span.offline.export import save_policy as _save_policy  # noqa: F401  replaces d3rlpy's
from sb3_span.offline.iql import SPANIQL, SPANIQLConfig, make_config
from sb3_span.offline.minari_data import load_minari

__all__ = [
    "REFERENCE_SCORES",
    "SPANIQL",
    "SPANEncoderFactory",
    "SPANIQLConfig",
    "evaluate",
    "load_minari",
    "make_config",
    "normalized_score",
]
