"""This package reads the stores of Codex."""
