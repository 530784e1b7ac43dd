"""This package reads the stores of Goose."""
