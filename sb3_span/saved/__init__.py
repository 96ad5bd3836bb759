"""Trained agents and what belongs to them, in files."""
