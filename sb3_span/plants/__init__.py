"""Plants to control, as Gymnasium environments."""

from sb3_span.plants.process import register as register_process

register_process()
