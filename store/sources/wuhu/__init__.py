"""This package reads the stores of Wuhu."""
