"""This package reads the stores of Rubichan."""
