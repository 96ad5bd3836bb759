"""Plants for engineers, as Gymnasium environments: a car's suspension, chemical processes. Importing this registers them."""

from sb3_span.plants import process, suspension

process.register()
suspension.register()
