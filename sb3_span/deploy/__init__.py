"""A trained policy without Python: as C99 for microcontrollers, and as ONNX."""
