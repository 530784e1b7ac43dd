"""This package reads the stores of Crush."""
