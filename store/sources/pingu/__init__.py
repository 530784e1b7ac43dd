"""This package reads the stores of Pingu."""
