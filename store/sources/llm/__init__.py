"""This package reads the stores of llm."""
