"""This package reads the stores of opencode."""
