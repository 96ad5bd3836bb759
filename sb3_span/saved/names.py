"""What the files of a trained agent are called, by studies and by the RL Zoo."""

MODEL, NORMALIZATION, STUDY_RUN = "model.zip", "vecnormalize.pkl", "run.json"
