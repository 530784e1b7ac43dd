"""This package removes secrets from every place where they lie, with a way back."""
