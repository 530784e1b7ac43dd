"""This package parses the content formats of model vendors into parts, and formats parts again."""
