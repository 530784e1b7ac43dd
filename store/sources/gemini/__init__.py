"""This package reads the stores of Gemini CLI."""
