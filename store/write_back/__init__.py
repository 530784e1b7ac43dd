"""Carries edits into the stores they came from."""
