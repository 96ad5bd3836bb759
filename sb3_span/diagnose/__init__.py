"""
Why an agent does not learn: its critic's expectations and the returns, what an update disturbs, what its networks use.

Needs the extra ``zoo``, for matplotlib and rich.
"""

from sb3_span.diagnose.callback import DiagnosticsCallback
from sb3_span.diagnose.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "DiagnosticsCallback", "diagnose"]
