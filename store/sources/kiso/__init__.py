"""This package reads the stores of Kiso."""
