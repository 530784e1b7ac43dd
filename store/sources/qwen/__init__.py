"""This package reads the stores of Qwen Code."""
