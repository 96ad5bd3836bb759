"""Names of a trained agent's files in studies."""

MODEL, STUDY_RUN = "model.zip", "run.json"
