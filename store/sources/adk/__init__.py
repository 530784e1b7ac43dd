"""This package reads the stores of google-adk."""
