"""This package reads the stores of claude.ai."""
