"""The source for opencode."""
