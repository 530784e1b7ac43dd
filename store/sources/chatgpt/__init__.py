"""This package reads the stores of ChatGPT."""
