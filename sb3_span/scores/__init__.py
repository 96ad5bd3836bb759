"""The references of results: the paper's numbers, the scores of an expert and of a random policy, and thresholds."""
