"""This package reads the stores of pi."""
