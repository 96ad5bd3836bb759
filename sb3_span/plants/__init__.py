"""Plants for engineers, as Gymnasium environments: chemical processes. Importing this registers them, and needs no extra."""

from sb3_span.plants import process

process.register()
