"""This package reads the stores of Claude Code."""
