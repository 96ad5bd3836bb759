"""Plants for engineers, as Gymnasium environments: a car's suspension. Importing this registers them, and needs no extra."""

from sb3_span.plants import suspension

suspension.register()
