"""This package reads the stores of Copilot CLI."""
