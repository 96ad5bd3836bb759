"""A trained policy without Python: as C99 for microcontrollers, and as ONNX."""

from sb3_span.deploy.export import export_c, export_onnx
from sb3_span.deploy.verify import Verification
from sb3_span.saved import load_trained

__all__ = ["Verification", "export_c", "export_onnx", "load_trained"]
