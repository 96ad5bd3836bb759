"""What the files of a trained agent are called, by studies."""

MODEL, STUDY_RUN = "model.zip", "run.json"
